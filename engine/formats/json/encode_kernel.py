"""Runs a JSON program backwards: Arrow columns to the text that a form gives them.

The program is made for one form (encode_program): its members stand in the form's order, and their names are
spelled already. Columns reach the kernel as slots.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.columns.operations import S_DATA, S_VALUE_BITS, S_VALUES, SLOT_BYTES
from engine.formats.columns.slot_kernels import NO_ROOM, find_list, find_text, is_null, is_set
from engine.formats.columns.tables import EncodeTables, Output
from engine.formats.json.number_kernels import LONGEST_NUMBER, write_double, write_integer
from engine.formats.json.operations import FINAL_NEWLINE, SPACE_AFTER_COLON, SPACE_AFTER_COMMA
from engine.formats.json.skip_kernel import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    INFINITY_WORD,
    OPEN_ARRAY,
    OPEN_OBJECT,
)
from engine.formats.json.string_kernels import write_text
from engine.kernels.bits import double_of_bits
from engine.kernels.inner import inner
from engine.kernels.memory import (
    addresses_of,
    copy,
    load_i64,
    load_u8,
    set_word,
    store_i32,
    store_u8,
    store_u64,
    word,
)
from engine.kernels.types import read_only, tuple_of

# Operations. A list or map goes from its opening to its end, with ITEM or KEY before each element.
E_LONG, E_DOUBLE, E_BOOLEAN, E_STRING, E_MEMBER, E_OPEN, E_CLOSE, E_LIST, E_MAP, E_ITEM, E_KEY, E_LIST_END = range(12)
E_NULLABLE, E_END = 12, 13

# Columns of an operation's row.
E_OPERATION = 0
E_SLOT = 1  # the row of the slot table; of a member -1 where no column holds it
E_TARGET = 2  # where to go on after a null, after an empty list, and for the next element
E_TEXT = 3  # of a member: where its name, spelled, with its colon, begins in the pool
E_LENGTH = 4
E_WRITTEN = 5  # of a member: whether it is written when it is null
E_WIDTH = 6

# Every operation may write this many bytes before it asks for room.
ROOM = LONGEST_NUMBER + 64
NULL_WORD = int.from_bytes(b"null", "little")
TRUE_WORD = int.from_bytes(b"true", "little")
FALS_WORD = int.from_bytes(b"fals", "little")
NAN_WORD = int.from_bytes(b"NaN\0", "little")

# Of an open list on the stack: its own entry, where its elements end.
LIST_WORDS = 2

_ENCODE_ROWS = types.int64(tuple_of(EncodeTables), read_only(types.uint8), types.int64, tuple_of(Output), types.int64)


@inner(forceinline=True)
def write_null(base, at):
    store_i32(base + at, np.int32(NULL_WORD))
    return at + 4


@inner(forceinline=True)
def write_comma(base, at, opening, traits):
    """Before a member or element, unless it is the first after the opening bracket."""
    if load_u8(base + at - 1) == opening:
        return at
    store_u8(base + at, np.uint8(COMMA))
    store_u8(base + at + 1, np.uint8(32))
    return at + (2 if traits & SPACE_AFTER_COMMA else 1)


@inner
def write_string(base, at, limit, slot, entry, traits):
    """A string from plain or dictionary-encoded columns: the position after it, or what is wrong."""
    begin, length = find_text(slot, entry)
    if begin < 0:
        return begin
    return write_text(base, at, limit, word(slot, S_DATA) + begin, length, traits)


@inner
def write_name_of_number(base, at, value):
    """What Python and JavaScript call a double that JSON has no name for."""
    if np.isnan(value):
        store_i32(base + at, np.int32(NAN_WORD))
        return at + 3
    if value < 0:
        store_u8(base + at, np.uint8(45))
        at += 1
    store_u64(base + at, INFINITY_WORD)
    return at + 8


@inner
def write_leaf(base, at, limit, operation, slot, entry, traits):
    """One value that is not null: the position after it, or a negative code."""
    if operation == E_STRING:
        return write_string(base, at, limit, slot, entry, traits)
    values = word(slot, S_VALUES)
    if operation == E_LONG:
        return write_integer(base + at, load_i64(values + 8 * entry)) - base
    if operation == E_DOUBLE:
        value = double_of_bits(np.uint64(load_i64(values + 8 * entry)))
        if not np.isfinite(value):
            return write_name_of_number(base, at, value)
        return at + write_double(base + at, value, traits)
    if is_set(values, entry + word(slot, S_VALUE_BITS)):
        store_i32(base + at, np.int32(TRUE_WORD))
        return at + 4
    store_i32(base + at, np.int32(FALS_WORD))
    store_u8(base + at + 4, np.uint8(101))
    return at + 5


@inner
def write_member(base, at, limit, row, slot, entry, pool, traits):
    """A member's name, and its null: (position, or a negative code; whether the value is done with)."""
    null = word(row, E_SLOT) < 0 or is_null(slot, entry)
    if null and word(row, E_WRITTEN) == 0:
        return at, True
    size = word(row, E_LENGTH)
    if at + size + ROOM > limit:
        return np.int64(NO_ROOM), null
    at = write_comma(base, at, OPEN_OBJECT, traits)
    copy(base + at, pool + word(row, E_TEXT), size)
    at += size
    return write_null(base, at) if null else at, null


