"""Runs a JSON program backwards: Arrow columns to the text that a form gives them.

The program is made for one form (json_encode_program): its members stand in the form's order, and their names are
spelled already. Columns reach the kernel as slots, as in avro_encode_kernel.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.columns.encoding import BAD_INDEX, BAD_OFFSETS, NO_ROOM, NOT_REPRESENTABLE, is_set
from engine.formats.columns.operations import (
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
    SLOT_WIDTH,
)
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
from engine.kernels.memory import (
    copy,
    load_i32,
    load_i64,
    load_u8,
    set_word,
    store_i32,
    store_u8,
    store_u64,
    word,
)
from engine.kernels.types import read_only, writable

# Operations. A list or map goes from its opening to its end, with ITEM or KEY before each element.
E_LONG, E_DOUBLE, E_BOOLEAN, E_STRING, E_MEMBER, E_OPEN, E_CLOSE, E_LIST, E_MAP, E_ITEM, E_KEY, E_LIST_END = range(12)
E_NULLABLE, E_END = 12, 13

# Columns of an operation's row.
E_OPERATION = 0
E_SLOT = 1  # the row of the slot table; of a member -1 where no column holds it
E_TARGET = 2  # where to go on behind a null, behind an empty list, and for the next element
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

_ENCODE_ROWS = types.int64(
    read_only(types.int64), types.int64, types.int64, types.int64,
    read_only(types.int64), read_only(types.uint8), read_only(types.int64),
    writable(types.int64), writable(types.uint8), writable(types.int64), writable(types.int64),
)  # fmt: skip


@njit(nogil=True, cache=True, forceinline=True)
def is_null(slot, entry):  # type: ignore[no-untyped-def]
    return word(slot, S_VALIDITY) != 0 and not is_set(word(slot, S_VALIDITY), entry + word(slot, S_BIT_OFFSET))


@njit(nogil=True, cache=True, forceinline=True)
def write_null(base, at):  # type: ignore[no-untyped-def]
    store_i32(base + at, np.int32(NULL_WORD))
    return at + 4


@njit(nogil=True, cache=True, forceinline=True)
def write_comma(base, at, opening, traits):  # type: ignore[no-untyped-def]
    """Before a member or element, unless it is the first behind the opening bracket."""
    if load_u8(base + at - 1) == opening:
        return at
    store_u8(base + at, np.uint8(COMMA))
    store_u8(base + at + 1, np.uint8(32))
    return at + (2 if traits & SPACE_AFTER_COMMA else 1)


@njit(nogil=True, cache=True)
def write_string(base, at, limit, slot, entry, traits):  # type: ignore[no-untyped-def]
    """A string from plain or dictionary-encoded columns: the position behind it, or what is wrong."""
    if word(slot, S_INDICES) != 0:
        entry = np.int64(load_i32(word(slot, S_INDICES) + 4 * entry))
        if entry < 0 or entry >= word(slot, S_ENTRY_COUNT):
            return np.int64(BAD_INDEX)
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    length = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4)) - begin
    if begin < 0 or length < 0 or begin + length > word(slot, S_DATA_SIZE):
        return np.int64(BAD_OFFSETS)
    at = write_text(base, at, limit, word(slot, S_DATA) + begin, length, traits)
    return np.int64(NO_ROOM if at == -2 else NOT_REPRESENTABLE) if at < 0 else at


@njit(nogil=True, cache=True)
def write_name_of_number(base, at, value):  # type: ignore[no-untyped-def]
    """What Python and JavaScript call a double that JSON has no name for."""
    if np.isnan(value):
        store_i32(base + at, np.int32(NAN_WORD))
        return at + 3
    if value < 0:
        store_u8(base + at, np.uint8(45))
        at += 1
    store_u64(base + at, INFINITY_WORD)
    return at + 8


@njit(nogil=True, cache=True)
def write_leaf(base, at, limit, operation, slot, entry, traits):  # type: ignore[no-untyped-def]
    """One value that is not null: the position behind it, or a negative code."""
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


@njit(nogil=True, cache=True)
def write_member(base, at, limit, row, slot, entry, pool, traits):  # type: ignore[no-untyped-def]
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


@njit(nogil=True, cache=True)
def open_list(base, at, row, slot, entry):  # type: ignore[no-untyped-def]
    """(position behind the bracket, or a negative code; first element; end of the elements)."""
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    end = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4))
    if begin < 0 or end < begin or end > word(slot, S_CHILD_COUNT):
        return np.int64(BAD_OFFSETS), begin, end
    store_u8(base + at, np.uint8(OPEN_OBJECT if word(row, E_OPERATION) == E_MAP else OPEN_ARRAY))
    return at + 1, begin, end


@njit(nogil=True, cache=True)
def encode_record(base, at, limit, entry, program, pool, slots, lists, traits, trouble):  # type: ignore[no-untyped-def]
    """One record's text at position ``at`` of the output: the position behind it, or a negative code."""
    step, depth = np.int64(0), np.int64(0)
    while True:
        row = program + 8 * E_WIDTH * step
        operation = word(row, E_OPERATION)
        slot = slots + 8 * SLOT_WIDTH * max(word(row, E_SLOT), 0)
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
            at, begin, end = open_list(base, at, row, slot, entry)
            if begin == end and at >= 0:
                store_u8(base + at, np.uint8(CLOSE_OBJECT if operation == E_MAP else CLOSE_ARRAY))
                at += 1
                following = word(row, E_TARGET)
            elif at >= 0:
                set_word(lists, depth, entry)
                set_word(lists, depth + 1, end)
                depth += 2
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
            if entry < word(lists, depth - 1):
                following = word(row, E_TARGET)
            else:
                depth -= 2
                entry = word(lists, depth)
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
def encode_rows(  # type: ignore[no-untyped-def]
    rows, first, schema_id, traits, program, pool, slots, lists, out, ends, trouble
):
    """Encode ``rows[first:]`` behind each other, as avro_encode_kernel does; a schema id below 0 is not written."""
    base = out.ctypes.data
    limit = out.shape[0]
    steps, table, stack, report = program.ctypes.data, slots.ctypes.data, lists.ctypes.data, trouble.ctypes.data
    for index in range(first, rows.shape[0]):
        at = ends[index]
        trouble[1] = NO_ROOM
        if at + ROOM > limit:
            return index
        if schema_id >= 0:
            store_u8(base + at, np.uint8(0))
            for byte in range(4):
                store_u8(base + at + 1 + byte, np.uint8((schema_id >> (24 - 8 * byte)) & 0xFF))
            at += 5
        at = encode_record(base, at, limit, rows[index], steps, pool.ctypes.data, table, stack, traits, report)
        if at < 0:
            trouble[1] = at
            return index
        ends[index + 1] = at
    return rows.shape[0]
