"""How one value of each leaf kind is read from Protobuf's wire format into the arena.

A reader returns the position after the value, BAD, or NO_ROOM where the arena's strings are full, and an issue. One
from FIRST_KEPT on leaves the column null or, where the value is the same, filled; the record's bytes are kept.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.protobuf.column_kernels import null_leaf, put_bytes, put_symbol, set_valid, store_number
from engine.formats.protobuf.operations import (
    BOOL,
    DEFAULT_WRITTEN,
    ENDS_EARLY,
    ENUM,
    FIXED32,
    FLAGS,
    FLOAT,
    IMPLICIT,
    INT32,
    KEY_NOT_UTF8,
    KIND,
    LAST_NUMBER,
    LAST_VARINT,
    MAP_KEY,
    NOT_UTF8,
    NUMBER_RANGE,
    PRESENCE,
    SINT32,
    SINT64,
    STORE,
    STORE_BYTES,
    STRING,
    UINT32,
)
from engine.formats.protobuf.time_kernels import read_message_leaf
from engine.formats.protobuf.wire_kernels import BAD, NO_ROOM, read_length, read_varint
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, load_i64, word
from engine.kernels.utf8 import is_utf8


@inner(forceinline=True)
def read_bits(base, at, end, kind):
    """A number of any kind: (its bits, sign-extended or with zeros in front; position or BAD; issue)."""
    if kind <= LAST_VARINT:
        bits, at, issue = read_varint(base, at, end)
        whole = bits
        if kind in (INT32, ENUM):
            bits = np.int64(np.int32(bits))
        elif kind == UINT32:
            bits &= 0xFFFFFFFF
        elif kind == BOOL:
            bits = np.int64(bits != 0)
        elif kind == SINT64:
            return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), at, issue
        elif kind == SINT32:
            # Zigzag: the lowest bit is the sign, by which all others are inverted.
            bits &= 0xFFFFFFFF
            issue = issue if bits == whole or at < 0 else np.int64(NUMBER_RANGE)
            return (bits >> 1) ^ -(bits & 1), at, issue
        if bits != whole and at >= 0:
            issue = np.int64(NUMBER_RANGE)
        return bits, at, issue
    if kind <= FLOAT:
        if end - at < 4:
            return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)
        bits = np.int64(load_i32(base + at))
        return (bits & 0xFFFFFFFF if kind == FIXED32 else bits), at + 4, np.int64(0)
    if end - at < 8:
        return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)
    return load_i64(base + at), at + 8, np.int64(0)


@inner(forceinline=True)
def read_bytes(base, size, at, end, row, memory, entry):
    """A string or bytes: (position, BAD or NO_ROOM; issue)."""
    length, at, issue = read_length(base, at, end)
    if at < 0:
        return at, issue
    not_ascii = put_bytes(row, memory, entry, base + at, length, size - at)
    if not_ascii == NO_ROOM:
        return np.int64(NO_ROOM), issue
    if not_ascii != 0 and word(row, KIND) == STRING and not is_utf8(base + at, base + at + length):
        if word(row, FLAGS) & MAP_KEY:
            return np.int64(BAD), np.int64(KEY_NOT_UTF8)
        null_leaf(row, memory, entry)
        return at + length, np.int64(NOT_UTF8)
    set_valid(row, memory, entry, 1)
    if length == 0 and word(row, PRESENCE) == IMPLICIT:
        issue = np.int64(DEFAULT_WRITTEN)
    return at + length, issue


@inner(forceinline=True)
def read_leaf(base, size, at, end, row, memory, entry, is_again, tables, free):
    """One value of the operation's kind into entry ``entry`` of its column: (position, BAD or NO_ROOM; issue)."""
    kind = word(row, KIND)
    if kind <= LAST_NUMBER:
        bits, at, issue = read_bits(base, at, end, kind)
        if at < 0:
            return at, issue
        if bits == 0 and word(row, PRESENCE) == IMPLICIT:
            issue = np.int64(DEFAULT_WRITTEN)
        if kind == ENUM:
            room, found = put_symbol(row, memory, entry, bits, tables)
            return at if room >= 0 else room, found if issue == 0 else issue
        store_number(row, memory, entry, bits)
        set_valid(row, memory, entry, 1)
        return at, issue
    if word(row, STORE) == STORE_BYTES:
        return read_bytes(base, size, at, end, row, memory, entry)
    return read_message_leaf(base, at, end, row, memory, entry, is_again, free)
