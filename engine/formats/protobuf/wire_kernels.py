"""Protobuf's wire format: varints, lengths, and passing over a field that is not known.

Source: "Encoding", protobuf.dev. Bytes are passed as addresses, for the reason that ``addresses_of`` gives: nothing at
``base + at`` is read before ``at`` was compared with ``end``. A reader returns the position after it, or BAD.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.protobuf.operations import (
    BAD_TAG,
    ENDS_EARLY,
    GROUP_DEPTH,
    LONG_VARINT,
    MAX_GROUP_DEPTH,
    NOT_MINIMAL,
    NUMBER_RANGE,
    WIRE_32,
    WIRE_64,
    WIRE_BYTES,
    WIRE_END_GROUP,
    WIRE_GROUP,
    WIRE_VARINT,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_u8, set_word, word

BAD = -1
NO_ROOM = -2


@inner
def read_long_varint(base, at, end):
    """A varint of any length: (value, all its 64 bits in an int64; position after it or BAD; issue)."""
    total = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(load_u8(base + at))
        at += 1
        # Ten bytes of seven bits have six more than 64: of the tenth, the lowest alone may be set.
        if shift > np.uint64(63):
            return np.int64(0), np.int64(BAD), np.int64(LONG_VARINT)
        total |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            issue = np.int64(NOT_MINIMAL) if byte == np.uint64(0) and shift > np.uint64(0) else np.int64(0)
            if shift == np.uint64(63) and byte > np.uint64(1):
                issue = np.int64(NUMBER_RANGE)
            return np.int64(total), at, issue
        shift += np.uint64(7)
    return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)


@inner(forceinline=True)
def read_varint(base, at, end):
    """As ``read_long_varint``; one byte is the most frequent length."""
    if at < end:
        byte = np.int64(load_u8(base + at))
        if byte < 0x80:
            return byte, at + 1, np.int64(0)
    return read_long_varint(base, at, end)


@inner(forceinline=True)
def read_length(base, at, end):
    """A length with as many bytes after it: (length, position after the number or BAD, issue)."""
    length, at, issue = read_varint(base, at, end)
    if at >= 0 and (length < 0 or length > end - at):
        return length, np.int64(BAD), np.int64(ENDS_EARLY)
    return length, at, issue


@inner
def skip_value(base, at, end, wire):
    """After a value of a wire type that is no group's: (position or BAD, issue)."""
    size = np.int64(0)
    if wire == WIRE_VARINT:
        _, at, issue = read_long_varint(base, at, end)
        return at, issue
    if wire == WIRE_BYTES:
        size, at, issue = read_length(base, at, end)
        if at < 0:
            return at, issue
    elif wire == WIRE_64:
        size = np.int64(8)
    elif wire == WIRE_32:
        size = np.int64(4)
    else:
        return np.int64(BAD), np.int64(BAD_TAG)
    if size > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    return at + size, np.int64(0)


@inner
def skip_field(base, at, end, tag, free):
    """After the value of a tag that was read, a group with all that is in it: (position or BAD, issue).

    ``free`` has room for MAX_GROUP_DEPTH words.
    """
    depth = 0
    while True:
        wire = tag & 7
        if wire == WIRE_GROUP:
            if depth == MAX_GROUP_DEPTH:
                return np.int64(BAD), np.int64(GROUP_DEPTH)
            set_word(free, depth, tag >> 3)
            depth += 1
        elif wire == WIRE_END_GROUP:
            if depth == 0 or word(free, depth - 1) != tag >> 3:
                return np.int64(BAD), np.int64(BAD_TAG)
            depth -= 1
        else:
            at, issue = skip_value(base, at, end, wire)
            if at < 0:
                return at, issue
        if depth == 0:
            return at, np.int64(0)
        tag, at, issue = read_varint(base, at, end)
        if at < 0:
            return at, issue
        if tag < 8 or tag > 0xFFFFFFFF:
            return np.int64(BAD), np.int64(BAD_TAG)
