"""Levels: how deep each entry of a column is there, and where lists go on.

Source: the Parquet format specification, "Nested encoding" (Dremel). An *entry* is a value, or a null or an empty list
that stands for one. ``place`` is its position in the Arrow array at hand, -1 where something above it is missing.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.byte_copy import copy_bytes
from engine.kernel_types import read_only, writable

MISSING = -1

_BITS = read_only(types.uint8)
_LEVELS = read_only(types.uint8)
_PLACES = read_only(types.int64)


@njit(nogil=True)
def _bit(bits, at):
    return (bits[at >> 3] >> (at & 7)) & 1


@njit(
    types.int64(_BITS, types.int64, types.int64, types.uint8, writable(types.uint8), writable(types.int64)),
    nogil=True,
    cache=True,
)
def present_in_range(valid, first, count, level, definition, place):
    """Entries of an Arrow array from bit ``first`` on: ``level`` + 1 where valid; how many are.

    ``place`` gets the positions of the valid ones, relative to ``first``, densely.
    """
    found = np.int64(0)
    for entry in range(count):
        bit = _bit(valid, first + entry)
        definition[entry] = level + bit
        place[found] = entry
        found += bit
    return found


@njit(types.void(_BITS, types.int64, writable(types.uint8), writable(types.int64)), nogil=True, cache=True)
def descend_optional(valid, first, definition, place):
    """One level deeper for the valid entries; the others are missing from here on. An empty ``valid``: all are."""
    known = valid.shape[0] > 0
    for entry in range(place.shape[0]):
        if place[entry] >= 0:
            if not known or _bit(valid, first + place[entry]):
                definition[entry] += 1
            else:
                place[entry] = MISSING


@njit(types.int64(read_only(types.int32), _PLACES), nogil=True, cache=True)
def count_elements(offsets, place):
    """Entries of a list's elements: one for each element, and one for each list without any."""
    total = np.int64(0)
    for entry in range(place.shape[0]):
        size = np.int64(0)
        if place[entry] >= 0:
            size = np.int64(offsets[place[entry] + 1]) - offsets[place[entry]]
        total += max(size, np.int64(1))
    return total


@njit(
    types.void(
        read_only(types.int32),
        _PLACES,
        _LEVELS,
        _LEVELS,
        types.uint8,
        writable(types.int64),
        writable(types.uint8),
        writable(types.uint8),
    ),
    nogil=True,
    cache=True,
)
def descend_list(offsets, place, definition, repetition, level, new_place, new_definition, new_repetition):
    """The elements of each list; ``level`` the repetition level of those behind the first."""
    at = np.int64(0)
    for entry in range(place.shape[0]):
        first, end = np.int64(0), np.int64(0)
        if place[entry] >= 0:
            first, end = np.int64(offsets[place[entry]]), np.int64(offsets[place[entry] + 1])
        new_repetition[at] = repetition[entry]
        new_definition[at] = definition[entry]
        if first == end:
            new_place[at] = MISSING
            at += 1
            continue
        for element in range(first, end):
            if element > first:
                new_repetition[at] = level
            new_definition[at] = definition[entry] + 1
            new_place[at] = element
            at += 1


@njit(types.int64(_PLACES, writable(types.int64)), nogil=True, cache=True)
def dense_places(place, out):
    """The positions that are not missing, densely; how many."""
    found = np.int64(0)
    for entry in range(place.shape[0]):
        out[found] = place[entry]
        found += place[entry] >= 0
    return found


@njit(
    types.int64(
        read_only(types.int32),
        read_only(types.uint8),
        types.int64,
        types.int64,
        _PLACES,
        writable(types.int64),
        types.int64,
        writable(types.uint8),
        types.int64,
    ),
    nogil=True,
    cache=True,
)
def append_strings(offsets, data, first, count, positions, out_offsets, done, out, used):
    """Copy the strings of rows ``first + positions`` behind the ``done`` strings and ``used`` bytes there are.

    Returns the bytes used then. ``out_offsets[done + 1:]`` gets where each ends.
    """
    for number in range(count):
        row = positions[number]
        start, end = np.int64(offsets[first + row]), np.int64(offsets[first + row + 1])
        copy_bytes(out, used, data, start, end - start)
        used += end - start
        out_offsets[done + number + 1] = used
    return used