@inner
def encode_record(base, at, limit, entry, tables, pool, traits, trouble):
    """One record's text at position ``at`` of the output: the position after it, or a negative code."""
    step, top = np.int64(0), tables.stack
    while True:
        row = tables.program + 8 * E_WIDTH * step
        operation = word(row, E_OPERATION)
        slot = tables.slots + SLOT_BYTES * max(word(row, E_SLOT), 0)
        following = step + 1
        if at + ROOM > limit:
            at = np.int64(NO_ROOM)
        elif operation <= E_STRING:
            at = write_leaf(base, at, limit, operation, slot, entry, traits)
        elif operation == E_MEMBER:
            at, done = write_member(base, at, limit, row, slot, entry, pool, traits)
            following = word(row, E_TARGET) if done else following
        elif operation in (E_OPEN, E_CLOSE):
            store_u8(base + at, np.uint8(OPEN_OBJECT if operation == E_OPEN else CLOSE_OBJECT))
            at += 1
        elif operation in (E_LIST, E_MAP):
            begin, end = find_list(slot, entry)
            store_u8(base + at, np.uint8(OPEN_OBJECT if operation == E_MAP else OPEN_ARRAY))
            at = at + 1 if begin >= 0 else begin
            if begin == end:
                store_u8(base + at, np.uint8(CLOSE_OBJECT if operation == E_MAP else CLOSE_ARRAY))
                at += 1
                following = word(row, E_TARGET)
            elif begin >= 0:
                set_word(top, 0, entry)
                set_word(top, 1, end)
                top += 8 * LIST_WORDS
                entry = begin
        elif operation == E_ITEM:
            at = write_comma(base, at, OPEN_ARRAY, traits)
        elif operation == E_KEY:
            at = write_comma(base, at, OPEN_OBJECT, traits)
            at = write_string(base, at, limit, slot, entry, traits)
            if at >= 0:
                store_u8(base + at, np.uint8(COLON))
                store_u8(base + at + 1, np.uint8(32))
                at += 2 if traits & SPACE_AFTER_COLON else 1
        elif operation == E_NULLABLE:
            if word(row, E_SLOT) < 0 or is_null(slot, entry):
                at = write_null(base, at)
                following = word(row, E_TARGET)
        elif operation == E_LIST_END:
            entry += 1
            if entry < word(top, -1):
                following = word(row, E_TARGET)
            else:
                top -= 8 * LIST_WORDS
                entry = word(top, 0)
                store_u8(base + at, np.uint8(CLOSE_OBJECT if word(row, E_WRITTEN) else CLOSE_ARRAY))
                at += 1
        elif traits & FINAL_NEWLINE:
            store_u8(base + at, np.uint8(10))
            at += 1
        if at < 0 or operation == E_END:
            set_word(trouble, 0, word(row, E_SLOT))
            return at
        step = following


@njit(_ENCODE_ROWS, nogil=True, cache=True)
def encode_rows(encode_tables, pool, traits, output, first):
    """Encode the rows of ``output`` from ``first`` on, as Avro's kernel does; ``pool`` holds the names, spelled."""
    rows, data, ends, trouble = output
    tables, prefix_size = addresses_of(encode_tables), encode_tables.prefix.shape[0]
    base, limit, names, report = data.ctypes.data, data.shape[0], pool.ctypes.data, trouble.ctypes.data
    for index in range(first, rows.shape[0]):
        at = np.int64(NO_ROOM)
        if ends[index] + ROOM <= limit:
            copy(base + ends[index], tables.prefix, prefix_size)
            at = encode_record(base, ends[index] + prefix_size, limit, rows[index], tables, names, traits, report)
        if at < 0:
            trouble[1] = at
            return index
        ends[index + 1] = at
    return rows.shape[0]
