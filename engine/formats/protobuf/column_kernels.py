"""How one entry of a column in the arena is filled or made null, whatever the bytes it comes from.

An entry is below the capacity of its level, by which the arena was laid out, and strings are compared with DATA_SIZE:
NO_ROOM says that they found none.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.protobuf.operations import (
    ALWAYS,
    CLOSED_ENUM,
    CLOSED_UNKNOWN,
    DATA,
    DATA_SIZE,
    DURATION,
    E_COUNT,
    E_DEFAULT,
    E_DENSE,
    E_LEAST,
    E_NUMBERS,
    E_POOL,
    ENUM,
    EXPLICIT,
    FLAGS,
    HAS_NANOS,
    KIND,
    LONGEST_NUMBER_TEXT,
    MAP_ENTRY,
    PARAMETER,
    PRESENCE,
    ROW_WIDTH,
    STORE,
    STORE_BOOLEAN,
    STORE_BYTES,
    STORE_DECIMAL,
    STORE_INT,
    STORE_LONG,
    TIMESTAMP,
    VALID,
    VALUES,
)
from engine.formats.protobuf.wire_kernels import NO_ROOM
from engine.kernels.floats import double_of_float
from engine.kernels.inner import inner
from engine.kernels.memory import SLACK, copy_text, load_i32, store_i32, store_i64, store_u8, word

ROW_BYTES = 8 * ROW_WIDTH


@inner(forceinline=True)
def set_valid(row, memory, entry, flag):
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(flag))


@inner(forceinline=True)
def store_number(row, memory, entry, bits):
    """A number's bits, sign or zeros in front, as the column holds it."""
    store = word(row, STORE)
    values = memory + word(row, VALUES)
    if store == STORE_LONG:
        store_i64(values + 8 * entry, bits)
    elif store == STORE_INT:
        store_i32(values + 4 * entry, np.int32(bits))
    elif store == STORE_BOOLEAN:
        store_u8(values + entry, np.uint8(bits))
    elif store == STORE_DECIMAL:
        store_i64(values + 16 * entry, bits)
        store_i64(values + 16 * entry + 8, np.int64(0))
    else:
        store_i64(values + 8 * entry, double_of_float(bits))


@inner(forceinline=True)
def null_leaf(row, memory, entry):
    """Entry ``entry`` of a leaf's column becomes null; what lies under it is set to zero, not left as it was."""
    if word(row, STORE) == STORE_BYTES:
        slot = memory + word(row, VALUES) + 4 * entry
        store_i32(slot + 4, load_i32(slot))
    else:
        store_number(row, memory, entry, np.int64(0))
    set_valid(row, memory, entry, 0)


@inner(forceinline=True)
def put_bytes(row, memory, entry, source, length, source_room):
    """Bytes into offsets and data: NO_ROOM, or whether any is outside ASCII."""
    slot = memory + word(row, VALUES) + 4 * entry
    begin = np.int64(load_i32(slot))
    if begin + length + SLACK > word(row, DATA_SIZE):
        return np.int64(NO_ROOM)
    store_i32(slot + 4, np.int32(begin + length))
    return np.int64(copy_text(memory + word(row, DATA) + begin, source, length, source_room))


@inner
def put_number_text(row, memory, entry, number):
    """A number in decimal, for an enum that has no symbol for it: NO_ROOM or 0."""
    slot = memory + word(row, VALUES) + 4 * entry
    begin = np.int64(load_i32(slot))
    if begin + LONGEST_NUMBER_TEXT + SLACK > word(row, DATA_SIZE):
        return np.int64(NO_ROOM)
    to = memory + word(row, DATA) + begin
    length = np.int64(0)
    if number < 0:
        store_u8(to, np.uint8(45))
        length, number = np.int64(1), -number
    divisor = np.int64(1)
    while number // divisor >= 10:
        divisor *= 10
    while divisor > 0:
        store_u8(to + length, np.uint8(48 + number // divisor % 10))
        length += 1
        divisor //= 10
    store_i32(slot + 4, np.int32(begin + length))
    return np.int64(0)


@inner
def symbol_of(table, number):
    """The place of a number among an enum's numbers, or -1."""
    count, least = word(table, E_COUNT), word(table, E_LEAST)
    if word(table, E_DENSE) != 0:
        return number - least if least <= number < least + count else np.int64(-1)
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if word(table, E_NUMBERS + middle) < number:
            low = middle + 1
        else:
            high = middle
    return low if low < count and word(table, E_NUMBERS + low) == number else np.int64(-1)


@inner(forceinline=True)
def put_symbol(row, memory, entry, number, tables):
    """An enum's number as its symbol's text: (NO_ROOM or not negative, issue)."""
    table = tables.enums + 8 * word(row, PARAMETER)
    place = symbol_of(table, number)
    if place < 0:
        if word(row, FLAGS) & CLOSED_ENUM:
            null_leaf(row, memory, entry)
            return np.int64(0), np.int64(CLOSED_UNKNOWN)
        set_valid(row, memory, entry, 1)
        return put_number_text(row, memory, entry, number), np.int64(0)
    place += word(table, E_POOL)
    source = np.int64(load_i32(tables.pool_start + 4 * place))
    length = np.int64(load_i32(tables.pool_start + 4 * place + 4)) - source
    set_valid(row, memory, entry, 1)
    # The pool has SLACK bytes behind its last symbol.
    return put_bytes(row, memory, entry, tables.pool + source, length, length + SLACK), np.int64(0)


@inner(forceinline=True)
def absent_leaf(row, memory, entry, tables):
    """What the column shows where the field is absent: null, or its default. (NO_ROOM or not negative, issue.)"""
    presence, kind = word(row, PRESENCE), word(row, KIND)
    issue = np.int64(MAP_ENTRY) if presence == ALWAYS else np.int64(0)
    if presence == EXPLICIT or kind in (TIMESTAMP, DURATION):
        null_leaf(row, memory, entry)
        if word(row, FLAGS) & HAS_NANOS:
            null_leaf(row + ROW_BYTES, memory, entry)
        return np.int64(0), issue
    if kind == ENUM:
        default = word(tables.enums + 8 * word(row, PARAMETER), E_DEFAULT)
        room, _ = put_symbol(row, memory, entry, default, tables)
        return room, issue
    null_leaf(row, memory, entry)
    set_valid(row, memory, entry, 1)
    return np.int64(0), issue
