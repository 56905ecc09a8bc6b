"""Runs an Avro program backwards: Arrow columns to the writer's own bytes.

Columns reach the kernel as addresses in a table of slots, int64[m, SLOT_WIDTH], beside the sizes that every access
which depends on the columns' content is checked against. Fixed-width buffers were measured when they were bound.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.avro.leaf_kernels import DAY_MICROS
from engine.formats.columns.encoding import (
    BAD_INDEX,
    BAD_OFFSETS,
    NO_COLUMN,
    NO_ROOM,
    NO_SYMBOL,
    NOT_REPRESENTABLE,
    NULL_FOUND,
    is_set,
)
from engine.formats.columns.operations import (
    ARRAY,
    ARRAY_END,
    BOOLEAN,
    BYTES,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    DOUBLE,
    END,
    ENUM,
    INT,
    LAST_LEAF,
    LONG,
    NARROW,
    OPAQUE,
    OPERATION,
    PARAMETER,
    ROW_WIDTH,
    S_BIT_OFFSET,
    S_CHILD_COUNT,
    S_DATA,
    S_DATA_SIZE,
    S_ENTRY_COUNT,
    S_INDICES,
    S_OFFSETS,
    S_VALIDITY,
    S_VALUE_BITS,
    S_VALUES,
    SLOT,
    SLOT_WIDTH,
    STRING,
    TARGET,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MILLIS,
    UNION,
    UUID_TEXT,
)
from engine.kernels.memory import (
    copy,
    copy_short,
    load_i32,
    load_i64,
    load_u8,
    set_word,
    store_i32,
    store_i64,
    store_u8,
    word,
)
from engine.kernels.types import read_only, writable

# Every operation may write this many bytes before it asks for room: the longest number, or a UUID's text.
ROOM = 64

_ENCODE_ROWS = types.int64(
    read_only(types.int64), types.int64, types.int64,
    read_only(types.int64), read_only(types.int64),
    writable(types.int64), writable(types.uint8), writable(types.int64), writable(types.int64),
)  # fmt: skip


@njit(nogil=True, cache=True, forceinline=True)
def write_number(to, value):  # type: ignore[no-untyped-def]
    """A zigzag varint at an address: the address behind it."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        store_u8(to, np.uint8(left | np.uint64(0x80)))
        to += 1
        left >>= np.uint64(7)
    store_u8(to, np.uint8(left))
    return to + 1


@njit(nogil=True, cache=True, forceinline=True)
def write_string(base, at, limit, slot, entry):  # type: ignore[no-untyped-def]
    """A string from plain or dictionary-encoded columns: the position behind it, or what is wrong."""
    if word(slot, S_INDICES) != 0:
        entry = np.int64(load_i32(word(slot, S_INDICES) + 4 * entry))
        if entry < 0 or entry >= word(slot, S_ENTRY_COUNT):
            return np.int64(BAD_INDEX)
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    length = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4)) - begin
    if begin < 0 or length < 0 or begin + length > word(slot, S_DATA_SIZE):
        return np.int64(BAD_OFFSETS)
    if at + length + ROOM > limit:
        return np.int64(NO_ROOM)
    at = write_number(base + at, length) - base
    copy_short(base + at, word(slot, S_DATA) + begin, length, word(slot, S_DATA_SIZE) - begin)
    return at + length


@njit(nogil=True, cache=True)
def write_enum(base, at, slot, entry):  # type: ignore[no-untyped-def]
    """An enum's index: the slot's values are indices of symbols, of the rows or of the dictionary's entries."""
    if word(slot, S_INDICES) != 0:
        entry = np.int64(load_i32(word(slot, S_INDICES) + 4 * entry))
        if entry < 0 or entry >= word(slot, S_ENTRY_COUNT):
            return np.int64(BAD_INDEX)
    symbol = np.int64(load_i32(word(slot, S_VALUES) + 4 * entry))
    if symbol < 0:
        return np.int64(NO_SYMBOL)
    return write_number(base + at, symbol) - base


@njit(nogil=True, cache=True)
def write_scaled(base, at, operation, value):  # type: ignore[no-untyped-def]
    """Microseconds as the unit of the schema; what decoding can't have made is refused."""
    if operation != TIMESTAMP_MILLIS and (value < 0 or value >= DAY_MICROS):
        return np.int64(NOT_REPRESENTABLE)
    if operation != TIME_MICROS:
        if value % 1000 != 0:
            return np.int64(NOT_REPRESENTABLE)
        value //= 1000
    return write_number(base + at, value) - base


