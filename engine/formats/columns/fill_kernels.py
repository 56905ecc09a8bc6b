"""How entries of an arena's columns come to be, whichever format's kernel fills them: nulls, elements, ends of lists.

``arena`` is the ``Arena`` of tables.py by its addresses; ``row``, ``memory`` and ``free``, the unused part of the
stack, are addresses too.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.maps import TEXT_KEY, has_key_twice, take_back_list
from engine.formats.columns.operations import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    IS_MAP,
    KEY_TWICE,
    LAST_LEAF,
    LEVEL,
    OPERATION,
    PARAMETER,
    ROW_BYTES,
    STRING,
    TARGET,
    UNION,
    UUID_TEXT,
    VALID,
    VALUES,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, set_word, store_i32, store_i64, store_u8, word

# A position that means: the arena is full.
NO_ROOM = -2
# An issue that means: make room, begin again.
NEEDS_ROOM = -1


@inner(forceinline=True)
def null_leaf(row, memory, entry):
    """Entry ``entry`` of a leaf's column becomes null; what lies under it is set to zero, not left as it was."""
    operation = word(row, OPERATION)
    if operation in (STRING, BYTES, ENUM):
        slot = memory + word(row, VALUES) + 4 * entry
        store_i32(slot + 4, load_i32(slot))
    elif operation in (INT, FLOAT):
        store_i32(memory + word(row, VALUES) + 4 * entry, np.int32(0))
    elif operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        slot = memory + word(row, VALUES) + 16 * entry
        store_i64(slot, np.int64(0))
        store_i64(slot + 8, np.int64(0))
    elif operation == BOOLEAN:
        store_u8(memory + word(row, VALUES) + entry, np.uint8(0))
    elif operation in (FIXED, UUID_TEXT):
        size = word(row, PARAMETER)
        for index in range(size):
            store_u8(memory + word(row, VALUES) + size * entry + index, np.uint8(0))
    else:
        store_i64(memory + word(row, VALUES) + 8 * entry, np.int64(0))
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(0))


@inner
def fill_null(arena, first, last, entry):
    """Null for the operations ``first <= at < last``, which all lie on one level."""
    memory = arena.memory
    at = first
    while at < last:
        row = arena.program + ROW_BYTES * at
        operation = word(row, OPERATION)
        if operation <= LAST_LEAF:
            null_leaf(row, memory, entry)
        elif operation == ARRAY:
            slot = memory + word(row, VALUES) + 4 * entry
            store_i32(slot + 4, load_i32(slot))
            if word(row, VALID) >= 0:
                store_u8(memory + word(row, VALID) + entry, np.uint8(0))
            at = word(row, TARGET)
            continue
        elif operation == UNION and word(row, VALID) >= 0:
            store_u8(memory + word(row, VALID) + entry, np.uint8(0))
        at += 1


@inner(forceinline=True)
def next_element(arena, level):
    """The next free entry of a level, or NO_ROOM."""
    entry = word(arena.counts, level)
    if entry >= word(arena.capacity, level):
        return np.int64(NO_ROOM)
    set_word(arena.counts, level, entry + 1)
    return entry


@inner
def close_list(arena, step, row, entry, free, issue):
    """Where a list ends its entry ends too; a map with a key twice is null. Returns the issue."""
    memory, level = arena.memory, word(row, LEVEL)
    slot = memory + word(row, VALUES) + 4 * entry
    begin, end = np.int64(load_i32(slot)), word(arena.counts, level)
    if word(row, PARAMETER) == IS_MAP:
        first = word(row, TARGET)
        if has_key_twice(memory, arena.program + ROW_BYTES * first, begin, end, arena.map_table, TEXT_KEY):
            take_back_list(arena, first - 1, step + 1, begin, free)
            store_u8(memory + word(row, VALID) + entry, np.uint8(0))
            end = begin
            issue = np.int64(KEY_TWICE)
    store_i32(slot + 4, np.int32(end))
    return issue


@inner(forceinline=True)
def copy_counts(to, source, level_count):
    for level in range(level_count):
        set_word(to, level, word(source, level))


@inner(forceinline=True)
def keep_record(arena, level_count, is_good):
    """A record's end: the entries of a good one stay, those of another are given back. Returns whether they stay."""
    begin, end = (arena.counts, arena.saved) if is_good else (arena.saved, arena.counts)
    for level in range(1, level_count):
        set_word(end, level, word(begin, level))
    return is_good
