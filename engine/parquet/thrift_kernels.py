"""The kernels of Thrift's compact protocol: a struct into a flat tape, one entry a value, and a chunk's page headers.

Source: the Apache Thrift compact protocol specification; the Parquet format's parquet.thrift, PageHeader. Unions, sets
and lists read alike; maps and UUIDs don't occur in Parquet's metadata and are refused.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernels.types import read_only, writable

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

START, BODY, TYPE, UNCOMPRESSED_BYTES, STORED_BYTES, HAS_CHECKSUM, VALUES, ENCODING = range(8)
"""Columns of ``walk_pages``'s table: ``START`` and ``BODY`` are bytes of the chunk; -1 is what a header lacks."""

PAGE_COLUMNS = 8

DAMAGED = -1
TABLE_FULL = -2

_TAPE = 256
"""Values of one header: about 20 with statistics in it."""

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8
"""Fields of PageHeader that describe a page of their kind."""

_VARINT = types.UniTuple(types.int64, 2)(read_only(types.uint8), types.int64)


@njit(_VARINT, nogil=True, cache=True)
def _varint(data, at):
    """(value as 64 bits, position after it); a position below 0 is an error."""
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


_FIELD_HEADER = types.UniTuple(types.int64, 3)(read_only(types.uint8), types.int64, types.int64)


@njit(_FIELD_HEADER, nogil=True, cache=True)
def _field_header(data, at, last_field):
    """(kind, 0 at the struct's end; field id; position after it); a position below 0 is an error."""
    if at >= data.shape[0]:
        return np.int64(0), np.int64(0), np.int64(TRUNCATED)
    head = np.int64(data[at])
    at += 1
    if head == 0:
        return np.int64(0), np.int64(0), np.int64(at)
    field_id = last_field + (head >> 4)
    if head >> 4 == 0:
        raw, at = _varint(data, at)
        field_id = (raw >> 1) ^ -(raw & 1)
    if at >= 0 and (field_id < 0 or field_id > 32767):
        at = np.int64(BAD_VARINT)
    return np.int64(head & 15), np.int64(field_id), np.int64(at)


_SCALAR = types.UniTuple(types.int64, 2)(read_only(types.uint8), types.int64, types.int64, types.boolean)


@njit(_SCALAR, nogil=True, cache=True)
def _scalar(data, at, kind, is_item):
    """(value, position after it) of anything that holds nothing else; a position below 0 is an error."""
    left = data.shape[0] - at
    if kind in (TRUE, FALSE):
        # A field's boolean stands in its header, an item's in a byte of its own.
        if not is_item:
            return np.int64(1 if kind == TRUE else 0), np.int64(at)
        if left < 1:
            return np.int64(0), np.int64(TRUNCATED)
        return np.int64(1 if data[at] == 1 else 0), np.int64(at + 1)
    if kind == BYTE:
        if left < 1:
            return np.int64(0), np.int64(TRUNCATED)
        return np.int64(np.int8(data[at])), np.int64(at + 1)
    if kind in (I16, I32, I64):
        raw, at = _varint(data, at)
        return np.int64(np.uint64(raw) >> np.uint64(1)) ^ -(raw & 1), np.int64(at)
    if kind == DOUBLE:
        return np.int64(0), np.int64(at + 8 if left >= 8 else TRUNCATED)
    if kind == BINARY:
        length, at = _varint(data, at)
        if at >= 0 and (length < 0 or length > data.shape[0] - at):
            at = np.int64(TRUNCATED)
        return np.int64(length), np.int64(at + length if at >= 0 else at)
    return np.int64(0), np.int64(UNKNOWN_TYPE)


_LIST_HEADER = types.UniTuple(types.int64, 3)(read_only(types.uint8), types.int64)