@njit(nogil=True, cache=True)
def write_decimal(base, at, limit, row, address):  # type: ignore[no-untyped-def]
    """128 bits as big-endian two's complement: as short as they go, or filling the size of a fixed."""
    low = np.uint64(load_i64(address))
    high = np.uint64(load_i64(address + 8))
    fill = np.uint64(0xFF) if np.int64(high) < 0 else np.uint64(0)
    size = word(row, PARAMETER)
    if word(row, OPERATION) == DECIMAL_BYTES:
        size = np.int64(16)
        while size > 1:
            top = decimal_byte(high, low, size - 1)
            below = decimal_byte(high, low, size - 2)
            if top != fill or (below & np.uint64(0x80)) != (fill & np.uint64(0x80)):
                break
            size -= 1
        at = write_number(base + at, size) - base
    if at + size + ROOM > limit:
        return np.int64(NO_ROOM)
    for index in range(16):
        if index >= size and decimal_byte(high, low, index) != fill:
            return np.int64(NOT_REPRESENTABLE)
    if size < 16 and (decimal_byte(high, low, size - 1) & np.uint64(0x80)) != (fill & np.uint64(0x80)):
        return np.int64(NOT_REPRESENTABLE)
    for index in range(size):
        store_u8(base + at + size - 1 - index, np.uint8(decimal_byte(high, low, index) if index < 16 else fill))
    return at + size


@njit(nogil=True, cache=True)
def decimal_byte(high, low, index):  # type: ignore[no-untyped-def]
    """Byte ``index`` of 128 bits, 0 the lowest."""
    if index < 8:
        return (low >> np.uint64(8 * index)) & np.uint64(0xFF)
    return (high >> np.uint64(8 * (index - 8))) & np.uint64(0xFF)


@njit(nogil=True, cache=True)
def write_uuid_text(base, at, address):  # type: ignore[no-untyped-def]
    """16 bytes as 36 lower-case characters (RFC 4122)."""
    to = write_number(base + at, np.int64(36))
    for index in range(16):
        if index in (4, 6, 8, 10):
            store_u8(to, np.uint8(45))
            to += 1
        byte = load_u8(address + index)
        for digit in (byte >> np.uint8(4), byte & np.uint8(15)):
            store_u8(to, np.uint8(digit + 48 if digit < 10 else digit + 87))
            to += 1
    return to - base


@njit(nogil=True, cache=True)
def write_float(base, at, bits):  # type: ignore[no-untyped-def]
    """A double's bits as those of the float of the same value; what no float becomes is refused.

    Source: IEEE 754, binary32 and binary64.
    """
    exponent = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        narrow = np.int64(0xFF)
    elif exponent == 0 and fraction == 0:
        narrow = np.int64(0)
    elif 896 < exponent < 1151:
        narrow = exponent - 896
    elif 873 < exponent <= 896:
        # Numbers that a float holds with fewer digits: their leading one is written out.
        shift = 897 - exponent
        fraction |= np.int64(1) << 52
        if fraction & ((np.int64(1) << shift) - 1) != 0:
            return np.int64(NOT_REPRESENTABLE)
        fraction >>= shift
        narrow = np.int64(0)
    else:
        return np.int64(NOT_REPRESENTABLE)
    if fraction & 0x1FFFFFFF != 0:
        return np.int64(NOT_REPRESENTABLE)
    store_i32(base + at, np.int32(((bits >> 32) & 0x80000000) | (narrow << 23) | (fraction >> 29)))
    return at + 4


@njit(nogil=True, cache=True, forceinline=True)
def write_leaf(base, at, limit, row, slot, entry):  # type: ignore[no-untyped-def]
    """One value: the position behind it, or a negative code."""
    if word(slot, S_VALIDITY) != 0 and not is_set(word(slot, S_VALIDITY), entry + word(slot, S_BIT_OFFSET)):
        return np.int64(NULL_FOUND)
    operation = word(row, OPERATION)
    if operation in (STRING, BYTES):
        return write_string(base, at, limit, slot, entry)
    values = word(slot, S_VALUES)
    if operation == LONG:
        value = load_i64(values + 8 * entry)
        if word(row, PARAMETER) == NARROW and (value < -(2**31) or value >= 2**31):
            return np.int64(NOT_REPRESENTABLE)
        return write_number(base + at, value) - base
    if operation == DOUBLE:
        bits = load_i64(values + 8 * entry)
        if word(row, PARAMETER) == NARROW:
            return write_float(base, at, bits)
        store_i64(base + at, bits)
        return at + 8
    if operation == INT:
        return write_number(base + at, np.int64(load_i32(values + 4 * entry))) - base
    if operation == ENUM:
        return write_enum(base, at, slot, entry)
    if operation == BOOLEAN:
        store_u8(base + at, np.uint8(is_set(values, entry + word(slot, S_VALUE_BITS))))
        return at + 1
    if operation in (TIMESTAMP_MILLIS, TIME_MILLIS, TIME_MICROS):
        return write_scaled(base, at, operation, load_i64(values + 8 * entry))
    if operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        return write_decimal(base, at, limit, row, values + 16 * entry)
    if operation == UUID_TEXT:
        return write_uuid_text(base, at, values + 16 * entry)
    # FLOAT and FIXED: the column holds the bytes as they are.
    size = word(row, PARAMETER)
    if at + size + ROOM > limit:
        return np.int64(NO_ROOM)
    copy(base + at, values + size * entry, size)
    return at + size


