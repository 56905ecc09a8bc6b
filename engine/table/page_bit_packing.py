"""Small numbers as a page holds them: bit-packed, in runs, or by their differences.

Source: the Parquet format specification, "Encodings": the RLE/bit-packing hybrid, and DELTA_BINARY_PACKED. The kernels
of this module are called by those that write whole pages.
"""

# Numba types kernels by their arguments; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit

from engine.table.page_words import bit_length, load_prefix, load_word, store_word

GROUP = 8
"""Values of a bit-packed group; from so many equal ones on, a run is written."""

LARGEST_BLOCK = 256
MINIBLOCKS = 4
"""Differences of a block share their least one, those of a miniblock their width. Blocks of 64-bit numbers have 256
differences and those of 32-bit ones 128, as with pyarrow's writer."""

ROOM = 64
"""Bytes behind a buffer's last one that these kernels may write over: they store whole words."""

_LARGEST = np.int64(2**63 - 1)
_EACH_BYTE = np.uint64(0x0101010101010101)
_BITS_OF_BYTES = np.uint64(0x0102040810204080)
"""Times a word of bytes 0 and 1: its highest byte has them as bits, the first one lowest."""


@njit(nogil=True)
def put_varint(out, at, value):
    """Unsigned LEB128; the position behind it."""
    rest = np.uint64(value)
    while rest >= np.uint64(0x80):
        out[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@njit(nogil=True)
def put_zigzag(out, at, value):
    """A signed 64-bit number; the position behind it."""
    return put_varint(out, at, np.uint64(value << 1) ^ np.uint64(value >> 63))


@njit(nogil=True)
def put_size(out, at, size):
    """Four bytes, little-endian; the position behind them."""
    out[at] = size & 255
    out[at + 1] = (size >> 8) & 255
    out[at + 2] = (size >> 16) & 255
    out[at + 3] = (size >> 24) & 255
    return at + 4


@njit(nogil=True)
def pack_bits(values, first, end, padded, width, out, at):
    """``values[first:end]`` and zeros up to ``padded`` values, each in ``width`` bits; the position behind them."""
    stop = at + (padded * width + 7) // 8
    word = np.uint64(0)
    bits = np.int64(0)
    for place in range(first, end):
        value = np.uint64(values[place])
        word |= value << np.uint64(bits)
        bits += width
        if bits >= 64:
            store_word(out, at, word)
            at += 8
            bits -= 64
            word = value >> np.uint64(width - bits) if bits > 0 else np.uint64(0)
    while at < stop:
        store_word(out, at, word)
        word = np.uint64(0)
        at += 8
    return stop


@njit(nogil=True)
def put_hybrid(values, first, end, width, out, at):
    """``values[first:end]`` as runs and bit-packed groups; the position behind them."""
    while first < end:
        value = values[first]
        run = first + 1
        while run < end and values[run] == value:
            run += 1
        if run - first >= GROUP or run == end:
            at = put_varint(out, at, (run - first) << 1)
            store_word(out, at, np.uint64(value))
            at += (width + 7) // 8
            first = run
            continue
        packed = first + GROUP
        while packed + GROUP <= end:
            # Without a branch for each value: where equal ones come up at random, it would be guessed wrong.
            differing = values[packed] ^ values[packed + 1]
            for place in range(packed + 2, packed + GROUP):
                differing |= values[packed] ^ values[place]
            if differing == 0:
                break
            packed += GROUP
        else:
            packed = end
        groups = (packed - first + GROUP - 1) // GROUP
        at = put_varint(out, at, groups << 1 | 1)
        at = pack_bits(values, first, packed, groups * GROUP, width, out, at)
        first = packed
    return at


@njit(nogil=True)
def put_levels(levels, first, end, width, out, at):
    """What ``put_hybrid`` does, for bytes: eight of them are one word."""
    while first < end:
        level = levels[first]
        run = first + 1
        while run < end and levels[run] == level:
            run += 1
        if run - first >= GROUP or run == end:
            at = put_varint(out, at, (run - first) << 1)
            out[at] = level
            at += 1
            first = run
            continue
        packed = first + GROUP
        while packed + GROUP <= end and load_word(levels, packed) != np.uint64(levels[packed]) * _EACH_BYTE:
            packed += GROUP
        if packed + GROUP > end:
            packed = end
        groups = (packed - first + GROUP - 1) // GROUP
        at = put_varint(out, at, groups << 1 | 1)
        if width == 1:
            for place in range(first, packed, GROUP):
                word = load_prefix(levels, place, packed - place)
                out[at] = np.uint8((word * _BITS_OF_BYTES) >> np.uint64(56))
                at += 1
        else:
            at = pack_bits(levels, first, packed, groups * GROUP, width, out, at)
        first = packed
    return at


@njit(nogil=True)
def put_run(value, count, out, at):
    """A hybrid of one run of a value below 256; the position behind it."""
    at = put_varint(out, at, count << 1)
    out[at] = value
    return at + 1


@njit(nogil=True)
def put_differences(values, first, end, deltas, out, at):
    """Numbers as DELTA_BINARY_PACKED; the position behind them. ``deltas`` uint64[LARGEST_BLOCK] is scratch.

    The differences of 32-bit numbers wrap at 32 bits, those of 64-bit ones at 64, as readers add them up.
    """
    block = LARGEST_BLOCK if values.itemsize == 8 else LARGEST_BLOCK // 2
    miniblock = block // MINIBLOCKS
    at = put_varint(out, at, block)
    at = put_varint(out, at, MINIBLOCKS)
    at = put_varint(out, at, end - first)
    if first == end:
        return put_zigzag(out, at, np.int64(0))
    last = np.int64(values[first])
    at = put_zigzag(out, at, last)
    place = first + 1
    while place < end:
        count = min(end - place, block)
        least = _LARGEST
        for number in range(count):
            value = np.int64(values[place + number])
            delta = value - last
            if values.itemsize == 4:
                delta = np.int64(np.int32(delta))
            last = value
            deltas[number] = np.uint64(delta)
            least = min(least, delta)
        at = put_zigzag(out, at, least)
        widths_at = at
        at += MINIBLOCKS
        for mini in range(MINIBLOCKS):
            begin = mini * miniblock
            stop = min(begin + miniblock, count)
            bits = np.uint64(0)
            for number in range(begin, stop):
                deltas[number] -= np.uint64(least)
                bits |= deltas[number]
            width = bit_length(bits)
            out[widths_at + mini] = np.uint8(width)
            if width:
                at = pack_bits(deltas, begin, stop, miniblock, width, out, at)
        place += count
    return at
