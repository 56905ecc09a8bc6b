"""What encode kernels of all formats read columns by: slots, as ``Binding`` fills them, and what can be wrong with one.

A slot is a row of addresses and sizes, by which every access that depends on a column's content is checked.
Fixed-width buffers were measured when they were bound.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.operations import (
    S_BIT_OFFSET,
    S_CHILD_COUNT,
    S_DATA_SIZE,
    S_ENTRY_COUNT,
    S_INDICES,
    S_OFFSETS,
    S_VALIDITY,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, load_u8, word

# Codes by which an encode kernel stops.
NO_ROOM, NULL_FOUND, NO_SYMBOL, BAD_OFFSETS, BAD_INDEX, NOT_REPRESENTABLE, NO_COLUMN = -1, -2, -3, -4, -5, -6, -7

ENCODE_PROBLEM = {
    NULL_FOUND: "it is null, which its schema does not allow",
    NO_SYMBOL: "it holds a text that is no symbol of the enum",
    BAD_OFFSETS: "its offsets leave its data",
    BAD_INDEX: "it points outside of its dictionary",
    NOT_REPRESENTABLE: "it holds a value that its schema's type does not have",
    NO_COLUMN: "a value was read from it that no column holds",
}


@inner(forceinline=True)
def is_set(address, bit):
    """A bit of an Arrow bitmap, the lowest of a byte first."""
    return (load_u8(address + (bit >> 3)) >> np.uint8(bit & 7)) & 1 == 1


@inner(forceinline=True)
def is_null(slot, entry):
    return word(slot, S_VALIDITY) != 0 and not is_set(word(slot, S_VALIDITY), entry + word(slot, S_BIT_OFFSET))


@inner(forceinline=True)
def entry_of(slot, entry):
    """The entry that holds a string: its own, or one of the dictionary; BAD_INDEX where there is none such."""
    if word(slot, S_INDICES) != 0:
        entry = np.int64(load_i32(word(slot, S_INDICES) + 4 * entry))
        if entry < 0 or entry >= word(slot, S_ENTRY_COUNT):
            return np.int64(BAD_INDEX)
    return entry


@inner(forceinline=True)
def find_text(slot, entry):
    """A string in its column's data: (where it begins, or a negative code; its length)."""
    entry = entry_of(slot, entry)
    if entry < 0:
        return entry, np.int64(0)
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    length = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4)) - begin
    if begin < 0 or length < 0 or begin + length > word(slot, S_DATA_SIZE):
        return np.int64(BAD_OFFSETS), length
    return begin, length


@inner(forceinline=True)
def find_list(slot, entry):
    """A list's elements: (the first, or a negative code; after the last)."""
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    end = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4))
    if begin < 0 or end < begin or end > word(slot, S_CHILD_COUNT):
        return np.int64(BAD_OFFSETS), end
    if is_null(slot, entry):
        return np.int64(NULL_FOUND), end
    return begin, end
