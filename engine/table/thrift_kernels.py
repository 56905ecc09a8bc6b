"""The kernel that reads Thrift's compact protocol into a flat tape, one entry a value.

Source: the Apache Thrift compact protocol specification. Unions, sets and lists read alike; maps and UUIDs don't occur
in Parquet's metadata and are refused.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernel_types import read_only, writable

TRUE = 1
FALSE = 2
BYTE = 3
I16 = 4
I32 = 5
I64 = 6
DOUBLE = 7
BINARY = 8
LIST = 9
SET = 10
STRUCT = 12

ITEM = -1
"""Stands in ``field`` where a value is an item of a list."""

DEEPEST_NESTING = 32
"""Parquet's own metadata nests 7 deep; whatever nests deeper is hostile."""

TRUNCATED = -1
TOO_DEEP = -2
UNKNOWN_TYPE = -3
BAD_VARINT = -4
TAPE_FULL = -5

_VARINT = types.UniTuple(types.int64, 2)(read_only(types.uint8), types.int64)


@njit(_VARINT, nogil=True, cache=True)
def _varint(data, at):  # type: ignore[no-untyped-def]
    """(value as 64 bits, position behind it); a position below 0 is an error."""
    value = np.uint64(0)
    for index in range(10):
        if at >= data.shape[0]:
            return np.int64(0), np.int64(TRUNCATED)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        if byte < np.uint64(0x80):
            return np.int64(value), np.int64(at)
    return np.int64(0), np.int64(BAD_VARINT)


_TOKENIZE = types.int64(
    read_only(types.uint8),
    types.int64,
    writable(types.int32),
    writable(types.uint8),
    writable(types.int64),
    writable(types.int64),
    writable(types.int64),
    writable(types.int64),
)


@njit(_TOKENIZE, nogil=True, cache=True)
def tokenize(data, at, field, kind, value, start, end, after):  # type: ignore[no-untyped-def]
    """Read the struct at ``data[at]`` into the tape; the number of entries, or an error below 0.

    Entry 0 is the struct itself. ``field`` its id in the struct around it, or ITEM; ``kind`` its Thrift type;
    ``value`` an integer's value, a boolean's 0 or 1, a binary's length, a list's count; ``start`` and ``end`` the bytes
    of the value without its field header (a boolean field has none); ``after`` the entry behind it and all it holds.
    """
    size = data.shape[0]
    capacity = field.shape[0]
    owner = np.zeros(DEEPEST_NESTING, np.int64)
    remaining = np.zeros(DEEPEST_NESTING, np.int64)
    item_kind = np.zeros(DEEPEST_NESTING, np.int64)
    last_field = np.zeros(DEEPEST_NESTING, np.int64)
    if capacity == 0:
        return np.int64(TAPE_FULL)
    field[0] = ITEM
    kind[0] = STRUCT
    value[0] = 0
    start[0] = at
    count = np.int64(1)
    owner[0] = 0
    remaining[0] = -1
    depth = 1
    while depth > 0:
        top = depth - 1
        field_id = np.int64(ITEM)
        if remaining[top] < 0:
            if at >= size:
                return np.int64(TRUNCATED)
            head = np.int64(data[at])
            at += 1
            if head == 0:
                end[owner[top]] = at
                after[owner[top]] = count
                depth -= 1
                continue
            this = head & 15
            delta = head >> 4
            if delta > 0:
                field_id = last_field[top] + delta
            else:
                raw, at = _varint(data, at)
                if at < 0:
                    return at
                field_id = (raw >> 1) ^ -(raw & 1)
            if field_id < 0 or field_id > 32767:
                return np.int64(BAD_VARINT)
            last_field[top] = field_id
        else:
            if remaining[top] == 0:
                end[owner[top]] = at
                after[owner[top]] = count
                depth -= 1
                continue
            remaining[top] -= 1
            this = item_kind[top]
        if count >= capacity:
            return np.int64(TAPE_FULL)
        entry = count
        count += 1
        field[entry] = field_id
        kind[entry] = this
        value[entry] = 0
        start[entry] = at
        if this in (TRUE, FALSE):
            if field_id == ITEM:
                if at >= size:
                    return np.int64(TRUNCATED)
                value[entry] = 1 if data[at] == 1 else 0
                at += 1
            else:
                value[entry] = 1 if this == TRUE else 0
        elif this == BYTE:
            if at >= size:
                return np.int64(TRUNCATED)
            value[entry] = np.int64(np.int8(data[at]))
            at += 1
        elif this in (I16, I32, I64):
            raw, at = _varint(data, at)
            if at < 0:
                return at
            value[entry] = np.int64(np.uint64(raw) >> np.uint64(1)) ^ -(raw & 1)
        elif this == DOUBLE:
            if size - at < 8:
                return np.int64(TRUNCATED)
            at += 8
        elif this == BINARY:
            length, at = _varint(data, at)
            if at < 0:
                return at
            if length < 0 or length > size - at:
                return np.int64(TRUNCATED)
            value[entry] = length
            at += length
        elif this in (LIST, SET):
            if at >= size:
                return np.int64(TRUNCATED)
            head = np.int64(data[at])
            at += 1
            items = head >> 4
            if items == 15:
                items, at = _varint(data, at)
                if at < 0:
                    return at
            # Every item takes at least one byte: a count beyond the bytes left is a lie that must not cost memory.
            if items < 0 or items > size - at:
                return np.int64(TRUNCATED)
            if depth >= DEEPEST_NESTING:
                return np.int64(TOO_DEEP)
            value[entry] = items
            owner[depth] = entry
            remaining[depth] = items
            item_kind[depth] = head & 15
            depth += 1
            continue
        elif this == STRUCT:
            if depth >= DEEPEST_NESTING:
                return np.int64(TOO_DEEP)
            owner[depth] = entry
            remaining[depth] = -1
            last_field[depth] = 0
            depth += 1
            continue
        else:
            return np.int64(UNKNOWN_TYPE)
        end[entry] = at
        after[entry] = count
    return count
