"""Dictionaries: the distinct values of a column chunk in the order they appear, and each value's place among them.

A hash table with open addressing that grows as entries come. A crafted set of values can make every one of them
collide, so the steps it may take are counted: beyond them the column has no dictionary.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.memory_kernels import load_i32, load_i64, load_u64, store_i32, store_u64
from engine.kernel_types import read_only, writable
from engine.table.page_bit_packing import ROOM
from engine.table.page_bounds_kernels import less_string
from engine.table.page_words import WORD_BYTES, swap_bytes

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

_NARROW = 16
"""Strings of up to so many bytes are two words that may overlap, and those of up to twice as many four: without a loop,
whose end would be guessed wrong where sizes come up at random."""

ENTRY_BITS = 19
"""Of a slot; the others are the hash's. Slots of 8 bytes with more of it drive each other out of the cache."""

_M1 = np.uint64(0x9E3779B97F4A7C15)
_M2 = np.uint64(0xD6E8FEB86659FD93)
_M3 = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_LESS = np.uint64(29)
_ENTRY = np.uint64((1 << ENTRY_BITS) - 1)
_TAG = np.uint64(0xFFFFFFFF) - _ENTRY
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_BITS_OF_A_WORD = np.uint64(63)
_ALL = np.uint64(2**64 - 1)


@njit(nogil=True, forceinline=True)
def _slot_of(hashed, entry):
    return np.uint32(((hashed >> _HALF) & _TAG) | np.uint64(entry + 1))


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
        table[slot] = _slot_of(hashes[entry], entry)
    return slots


@njit(nogil=True, forceinline=True)
def _mask(size):
    """Which bits of a string's first word are the string's."""
    return _ALL if size >= WORD_BYTES else (_ONE << (np.uint64(size << 3) & _BITS_OF_A_WORD)) - _ONE


@njit(nogil=True, forceinline=True)
def _mix(hashed, word, factor):
    return (hashed ^ (hashed >> _HALF)) * _M3 + (word ^ (word >> _LESS)) * factor


@njit(nogil=True, forceinline=True)
def _hash(words, source, size, is_narrow):
    first, second, third, last = words
    hashed = _mix((first ^ (np.uint64(size) * _M2)) * _M1, last * _M1, _M3)
    if not is_narrow:
        hashed = _mix(_mix(hashed, (second ^ _M1) * _M2, _M1), third * _M3, _M2)
        for at in range(source + _NARROW, source + size - _NARROW, WORD_BYTES):
            hashed = (hashed ^ load_u64(at)) * _M1
            hashed ^= hashed >> _HALF
    hashed = (hashed ^ (hashed >> _LESS)) * _M2
    return hashed ^ (hashed >> _HALF)


@njit(nogil=True, forceinline=True)
def _words_at(address, size, part, is_narrow):
    """Four words that cover a string of up to 32 bytes, its first and last 8 among them: two of a narrow one."""
    to_last = max(size, WORD_BYTES) - WORD_BYTES
    first, last = load_u64(address) & part, load_u64(address + to_last) & part
    if is_narrow:
        return first, first, first, last
    second = load_u64(address + min(to_last, WORD_BYTES)) & part
    third = load_u64(address + max(size, 2 * WORD_BYTES) - 2 * WORD_BYTES) & part
    return first, second, third, last


@njit(nogil=True, forceinline=True)
def _is_same(words, source, there, size, part, is_narrow):
    first, second, third, last = _words_at(there, size, part, is_narrow)
    differing = (first ^ words[0]) | (second ^ words[1]) | (third ^ words[2]) | (last ^ words[3])
    if not is_narrow:
        for at in range(_NARROW, size - _NARROW, WORD_BYTES):
            differing |= load_u64(source + at) ^ load_u64(there + at)
    return differing == 0


@njit(nogil=True, forceinline=True)
def _put_string(address, source, size, last_word):
    to_last = max(size, WORD_BYTES) - WORD_BYTES
    for at in range(0, to_last, WORD_BYTES):
        store_u64(address + at, load_u64(source + at))
    store_u64(address + to_last, last_word)


