"""Finds a key that a map has twice, and takes such a map back out of the columns."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.operations import ARRAY, ARRAY_END, DATA, LEVEL, MAX_MAP_KEYS, OPERATION, ROW_BYTES, VALUES
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, load_i64, load_u8, set_word, store_i32, word

# Up to here every key is compared with every other, which is faster than hashing.
FEW_KEYS = 12
# More collisions than this in a row are made on purpose; the map is treated as one with a key twice.
MAX_PROBES = 64
TABLE_ENTRIES = 2 * MAX_MAP_KEYS
# The width of a key that is a text; numbers have that of their values.
TEXT_KEY = 0


@inner
def same_text(offsets, data, one, other):
    """Whether two entries of a string column are equal."""
    begin, other_begin = load_i32(offsets + 4 * one), load_i32(offsets + 4 * other)
    length = np.int64(load_i32(offsets + 4 * one + 4)) - begin
    if length != np.int64(load_i32(offsets + 4 * other + 4)) - other_begin:
        return False
    for index in range(length):  # noqa: SIM110 - numba has no generators here
        if load_u8(data + begin + index) != load_u8(data + other_begin + index):
            return False
    return True


@inner
def number_key(values, width, entry):
    """A key that is a number, as 64 bits; those of 16 bytes are decimals that have no more."""
    if width == 1:
        return np.int64(load_u8(values + entry))
    return np.int64(load_i32(values + 4 * entry)) if width == 4 else load_i64(values + width * entry)


@inner
def same_key(values, data, width, one, other):
    if width == TEXT_KEY:
        return same_text(values, data, one, other)
    return number_key(values, width, one) == number_key(values, width, other)


@inner
def hash_of_key(values, data, width, entry):
    """FNV-1a of a text; of a number its product with 2**64 over the golden ratio (Knuth, volume 3, 6.4)."""
    if width != TEXT_KEY:
        return np.uint64(number_key(values, width, entry)) * np.uint64(0x9E3779B97F4A7C15)
    place = np.uint64(0xCBF29CE484222325)
    for at in range(load_i32(values + 4 * entry), load_i32(values + 4 * entry + 4)):
        place = (place ^ np.uint64(load_u8(data + at))) * np.uint64(0x100000001B3)
    return place


@inner
def has_key_twice(memory, key_row, begin, end, table, width):
    """Whether two of the keys ``begin <= entry < end`` are equal; ``table`` has room for TABLE_ENTRIES int32.

    ``width`` is the bytes of a key that is a number, TEXT_KEY for a text.
    """
    values, data = memory + word(key_row, VALUES), memory + word(key_row, DATA)
    count = end - begin
    if count <= FEW_KEYS:
        for entry in range(begin, end):
            for other in range(begin, entry):
                if same_key(values, data, width, entry, other):
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
        place = hash_of_key(values, data, width, entry)
        # Multiplying carries differences upwards only: the upper half is folded into the bits that are looked at.
        slot = np.int64((place ^ (place >> np.uint64(32))) & np.uint64(size - 1))
        probes = 0
        while load_i32(table + 4 * slot) >= 0:
            probes += 1
            if probes > MAX_PROBES or same_key(values, data, width, entry, np.int64(load_i32(table + 4 * slot))):
                return True
            slot = (slot + 1) & (size - 1)
        store_i32(table + 4 * slot, np.int32(entry))
    return False


@inner
def take_back_list(arena, first, last, begin, free):
    """Give back the entries from ``begin`` on of a list's level, and all that lie in them.

    ``first <= step < last`` are the list's operations, its ARRAY and ARRAY_END included. What lies inside begins where
    the offsets of entry ``begin`` say. ``free`` has room for as many words as the lists nest.
    """
    entry = begin
    depth = 0
    for step in range(first, last):
        row = arena.program + ROW_BYTES * step
        if word(row, OPERATION) == ARRAY:
            set_word(free, depth, entry)
            depth += 1
            if step != first:
                entry = np.int64(load_i32(arena.memory + word(row, VALUES) + 4 * entry))
            set_word(arena.counts, word(row, LEVEL), entry)
        elif word(row, OPERATION) == ARRAY_END:
            depth -= 1
            entry = word(free, depth)
