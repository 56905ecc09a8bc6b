"""Finds a key that a map has twice, and takes such a map back out of the columns."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.columns.operations import ARRAY, ARRAY_END, DATA, LEVEL, MAX_MAP_KEYS, OPERATION, ROW_BYTES, VALUES
from engine.kernels.memory import load_i32, load_u8, set_word, store_i32, word

# Up to here every key is compared with every other, which is faster than hashing.
FEW_KEYS = 12
# More collisions than this in a row are made on purpose; the map is treated as one with a key twice.
MAX_PROBES = 64
TABLE_ENTRIES = 2 * MAX_MAP_KEYS


@njit(nogil=True, cache=True)
def same_text(offsets, data, one, other):  # type: ignore[no-untyped-def]
    """Whether two entries of a string column are equal."""
    begin, other_begin = load_i32(offsets + 4 * one), load_i32(offsets + 4 * other)
    length = np.int64(load_i32(offsets + 4 * one + 4)) - begin
    if length != np.int64(load_i32(offsets + 4 * other + 4)) - other_begin:
        return False
    for index in range(length):  # noqa: SIM110 - numba has no generators here
        if load_u8(data + begin + index) != load_u8(data + other_begin + index):
            return False
    return True


@njit(nogil=True, cache=True)
def has_key_twice(arena, key_row, begin, end, table):  # type: ignore[no-untyped-def]
    """Whether two of the keys ``begin <= entry < end`` are equal; ``table`` has room for TABLE_ENTRIES int32."""
    offsets, data = arena + word(key_row, VALUES), arena + word(key_row, DATA)
    count = end - begin
    if count <= FEW_KEYS:
        for entry in range(begin, end):
            for other in range(begin, entry):
                if same_text(offsets, data, entry, other):
                    return True
        return False
    if count > MAX_MAP_KEYS:
        return True
    size = np.int64(32)
    while size < 2 * count:
        size *= 2
    for index in range(size):
        store_i32(table + 4 * index, np.int32(-1))
    for entry in range(begin, end):
        place = np.uint64(0xCBF29CE484222325)  # FNV-1a
        for at in range(load_i32(offsets + 4 * entry), load_i32(offsets + 4 * entry + 4)):
            place = (place ^ np.uint64(load_u8(data + at))) * np.uint64(0x100000001B3)
        slot = np.int64((place ^ (place >> np.uint64(32))) & np.uint64(size - 1))
        probes = 0
        while load_i32(table + 4 * slot) >= 0:
            probes += 1
            if probes > MAX_PROBES or same_text(offsets, data, entry, np.int64(load_i32(table + 4 * slot))):
                return True
            slot = (slot + 1) & (size - 1)
        store_i32(table + 4 * slot, np.int32(entry))
    return False


@njit(nogil=True, cache=True)
def take_back_list(program, first, last, arena, counts, begin, stack):  # type: ignore[no-untyped-def]
    """Give back the entries from ``begin`` on of a list's level, and all that lie in them.

    ``first <= step < last`` are the list's operations, its ARRAY and ARRAY_END included. What lies inside begins where
    the offsets of entry ``begin`` say. ``stack`` has room for as many words as the lists nest.
    """
    entry = begin
    depth = 0
    for step in range(first, last):
        row = program + ROW_BYTES * step
        if word(row, OPERATION) == ARRAY:
            set_word(stack, depth, entry)
            depth += 1
            if step != first:
                entry = np.int64(load_i32(arena + word(row, VALUES) + 4 * entry))
            set_word(counts, word(row, LEVEL), entry)
        elif word(row, OPERATION) == ARRAY_END:
            depth -= 1
            entry = word(stack, depth)
