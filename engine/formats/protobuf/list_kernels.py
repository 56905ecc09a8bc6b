"""Lists, maps and messages as wholes: absent, ended, taken back, and a map's key that comes twice.

``arena`` is the ``Arena`` of columns/tables.py by its addresses, ``free`` the unused part of its stack.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.maps import TEXT_KEY, has_key_twice
from engine.formats.protobuf.column_kernels import ROW_BYTES, null_leaf, set_valid
from engine.formats.protobuf.operations import (
    FLAGS,
    IS_MAP,
    KEY_TWICE,
    LEAF,
    LEAVES,
    LEVEL,
    MESSAGE,
    MESSAGES,
    NANOS,
    ONEOF,
    ONEOF_TWICE,
    OPERATION,
    STORE,
    STORE_BOOLEAN,
    STORE_BYTES,
    STORE_INT,
    STORE_LONG,
    TARGET,
    VALID,
    VALUES,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, load_u8, set_word, store_i32, store_u8, word


@inner(forceinline=True)
def key_width(row):
    """The bytes that an entry of a map's keys takes, or TEXT_KEY."""
    store = word(row, STORE)
    if store in (STORE_INT, STORE_BOOLEAN):
        return np.int64(4 if store == STORE_INT else 1)
    return np.int64(TEXT_KEY if store == STORE_BYTES else 8 if store == STORE_LONG else 16)


@inner
def null_rows(arena, first, last, entry):
    """Null for the operations ``first <= at < last``, which all lie on one level and have not been filled."""
    at = first
    while at < last:
        row = arena.program + ROW_BYTES * at
        operation = word(row, OPERATION)
        if operation in (LEAF, NANOS):
            null_leaf(row, arena.memory, entry)
        elif operation == MESSAGE:
            set_valid(row, arena.memory, entry, 0)
        elif operation in (LEAVES, MESSAGES):
            store_i32(arena.memory + word(row, VALUES) + 4 * entry + 4, np.int32(word(arena.counts, word(row, LEVEL))))
            set_valid(row, arena.memory, entry, 0)
            at = word(row, TARGET)
            continue
        at += 1


@inner
def take_back(arena, first, last, entry, free):
    """Null for operations that may have been filled: their lists give back their elements, and all that lie in them.

    ``entry`` is the last one of its level. ``free`` has room for two words a list that nests.
    """
    at, depth, until = first, 0, last
    while at < last:
        while depth > 0 and at >= until:
            depth -= 2
            entry, until = word(free, depth), word(free, depth + 1)
        row = arena.program + ROW_BYTES * at
        operation = word(row, OPERATION)
        if operation in (LEAVES, MESSAGES):
            slot = arena.memory + word(row, VALUES) + 4 * entry
            begin = np.int64(load_i32(slot))
            set_word(arena.counts, word(row, LEVEL), begin)
            if depth == 0:
                store_i32(slot + 4, np.int32(begin))
                set_valid(row, arena.memory, entry, 0)
            set_word(free, depth, entry)
            set_word(free, depth + 1, until)
            depth += 2
            entry, until = begin, word(row, TARGET)
        elif depth == 0 and operation in (LEAF, NANOS):
            null_leaf(row, arena.memory, entry)
        elif depth == 0 and operation == MESSAGE:
            set_valid(row, arena.memory, entry, 0)
        at += 1


@inner
def settle_oneof(arena, step, passed, entry, free):
    """A field of a oneof is set: the others are no longer. The issue, where one of them was.

    Operations below ``passed`` have an entry already; what lies under the others is of another time.
    """
    issue = np.int64(0)
    other = word(arena.program + ROW_BYTES * step, ONEOF)
    while other != step:
        row = arena.program + ROW_BYTES * other
        valid = word(row, VALID)
        if other < passed and valid >= 0 and load_u8(arena.memory + valid + entry) != 0:
            take_back(arena, other, word(row, TARGET), entry, free)
            issue = np.int64(ONEOF_TWICE)
        other = word(row, ONEOF)
    return issue


@inner
def end_list(arena, step, entry, free):
    """Where a list ends its entry ends too; a map with a key twice is null. The issue."""
    row = arena.program + ROW_BYTES * step
    slot = arena.memory + word(row, VALUES) + 4 * entry
    begin, end = np.int64(load_i32(slot)), word(arena.counts, word(row, LEVEL))
    store_i32(slot + 4, np.int32(end))
    if word(row, VALID) >= 0:
        store_u8(arena.memory + word(row, VALID) + entry, np.uint8(1))
    if end - begin > 1 and word(row, FLAGS) & IS_MAP:
        key = row + ROW_BYTES
        if has_key_twice(arena.memory, key, begin, end, arena.map_table, key_width(key)):
            take_back(arena, step, word(row, TARGET), entry, free)
            return np.int64(KEY_TWICE)
    return np.int64(0)