@njit(nogil=True)
def _longest(offsets, first, count, positions, room):
    """(the longest string's bytes, all strings' bytes). Errors: IndexError for one that is not within ``room``."""
    longest = total = np.int64(0)
    is_picked = positions.shape[0] > 0
    for number in range(count):
        row = first + positions[number] if is_picked else first + number
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end < start or end > room:
            raise IndexError("a string would leave its buffer")
        longest = max(longest, end - start)
        total += end - start
    return longest, total


_ADD_STRINGS = types.int64(
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    types.int64,
    read_only(types.int64),
    writable(types.uint32),
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

    ``table`` has for each slot the entry's number plus one in its lower ENTRY_BITS, and bits of its hash. Of each
    entry: its hash, its first 8 bytes in ``words``, and in ``page`` its bytes behind ``prefix`` bytes (4 for their
    size, or none where all have one size), which end at ``entry_at[entry + 1]``. ``data`` has a word at least,
    ``page`` room for all strings and ROOM bytes more. Returns 0 or REFUSED. Errors: IndexError.
    """
    entries, slots, used, steps = state[0], state[1], state[2], state[3]
    longest, total = _longest(offsets, first, count, positions, data.shape[0])
    last = np.int64(data.shape[0]) - WORD_BYTES
    has_room = used + total + prefix * count + ROOM <= page.shape[0] and done + count <= index.shape[0]
    if last < 0 or not has_room or slots > table.shape[0]:
        raise IndexError("a word would leave its buffer")
    is_picked, is_narrow = positions.shape[0] > 0, longest <= _NARROW
    most_steps = _STEPS_PER_VALUE * (done + count) + _FREE_STEPS
    mask = np.uint64(slots - 1)
    # Addresses in the loop: an array takes several registers, and there are too many for that.
    base, values, index_at = data.ctypes.data, page.ctypes.data + prefix, index.ctypes.data + 4 * done
    # The data's last word with zeros behind it: what begins in there is read from here, a word at a time too.
    end_of_data = np.array([load_u64(base + last), np.uint64(0)])
    table_at, ends, rows, picked = table.ctypes.data, entry_at.ctypes.data, offsets.ctypes.data, positions.ctypes.data
    for number in range(count):
        row = rows + 4 * (first + (load_i64(picked + 8 * number) if is_picked else number))
        start = np.int64(load_i32(row))
        size = np.int64(load_i32(row + 4)) - start
        source = base + start if start <= last else end_of_data.ctypes.data + start - last
        part = _mask(size)
        four_words = _words_at(source, size, part, is_narrow)
        hashed = _hash(four_words, source, size, is_narrow)
        tag = (hashed >> _HALF) & _TAG
        slot = hashed & mask
        entry = np.int64(-1)
        while True:
            found = np.uint64(np.uint32(load_i32(table_at + np.int64(slot << _TWO))))
            if found == 0:
                break
            if (found ^ tag) <= _ENTRY:
                candidate = np.int64(found & _ENTRY) - 1
                there = values + load_i64(ends + 8 * candidate)
                if (prefix == 0 or load_i32(there - prefix) == size) and _is_same(
                    four_words, source, there, size, part, is_narrow
                ):
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
            table[slot] = _slot_of(hashed, entry)
            hashes[entry] = hashed
            words[entry] = four_words[0]
            store_u64(values - prefix + used, np.uint64(size))
            used += prefix
            _put_string(values - prefix + used, source, size, four_words[3])
            used += size
            entries += 1
            entry_at[entries] = used
            if entries * 2 > slots:
                slots = _grow(table, slots, hashes, entries)
                mask = np.uint64(slots - 1)
        store_i32(index_at + 4 * number, np.int32(entry))
    state[0], state[1], state[2], state[3], state[4] = entries, slots, used, steps, state[4] + total
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
