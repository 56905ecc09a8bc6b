"""Least and greatest value of each page."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernel_types import read_only, writable
from engine.table.page_words import load_prefix, swap_bytes

_PLACES = read_only(types.int64)


_INDEX = read_only(types.int32)


def _number(kind: types.Type) -> types.Type:
    return types.void(read_only(kind), _INDEX, _PLACES, writable(kind), writable(kind))


@njit([_number(types.uint8), _number(types.int32), _number(types.int64)], nogil=True, cache=True)
def number_bounds(values, index, value_at, low, high):
    """Of ``values``, or where there is an index of ``values[index]``; pages without any keep ``low`` and ``high``."""
    is_indexed = index.shape[0] > 0
    for page in range(low.shape[0]):
        first, end = value_at[page], value_at[page + 1]
        if first == end:
            continue
        least = greatest = values[index[first] if is_indexed else first]
        for place in range(first + 1, end):
            value = values[index[place] if is_indexed else place]
            least = min(least, value)
            greatest = max(greatest, value)
        low[page], high[page] = least, greatest


def _float(kind: types.Type) -> types.Type:
    return types.void(read_only(kind), _INDEX, _PLACES, writable(kind), writable(kind), writable(types.int64))


@njit([_float(types.float32), _float(types.float64)], nogil=True, cache=True)
def float_bounds(values, index, value_at, low, high, nans):
    """The same; NaNs are counted and left out: a page of nothing but NaN has low above high."""
    is_indexed = index.shape[0] > 0
    for page in range(low.shape[0]):
        least, greatest = values.dtype.type(np.inf), values.dtype.type(-np.inf)
        count = np.int64(0)
        for place in range(value_at[page], value_at[page + 1]):
            value = values[index[place] if is_indexed else place]
            least = value if value < least else least
            greatest = value if value > greatest else greatest
            count += np.isnan(value)
        low[page], high[page], nans[page] = least, greatest, count


@njit(nogil=True)
def less_string(data, left, left_size, right, right_size):
    """Whether the string at ``left`` comes before the one at ``right``, both in ``data``, byte by byte unsigned."""
    done = np.int64(0)
    size = min(left_size, right_size)
    while done < size:
        first = swap_bytes(load_prefix(data, left + done, size - done))
        second = swap_bytes(load_prefix(data, right + done, size - done))
        if first != second:
            return first < second
        done += 8
    return left_size < right_size


@njit(
    types.void(_PLACES, read_only(types.uint8), _PLACES, types.uint64, writable(types.int64), writable(types.int64)),
    nogil=True,
    cache=True,
)
def string_bounds(offsets, data, value_at, flip, low, high):
    """The places of the least and the greatest string of each page, -1 where there is none."""
    for page in range(low.shape[0]):
        first, end = value_at[page], value_at[page + 1]
        low[page] = high[page] = -1
        if first == end:
            continue
        least = greatest = first
        low_key = high_key = swap_bytes(load_prefix(data, offsets[first], offsets[first + 1] - offsets[first])) ^ flip
        for place in range(first + 1, end):
            start = offsets[place]
            size = offsets[place + 1] - start
            key = swap_bytes(load_prefix(data, start, size)) ^ flip
            if key < low_key or (
                key == low_key and less_string(data, start, size, offsets[least], offsets[least + 1] - offsets[least])
            ):
                least, low_key = place, key
            if key > high_key or (
                key == high_key
                and less_string(data, offsets[greatest], offsets[greatest + 1] - offsets[greatest], start, size)
            ):
                greatest, high_key = place, key
        low[page], high[page] = least, greatest
