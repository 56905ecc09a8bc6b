"""The pages of one column chunk: levels and values behind each other, page by page, in each of Parquet's encodings.

Every kernel takes ``levels`` uint8 with ``level_at`` int64[pages + 1] (the levels of each page, encoded) and
``value_at`` int64[pages + 1] (the first value of each page), writes the pages into ``out`` and their positions into
``page_at`` int64[pages + 1]. ``out`` has room for the largest encoding and ROOM bytes more.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.byte_copy import copy_bytes
from engine.kernel_types import read_only, writable
from engine.table.page_bit_packing import (
    LARGEST_BLOCK,
    pack_bits,
    put_differences,
    put_hybrid,
    put_levels,
    put_run,
    put_size,
)
from engine.table.page_words import WORD_BYTES, bit_length, load_prefix, store_word, trailing_zeros

_BYTES = read_only(types.uint8)
_PLACES = read_only(types.int64)
_OUT = (writable(types.uint8), writable(types.int64))
_PAGES = (_BYTES, _PLACES)


@njit(nogil=True)
def _put_levels(levels, level_at, page, out, at):
    size = level_at[page + 1] - level_at[page]
    copy_bytes(out, at, levels, level_at[page], size)
    return at + size


@njit(types.void(_BYTES, types.int64, _BYTES, types.int64, types.int64, _PLACES, *_OUT), nogil=True, cache=True)
def encode_levels(repetition, deepest_repetition, definition, constant, deepest_definition, entry_at, out, page_at):
    """Repetition and definition levels of each page, each with its size in front; a deepest level of 0 has none.

    An empty ``repetition`` stands for zeros, an empty ``definition`` for ``constant`` in every entry.
    """
    at = np.int64(0)
    for page in range(entry_at.shape[0] - 1):
        page_at[page] = at
        first, end = entry_at[page], entry_at[page + 1]
        if deepest_repetition > 0:
            after = put_run(np.int64(0), end - first, out, at + 4)
            if repetition.shape[0] > 0:
                after = put_levels(repetition, first, end, bit_length(deepest_repetition), out, at + 4)
            put_size(out, at, after - at - 4)
            at = after
        if deepest_definition > 0:
            after = put_run(constant, end - first, out, at + 4)
            if definition.shape[0] > 0:
                after = put_levels(definition, first, end, bit_length(deepest_definition), out, at + 4)
            put_size(out, at, after - at - 4)
            at = after
    page_at[entry_at.shape[0] - 1] = at


@njit(types.void(*_PAGES, read_only(types.int32), _PLACES, *_OUT), nogil=True, cache=True)
def encode_indexes(levels, level_at, index, value_at, out, page_at):
    """RLE_DICTIONARY: the width, then the hybrid. Entries are numbered as they appear, so early pages are narrow."""
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        largest = np.int32(1)
        for place in range(value_at[page], value_at[page + 1]):
            largest = max(largest, index[place])
        width = bit_length(np.uint64(largest))
        out[at] = np.uint8(width)
        at = put_hybrid(index, value_at[page], value_at[page + 1], width, out, at + 1)
    page_at[value_at.shape[0] - 1] = at


def _delta_signature(kind):
    return types.void(*_PAGES, read_only(kind), _PLACES, *_OUT)


@njit([_delta_signature(types.int32), _delta_signature(types.int64)], nogil=True, cache=True)
def encode_delta_binary(levels, level_at, values, value_at, out, page_at):
    """DELTA_BINARY_PACKED."""
    deltas = np.empty(LARGEST_BLOCK, np.uint64)
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        at = put_differences(values, value_at[page], value_at[page + 1], deltas, out, at)
    page_at[value_at.shape[0] - 1] = at


@njit(types.void(*_PAGES, _BYTES, _PLACES, types.int64, *_OUT), nogil=True, cache=True)
def encode_plain_fixed(levels, level_at, values, value_at, size, out, page_at):
    """PLAIN, ``size`` bytes a value."""
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        taken = (value_at[page + 1] - value_at[page]) * size
        copy_bytes(out, at, values, value_at[page] * size, taken)
        at += taken
    page_at[value_at.shape[0] - 1] = at


@njit(types.void(*_PAGES, _BYTES, _PLACES, *_OUT), nogil=True, cache=True)
def encode_plain_bits(levels, level_at, values, value_at, out, page_at):
    """PLAIN booleans, a bit each."""
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        first, end = value_at[page], value_at[page + 1]
        at = pack_bits(values, first, end, end - first, 1, out, at)
    page_at[value_at.shape[0] - 1] = at


_STRINGS = types.void(*_PAGES, _PLACES, _BYTES, _PLACES, *_OUT)


@njit(_STRINGS, nogil=True, cache=True)
def encode_plain_bytes(levels, level_at, offsets, data, value_at, out, page_at):
    """PLAIN strings, each with its size in front."""
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        for place in range(value_at[page], value_at[page + 1]):
            size = offsets[place + 1] - offsets[place]
            at = put_size(out, at, size)
            copy_bytes(out, at, data, offsets[place], size)
            at += size
    page_at[value_at.shape[0] - 1] = at


@njit(_STRINGS, nogil=True, cache=True)
def encode_delta_length(levels, level_at, offsets, data, value_at, out, page_at):
    """DELTA_LENGTH_BYTE_ARRAY: all sizes, then all bytes."""
    deltas = np.empty(LARGEST_BLOCK, np.uint64)
    most = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        most = max(most, value_at[page + 1] - value_at[page])
    sizes = np.empty(most, np.int32)
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        first, end = value_at[page], value_at[page + 1]
        for place in range(first, end):
            sizes[place - first] = offsets[place + 1] - offsets[place]
        at = put_differences(sizes, np.int64(0), end - first, deltas, out, at)
        size = offsets[end] - offsets[first]
        copy_bytes(out, at, data, offsets[first], size)
        at += size
    page_at[value_at.shape[0] - 1] = at


@njit(nogil=True)
def _shared(data, left, right, size):
    """How many of the first ``size`` bytes at two positions are the same."""
    done = np.int64(0)
    while done < size:
        differing = load_prefix(data, left + done, size - done) ^ load_prefix(data, right + done, size - done)
        if differing:
            return done + trailing_zeros(differing) // 8
        done += 8
    return size


@njit(_STRINGS, nogil=True, cache=True)
def encode_delta_strings(levels, level_at, offsets, data, value_at, out, page_at):
    """DELTA_BYTE_ARRAY: what each string shares with the one before, then the rest as DELTA_LENGTH_BYTE_ARRAY."""
    deltas = np.empty(LARGEST_BLOCK, np.uint64)
    most = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        most = max(most, value_at[page + 1] - value_at[page])
    prefixes = np.empty(most, np.int32)
    sizes = np.empty(most, np.int32)
    at = np.int64(0)
    for page in range(value_at.shape[0] - 1):
        page_at[page] = at
        at = _put_levels(levels, level_at, page, out, at)
        first, end = value_at[page], value_at[page + 1]
        for place in range(first, end):
            size = offsets[place + 1] - offsets[place]
            shared = np.int64(0)
            if place > first:
                before = offsets[place] - offsets[place - 1]
                shared = _shared(data, offsets[place - 1], offsets[place], min(size, before))
            prefixes[place - first] = shared
            sizes[place - first] = size - shared
        at = put_differences(prefixes, np.int64(0), end - first, deltas, out, at)
        at = put_differences(sizes, np.int64(0), end - first, deltas, out, at)
        for place in range(first, end):
            taken = np.int64(sizes[place - first])
            start = offsets[place + 1] - taken
            for copied in range(0, taken, WORD_BYTES):
                store_word(out, at + copied, load_prefix(data, start + copied, taken - copied))
            at += taken
    page_at[value_at.shape[0] - 1] = at
