"""Runs an Avro program backwards: Arrow columns, by their slots, to the writer's own bytes."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.avro.leaf_kernels import DAY_MICROS
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
    ROW_BYTES,
    S_DATA,
    S_DATA_SIZE,
    S_VALUE_BITS,
    S_VALUES,
    SLOT,
    SLOT_BYTES,
    STRING,
    TARGET,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MILLIS,
    UNION,
    UUID_TEXT,
)
from engine.formats.columns.slot_kernels import (
    NO_COLUMN,
    NO_ROOM,
    NO_SYMBOL,
    NOT_REPRESENTABLE,
    NULL_FOUND,
    entry_of,
    find_list,
    find_text,
    is_null,
    is_set,
)
from engine.formats.columns.tables import EncodeTables, Output
from engine.kernels.floats import float_of_double
from engine.kernels.inner import inner
from engine.kernels.memory import (
    addresses_of,
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
from engine.kernels.types import tuple_of

# Every operation may write this many bytes before it asks for room: the longest number, or a UUID's text.
ROOM = 64

# Of an open list on the stack: its own entry, where its elements end.
LIST_WORDS = 2

_ENCODE_ROWS = types.int64(tuple_of(EncodeTables), tuple_of(Output), types.int64)


@inner(forceinline=True)
def write_number(to, value):
    """A zigzag varint at an address: the address after it."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        store_u8(to, np.uint8(left | np.uint64(0x80)))
        to += 1
        left >>= np.uint64(7)
    store_u8(to, np.uint8(left))
    return to + 1


@inner(forceinline=True)
def write_string(base, at, limit, slot, entry):
    """A string from plain or dictionary-encoded columns: the position after it, or what is wrong."""
    begin, length = find_text(slot, entry)
    if begin < 0:
        return begin
    if at + length + ROOM > limit:
        return np.int64(NO_ROOM)
    at = write_number(base + at, length) - base
    copy_short(base + at, word(slot, S_DATA) + begin, length, word(slot, S_DATA_SIZE) - begin)
    return at + length


@inner
def write_enum(base, at, slot, entry):
    """An enum's index: the slot's values are indices of symbols, of the rows or of the dictionary's entries."""
    entry = entry_of(slot, entry)
    if entry < 0:
        return entry
    symbol = np.int64(load_i32(word(slot, S_VALUES) + 4 * entry))
    if symbol < 0:
        return np.int64(NO_SYMBOL)
    return write_number(base + at, symbol) - base


@inner
def write_scaled(base, at, operation, value):
    """Microseconds as the unit of the schema; what decoding can't have made is refused."""
    if operation != TIMESTAMP_MILLIS and (value < 0 or value >= DAY_MICROS):
        return np.int64(NOT_REPRESENTABLE)
    if operation != TIME_MICROS:
        if value % 1000 != 0:
            return np.int64(NOT_REPRESENTABLE)
        value //= 1000
    return write_number(base + at, value) - base


@inner
def write_decimal(base, at, limit, row, address):
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


@inner
def decimal_byte(high, low, index):
    """Byte ``index`` of 128 bits, 0 the lowest."""
    if index < 8:
        return (low >> np.uint64(8 * index)) & np.uint64(0xFF)
    return (high >> np.uint64(8 * (index - 8))) & np.uint64(0xFF)


@inner
def write_uuid_text(base, at, address):
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


@inner(forceinline=True)
def write_leaf(base, at, limit, row, slot, entry):
    """One value: the position after it, or a negative code."""
    if is_null(slot, entry):
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
            bits, fits = float_of_double(bits)
            store_i32(base + at, np.int32(bits))
            return at + 4 if fits else np.int64(NOT_REPRESENTABLE)
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


@inner
def encode_record(base, at, limit, entry, tables, trouble):
    """One record's value at position ``at`` of the output: the position after it, or a negative code.

    The stack holds LIST_WORDS an open list, for as many as the program nests.
    """
    step, top = np.int64(0), tables.stack
    while True:
        row = tables.program + ROW_BYTES * step
        operation = word(row, OPERATION)
        slot = tables.slots + SLOT_BYTES * word(row, SLOT)
        following = step + 1
        if at + ROOM > limit:
            at = np.int64(NO_ROOM)
        elif operation <= LAST_LEAF:
            at = write_leaf(base, at, limit, row, slot, entry)
        elif operation == UNION:
            null_index = word(row, PARAMETER)
            if null_index < 0:
                at = write_number(base + at, np.int64(0)) - base
            elif is_null(slot, entry):
                at = write_number(base + at, null_index) - base
                following = word(row, TARGET)
            else:
                at = write_number(base + at, 1 - null_index) - base
        elif operation == ARRAY:
            begin, end = find_list(slot, entry)
            if begin < 0:
                at = begin
            else:
                at = write_number(base + at, end - begin) - base
                if begin == end:
                    following = word(row, TARGET)
                else:
                    set_word(top, 0, entry)
                    set_word(top, 1, end)
                    top += 8 * LIST_WORDS
                    entry = begin
        elif operation == ARRAY_END:
            entry += 1
            if entry < word(top, -1):
                following = word(row, TARGET)
            else:
                top -= 8 * LIST_WORDS
                entry = word(top, 0)
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
def encode_rows(encode_tables, output, first):
    """Encode the rows of ``output`` from ``first`` on; returns how many of them are done.

    Fewer than there are: ``trouble`` holds the operation and the code, NO_ROOM for a full buffer.
    """
    rows, data, ends, trouble = output
    tables, prefix_size = addresses_of(encode_tables), encode_tables.prefix.shape[0]
    base, limit, report = data.ctypes.data, data.shape[0], trouble.ctypes.data
    for index in range(first, rows.shape[0]):
        at = np.int64(NO_ROOM)
        if ends[index] + ROOM <= limit:
            copy(base + ends[index], tables.prefix, prefix_size)
            at = encode_record(base, ends[index] + prefix_size, limit, rows[index], tables, report)
        if at < 0:
            trouble[1] = at
            return index
        ends[index + 1] = at
    return rows.shape[0]
