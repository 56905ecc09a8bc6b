"""How entries of an arena's columns come to be, whichever format's kernel fills them: nulls, elements, ends of lists.

Rows, the arena and the counts of levels are addresses, for the reason that avro_leaf_kernels gives.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.columns.maps import has_key_twice, take_back_list
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
from engine.kernels.memory import load_i32, set_word, store_i32, store_i64, store_u8, word

NO_ROOM = -2


@njit(nogil=True, cache=True, forceinline=True)
def null_leaf(row, arena, entry):  # type: ignore[no-untyped-def]
    """Entry ``entry`` of a leaf's column becomes null; what lies under it is set to zero, not left as it was."""
    operation = word(row, OPERATION)
    if operation in (STRING, BYTES, ENUM):
        slot = arena + word(row, VALUES) + 4 * entry
        store_i32(slot + 4, load_i32(slot))
    elif operation in (INT, FLOAT):
        store_i32(arena + word(row, VALUES) + 4 * entry, np.int32(0))
    elif operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        slot = arena + word(row, VALUES) + 16 * entry
        store_i64(slot, np.int64(0))
        store_i64(slot + 8, np.int64(0))
    elif operation == BOOLEAN:
        store_u8(arena + word(row, VALUES) + entry, np.uint8(0))
    elif operation in (FIXED, UUID_TEXT):
        size = word(row, PARAMETER)
        for index in range(size):
            store_u8(arena + word(row, VALUES) + size * entry + index, np.uint8(0))
    else:
        store_i64(arena + word(row, VALUES) + 8 * entry, np.int64(0))
    if word(row, VALID) >= 0:
        store_u8(arena + word(row, VALID) + entry, np.uint8(0))


@njit(nogil=True, cache=True)
def fill_null(program, first, last, arena, entry):  # type: ignore[no-untyped-def]
    """Null for the operations ``first <= at < last``, which all lie on one level."""
    at = first
    while at < last:
        row = program + ROW_BYTES * at
        operation = word(row, OPERATION)
        if operation <= LAST_LEAF:
            null_leaf(row, arena, entry)
        elif operation == ARRAY:
            slot = arena + word(row, VALUES) + 4 * entry
            store_i32(slot + 4, load_i32(slot))
            if word(row, VALID) >= 0:
                store_u8(arena + word(row, VALID) + entry, np.uint8(0))
            at = word(row, TARGET)
            continue
        elif operation == UNION and word(row, VALID) >= 0:
            store_u8(arena + word(row, VALID) + entry, np.uint8(0))
        at += 1


@njit(nogil=True, cache=True, forceinline=True)
def next_element(level, counts, capacity):  # type: ignore[no-untyped-def]
    """The next free entry of a level, or NO_ROOM."""
    entry = word(counts, level)
    if entry >= word(capacity, level):
        return np.int64(NO_ROOM)
    set_word(counts, level, entry + 1)
    return entry


@njit(nogil=True, cache=True)
def close_list(program, step, row, arena, entry, counts, stack, map_table, issue):  # type: ignore[no-untyped-def]
    """Where a list ends its entry ends too; a map with a key twice is null. Returns the issue."""
    level = word(row, LEVEL)
    slot = arena + word(row, VALUES) + 4 * entry
    begin, end = np.int64(load_i32(slot)), word(counts, level)
    if word(row, PARAMETER) == IS_MAP:
        first = word(row, TARGET)
        if has_key_twice(arena, program + ROW_BYTES * first, begin, end, map_table):
            take_back_list(program, first - 1, step + 1, arena, counts, begin, stack)
            store_u8(arena + word(row, VALID) + entry, np.uint8(0))
            end = begin
            issue = np.int64(KEY_TWICE)
    store_i32(slot + 4, np.int32(end))
    return issue