@njit(nogil=True, cache=True)
def encode_record(base, at, limit, entry, program, slots, lists, trouble):  # type: ignore[no-untyped-def]
    """One record's value at position ``at`` of the output: the position behind it, or a negative code."""
    step, depth = np.int64(0), np.int64(0)
    while True:
        row = program + 8 * ROW_WIDTH * step
        operation = word(row, OPERATION)
        slot = slots + 8 * SLOT_WIDTH * word(row, SLOT)
        following = step + 1
        if at + ROOM > limit:
            at = np.int64(NO_ROOM)
        elif operation <= LAST_LEAF:
            at = write_leaf(base, at, limit, row, slot, entry)
        elif operation == UNION:
            null_index = word(row, PARAMETER)
            if null_index < 0:
                at = write_number(base + at, np.int64(0)) - base
            elif word(slot, S_VALIDITY) == 0 or is_set(word(slot, S_VALIDITY), entry + word(slot, S_BIT_OFFSET)):
                at = write_number(base + at, 1 - null_index) - base
            else:
                at = write_number(base + at, null_index) - base
                following = word(row, TARGET)
        elif operation == ARRAY:
            begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
            end = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4))
            if begin < 0 or end < begin or end > word(slot, S_CHILD_COUNT):
                at = np.int64(BAD_OFFSETS)
            elif word(slot, S_VALIDITY) != 0 and not is_set(word(slot, S_VALIDITY), entry + word(slot, S_BIT_OFFSET)):
                at = np.int64(NULL_FOUND)
            else:
                at = write_number(base + at, end - begin) - base
                if begin == end:
                    following = word(row, TARGET)
                else:
                    set_word(lists, depth, entry)
                    set_word(lists, depth + 1, end)
                    depth += 2
                    entry = begin
        elif operation == ARRAY_END:
            entry += 1
            if entry < word(lists, depth - 1):
                following = word(row, TARGET)
            else:
                depth -= 2
                entry = word(lists, depth)
                at = write_number(base + at, np.int64(0)) - base
        elif operation == OPAQUE:
            if word(row, PARAMETER) >= 0:
                store_u8(base + at, np.uint8(word(row, PARAMETER)))
                at += 1
            else:
                at = np.int64(NO_COLUMN)
        if at < 0 or operation == END:
            set_word(trouble, 0, step)
            return at
        step = following


@njit(_ENCODE_ROWS, nogil=True, cache=True)
def encode_rows(rows, first, schema_id, program, slots, lists, out, ends, trouble):  # type: ignore[no-untyped-def]
    """Encode ``rows[first:]`` behind each other; returns how many of ``rows`` are done.

    ``ends`` int64[len(rows) + 1] comes in with ``ends[first]``, the position to begin at, and gets each row's end.
    Fewer rows than asked: ``trouble`` holds the operation and the code, NO_ROOM for a full ``out``.
    """
    base = out.ctypes.data
    limit = out.shape[0]
    steps, table, stack, report = program.ctypes.data, slots.ctypes.data, lists.ctypes.data, trouble.ctypes.data
    for index in range(first, rows.shape[0]):
        at = ends[index]
        trouble[1] = NO_ROOM
        if at + ROOM > limit:
            return index
        store_u8(base + at, np.uint8(0))
        for byte in range(4):
            store_u8(base + at + 1 + byte, np.uint8((schema_id >> (24 - 8 * byte)) & 0xFF))
        at = encode_record(base, at + 5, limit, rows[index], steps, table, stack, report)
        if at < 0:
            trouble[1] = at
            return index
        ends[index + 1] = at
    return rows.shape[0]