@njit(_LIST_HEADER, nogil=True, cache=True)
def _list_header(data, at):
    """(count of items, their kind, position after it); a position below 0 is an error."""
    if at >= data.shape[0]:
        return np.int64(0), np.int64(0), np.int64(TRUNCATED)
    head = np.int64(data[at])
    at += 1
    items = head >> 4
    if items == 15:
        items, at = _varint(data, at)
    # Every item takes at least one byte: a count beyond the bytes left is a lie that must not cost memory.
    if at >= 0 and (items < 0 or items > data.shape[0] - at):
        at = np.int64(TRUNCATED)
    return np.int64(items), np.int64(head & 15), np.int64(at)


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
def tokenize(data, at, field, kind, value, start, end, after):
    """Read the struct at ``data[at]`` into the tape; the number of entries, or an error below 0.

    Entry 0 is the struct itself. ``field`` its id in the struct around it, or ITEM; ``kind`` its Thrift type;
    ``value`` an integer's value, a boolean's 0 or 1, a binary's length, a list's count; ``start`` and ``end`` the bytes
    of the value without its field header (a boolean field has none); ``after`` the entry after it and all it holds.
    """
    if field.shape[0] == 0:
        return np.int64(TAPE_FULL)
    # What is open around the next value: the entry, the items left in it (-1 in a struct), and their kind.
    owner = np.zeros(DEEPEST_NESTING, np.int64)
    remaining = np.zeros(DEEPEST_NESTING, np.int64)
    item_kind = np.zeros(DEEPEST_NESTING, np.int64)
    last_field = np.zeros(DEEPEST_NESTING, np.int64)
    field[0], kind[0], value[0], start[0] = ITEM, STRUCT, 0, at
    remaining[0] = -1
    count = np.int64(1)
    depth = 1
    while depth > 0:
        top = depth - 1
        field_id = np.int64(ITEM)
        if remaining[top] < 0:
            this, field_id, at = _field_header(data, at, last_field[top])
            last_field[top] = field_id
            closes = this == 0
        else:
            this = item_kind[top]
            closes = remaining[top] == 0
            remaining[top] -= 1
        if at < 0:
            return at
        if closes:
            end[owner[top]], after[owner[top]] = at, count
            depth -= 1
            continue
        if count >= field.shape[0]:
            return np.int64(TAPE_FULL)
        entry = count
        count += 1
        field[entry], kind[entry], value[entry], start[entry] = field_id, this, 0, at
        if this in (LIST, SET, STRUCT):
            if depth >= DEEPEST_NESTING:
                return np.int64(TOO_DEEP)
            owner[depth], remaining[depth], last_field[depth] = entry, -1, 0
            if this != STRUCT:
                value[entry], item_kind[depth], at = _list_header(data, at)
                remaining[depth] = value[entry]
            depth += 1
        else:
            value[entry], at = _scalar(data, at, this, field_id == ITEM)
            if at >= 0:
                end[entry], after[entry] = at, count
        if at < 0:
            return at
    return count


@njit(types.int64(read_only(types.uint8), types.Array(types.int64, 2, "C")), nogil=True, cache=True)
def walk_pages(data, pages):
    """Fill a row of ``pages`` int64[n, PAGE_COLUMNS] for each page of the chunk ``data``; how many there are.

    DAMAGED when the chunk is not made of whole pages, TABLE_FULL when it has more than n.
    """
    field = np.empty(_TAPE, np.int32)
    kind = np.empty(_TAPE, np.uint8)
    value, start = np.empty(_TAPE, np.int64), np.empty(_TAPE, np.int64)
    end, after = np.empty(_TAPE, np.int64), np.empty(_TAPE, np.int64)
    at = np.int64(0)
    count = np.int64(0)
    while at < data.shape[0]:
        if count == pages.shape[0]:
            return np.int64(TABLE_FULL)
        if tokenize(data, at, field, kind, value, start, end, after) < 0:
            return np.int64(DAMAGED)
        page = pages[count]
        page[:] = -1
        page[START], page[BODY], page[HAS_CHECKSUM] = at, end[0], 0
        child, last = np.int64(1), after[0]
        while child < last:
            number = field[child]
            if number == 1:
                page[TYPE] = value[child]
            elif number == 2:
                page[UNCOMPRESSED_BYTES] = value[child]
            elif number == 3:
                page[STORED_BYTES] = value[child]
            elif number == 4:
                page[HAS_CHECKSUM] = 1
            elif number in (_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2) and kind[child] == STRUCT:
                inner, inner_last = child + 1, after[child]
                while inner < inner_last:
                    if field[inner] == 1:
                        page[VALUES] = value[inner]
                    elif field[inner] == (4 if number == _DATA_PAGE_V2 else 2):
                        page[ENCODING] = value[inner]
                    inner = after[inner]
            child = after[child]
        if page[STORED_BYTES] < 0 or page[STORED_BYTES] > data.shape[0] - end[0]:
            return np.int64(DAMAGED)
        at = end[0] + page[STORED_BYTES]
        count += 1
    return count
