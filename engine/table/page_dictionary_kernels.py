"""Dictionaries: the distinct values of a column chunk in the order they appear, and each value's place among them.

A hash table with open addressing that grows as entries come. A crafted set of values can make every one of them
collide, so the steps it may take are counted: beyond them the column has no dictionary.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernel_types import read_only, writable
from engine.table.page_bounds_kernels import less_string
from engine.table.page_words import load_prefix, load_word, store_word, swap_bytes

FIRST_SLOTS = 1024
"""Slots of an empty table, a power of two. It doubles when half of them are taken."""

REFUSED = -1
"""More entries than allowed, or too many steps: the values are to be written without a dictionary."""

ENTRIES, SLOTS, USED_BYTES, STEPS, VALUE_BYTES = range(5)
STATE_LENGTH = 5
"""What a dictionary is at: entries, slots of its table, bytes of its page, steps taken beside the first, and the
bytes of all values that were added."""

_STEPS_PER_VALUE = 16
_FREE_STEPS = 4096
_FEW_ENTRIES = 1024

_M1 = np.uint64(0x9E3779B97F4A7C15)
_M2 = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@njit(nogil=True)
def _grow(table, slots, hashes, entries):
    """Twice the slots, with every entry put in again; how many there are."""
    slots *= 2
    table[:slots] = 0
    mask = np.uint64(slots - 1)
    for entry in range(entries):
        slot = hashes[entry] & mask
        while table[slot] != 0:
            slot = (slot + _ONE) & mask
        table[slot] = (hashes[entry] & ~_LOW) | np.uint64(entry + 1)
    return slots


_ADD_STRINGS = types.int64(
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    types.int64,
    read_only(types.int64),
    writable(types.uint64),
    writable(types.uint64),
    writable(types.uint64),
    writable(types.int64),
    writable(types.uint8),
    writable(types.int64),
    writable(types.int32),
    types.int64,
    types.int64,
    types.int64,
)


@njit(_ADD_STRINGS, nogil=True, cache=True)
def add_strings(
    offsets, data, first, count, positions, table, hashes, words, entry_at, page, state, index, done, prefix, limit
):
    """Put ``count`` strings from row ``first`` on (of rows ``first + positions``, unless empty) into ``index[done:]``.

    ``table`` has for each slot the upper half of the hash, and the entry's number plus one. Of each entry: its hash,
    its first 8 bytes in ``words``, and in ``page`` its bytes behind ``prefix`` bytes (4 for their size, or none), which
    end at ``entry_at[entry + 1]``. Returns 0 or REFUSED.
    """
    entries, slots, used, steps, total = state[0], state[1], state[2], state[3], state[4]
    is_picked = positions.shape[0] > 0
    most_steps = _STEPS_PER_VALUE * (done + count) + _FREE_STEPS
    mask = np.uint64(slots - 1)
    for number in range(count):
        row = first + positions[number] if is_picked else first + number
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        word = load_prefix(data, start, size)
        hashed = ((np.uint64(size) * _M2) ^ word) * _M1
        hashed ^= hashed >> _HALF
        if size > 8:
            for at in range(start + 8, start + size - 8, 8):
                hashed = (hashed ^ load_word(data, at)) * _M1
                hashed ^= hashed >> _HALF
            hashed = (hashed ^ load_word(data, start + size - 8)) * _M1
            hashed ^= hashed >> _HALF
        hashed *= _M2
        slot = hashed & mask
        entry = np.int64(-1)
        while True:
            found = table[slot]
            if found == 0:
                break
            candidate = np.int64(found & _LOW) - 1
            if (found ^ hashed) <= _LOW:
                at = entry_at[candidate] + prefix
                if entry_at[candidate + 1] - at == size:
                    is_same = load_prefix(page, at, size) == word
                    for compared in range(8, size - 8, 8):
                        is_same &= load_word(data, start + compared) == load_word(page, at + compared)
                    if size > 8:
                        is_same = is_same and load_word(data, start + size - 8) == load_word(page, at + size - 8)
                    if is_same:
                        entry = candidate
                        break
            slot = (slot + _ONE) & mask
            steps += 1
            if steps > most_steps:
                return np.int64(REFUSED)
        if entry < 0:
            if entries >= limit:
                return np.int64(REFUSED)
            entry = entries
            table[slot] = (hashed & ~_LOW) | np.uint64(entry + 1)
            hashes[entry] = hashed
            words[entry] = word
            store_word(page, used, np.uint64(size))
            used += prefix
            for copied in range(0, size, 8):
                store_word(page, used + copied, load_prefix(data, start + copied, size - copied))
            used += size
            entries += 1
            entry_at[entries] = used
            if entries * 2 > slots:
                slots = _grow(table, slots, hashes, entries)
                mask = np.uint64(slots - 1)
        index[done + number] = entry
        total += size
    state[0], state[1], state[2], state[3], state[4] = entries, slots, used, steps, total
    return np.int64(0)


@njit(nogil=True)
def _number_slot(value, mask):
    hashed = np.uint64(value)
    hashed = (hashed ^ (hashed >> _HALF)) * _M1
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _M2
    return (hashed >> _HALF) & mask


def _add_numbers(kind: types.Type) -> types.Type:
    return types.int64(
        read_only(kind),
        types.int64,
        types.int64,
        read_only(types.int64),
        writable(types.int32),
        writable(kind),
        writable(types.int64),
        writable(types.int32),
        types.int64,
        types.int64,
    )


@njit([_add_numbers(types.int32), _add_numbers(types.int64)], nogil=True, cache=True)
def add_numbers(values, first, count, positions, table, page, state, index, done, limit):
    """Put ``count`` numbers from ``first`` on (or those at ``first + positions``) into ``index[done:]``.

    ``table`` has the entry's number plus one for each slot, ``page`` the entries. Returns 0 or REFUSED.
    """
    entries, slots, steps = state[0], state[1], state[3]
    is_picked = positions.shape[0] > 0
    most_steps = _STEPS_PER_VALUE * (done + count) + _FREE_STEPS
    mask = np.uint64(slots - 1)
    entry = np.int64(0)
    for number in range(count):
        value = values[first + positions[number] if is_picked else first + number]
        # Kafka's own columns are often one value over and over.
        if entries != 1 or value != page[0]:
            slot = _number_slot(value, mask)
            while True:
                entry = np.int64(table[slot]) - 1
                if entry < 0 or page[entry] == value:
                    break
                slot = (slot + _ONE) & mask
                steps += 1
                if steps > most_steps:
                    return np.int64(REFUSED)
            if entry < 0:
                if entries >= limit:
                    return np.int64(REFUSED)
                entry = entries
                table[slot] = entry + 1
                page[entry] = value
                entries += 1
                if entries * 2 > slots:
                    slots *= 2
                    table[:slots] = 0
                    mask = np.uint64(slots - 1)
                    for old in range(entries):
                        slot = _number_slot(page[old], mask)
                        while table[slot] != 0:
                            slot = (slot + _ONE) & mask
                        table[slot] = old + 1
        index[done + number] = entry
    state[0], state[1], state[3] = entries, slots, steps
    return np.int64(0)


_ENTRY_BOUNDS = types.void(
    read_only(types.int32),
    read_only(types.int64),
    types.int64,
    read_only(types.uint64),
    read_only(types.int64),
    read_only(types.uint8),
    types.int64,
    types.uint64,
    writable(types.int64),
    writable(types.int64),
)


@njit(_ENTRY_BOUNDS, nogil=True, cache=True)
def entry_bounds(index, value_at, entries, words, entry_at, page_bytes, prefix, flip, low, high):
    """The least and the greatest entry of each page, -1 where it has no values. Strings compare byte by byte.

    ``flip`` is set over the first 8 bytes: the sign bit of numbers in byte arrays, or 0.
    """
    seen = np.full(min(entries, _FEW_ENTRIES), -1, np.int32)
    for page in range(low.shape[0]):
        begin, end = value_at[page], value_at[page + 1]
        low[page] = high[page] = -1
        if begin == end:
            continue
        # With few entries, equal ones come up at random: what is in the page is noted first, and then compared once.
        is_few = entries <= min(_FEW_ENTRIES, end - begin)
        if is_few:
            for place in range(begin, end):
                seen[index[place]] = page
        least = greatest = np.int64(index[begin])
        low_key = high_key = swap_bytes(words[least]) ^ flip
        for place in range(entries if is_few else end - begin):
            if is_few and seen[place] != page:
                continue
            entry = np.int64(place) if is_few else np.int64(index[begin + place])
            key = swap_bytes(words[entry]) ^ flip
            if key <= low_key and entry != least:
                start, other = entry_at[entry] + prefix, entry_at[least] + prefix
                if key < low_key or less_string(
                    page_bytes, start, entry_at[entry + 1] - start, other, entry_at[least + 1] - other
                ):
                    least, low_key = entry, key
            if key >= high_key and entry != greatest:
                start, other = entry_at[entry] + prefix, entry_at[greatest] + prefix
                if key > high_key or less_string(
                    page_bytes, other, entry_at[greatest + 1] - other, start, entry_at[entry + 1] - start
                ):
                    greatest, high_key = entry, key
        low[page], high[page] = least, greatest
