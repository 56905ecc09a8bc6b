"""The values of one leaf column of a row group in the making, without a dictionary, and their pages.

Three kinds: numbers (booleans, integers, floating point) as they stand in memory; strings, one behind the other; and
byte arrays of one length each, which are strings of that length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.table import page_bounds_kernels as bounds
from engine.table import page_level_kernels as level_kernels
from engine.table import page_value_kernels as pages
from engine.table.page_bit_packing import ROOM
from engine.table.page_words import WORD_BYTES
from engine.table.parquet_bounds import NumberBounds, PageBounds, StringBounds
from engine.table.parquet_levels import EncodedLevels, with_room
from engine.table.parquet_settings import (
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARY,
    PLAIN,
)
from engine.table.parquet_shredding import LeafPiece

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 0, 1, 2, 4, 5, 6, 7
"""Parquet's physical types."""

ENCODING_IDS = {PLAIN: 0, DELTA_BINARY_PACKED: 5, DELTA_LENGTH_BYTE_ARRAY: 6, DELTA_BYTE_ARRAY: 7, DICTIONARY: 8}

PAGE_OVERHEAD = 1024
BLOCK_OVERHEAD = 64
"""Bytes besides the values' own that a page takes at most, and a block of differences: the first and the least one, the
widths, and above all a page's last miniblock, which is as long with one value in it as with 64."""

ALL: NDArray[np.int64] = np.empty(0, np.int64)
"""Positions that stand for every row."""

NO_INDEX: NDArray[np.int32] = np.empty(0, np.int32)

_STORED: dict[int, np.dtype[Any]] = {
    BOOLEAN: np.dtype(np.uint8),
    INT32: np.dtype(np.int32),
    INT64: np.dtype(np.int64),
    FLOAT: np.dtype(np.int32),
    DOUBLE: np.dtype(np.int64),
}
FLOATS: dict[int, np.dtype[Any]] = {FLOAT: np.dtype(np.float32), DOUBLE: np.dtype(np.float64)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What a leaf column is. ``size`` the bytes of a FIXED_LEN_BYTE_ARRAY, else 0."""

    path: tuple[str, ...]
    kind: pa.DataType
    physical: int
    size: int
    deepest_definition: int
    deepest_repetition: int

    @property
    def is_bytes(self) -> bool:
        return self.physical >= BYTE_ARRAY

    @property
    def signed_size(self) -> int:
        """Bytes of a value that is a number, most significant byte first; 0 where it isn't."""
        return self.size if pa.types.is_decimal(self.kind) else 0

    @property
    def flip(self) -> np.uint64:
        """What makes the first 8 bytes compare as the values do."""
        return np.uint64(1 << 63 if self.signed_size else 0)

    @property
    def stored(self) -> np.dtype[Any]:
        """A number as the kernels see it: floating point by its bits."""
        return _STORED[self.physical]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedValues:
    """Pages, levels included: page ``n`` is ``data[page_at[n]:page_at[n + 1]]``; ``dictionary`` its page, PLAIN.

    ``bounds`` finds the pages' bounds, as long as the column has these values."""

    data: NDArray[np.uint8]
    page_at: NDArray[np.int64]
    encoding: int
    bounds: Callable[[], PageBounds]
    dictionary: memoryview | None = None
    dictionary_entries: int = 0
    value_bytes: int | None = None
    """Bytes of all strings together, without their sizes."""


class Scratch:
    """Memory that pages are encoded in, one column after the other: fresh memory costs as much as what is written."""

    def __init__(self) -> None:
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        self._data = with_room(self._data, 0, size)
        return self._data


def number_source(piece: LeafPiece, leaf: Leaf) -> tuple[NDArray[Any], int]:
    """(the numbers of the piece's array, the first one's index): positions count from it."""
    array = piece.array
    data = array.buffers()[1]
    if leaf.physical == BOOLEAN:
        end = array.offset + len(array)
        bits = np.frombuffer(data, np.uint8)[array.offset // 8 : (end + 7) // 8]
        return np.unpackbits(bits, bitorder="little"), array.offset % 8 + piece.first
    if pa.types.is_decimal(array.type):
        # 16 bytes each, of which a number of up to 18 digits needs the lower 8.
        words = np.frombuffer(data, np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
        return words.astype(leaf.stored), piece.first
    return np.frombuffer(data, leaf.stored), array.offset + piece.first


def string_source(piece: LeafPiece, leaf: Leaf) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """(offsets, bytes, the first string's index): positions count from it."""
    array = piece.array
    if leaf.physical == BYTE_ARRAY:
        _, offsets, data = array.buffers()
        return np.frombuffer(offsets, np.int32), _padded(data), array.offset + piece.first
    width = array.type.byte_width
    content = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if leaf.signed_size:
        # Arrow's decimals are little-endian in 16 bytes, Parquet's big-endian in as few as the precision needs.
        content = np.ascontiguousarray(content.reshape(-1, width)[:, ::-1][:, width - leaf.size :]).reshape(-1)
    offsets = np.arange(len(array) + 1, dtype=np.int32) * np.int32(leaf.size)
    return offsets, _padded(content), piece.first


def _padded(data: Any) -> NDArray[np.uint8]:
    """The bytes, at least a word of them."""
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if len(content) >= WORD_BYTES:
        return content
    return np.append(content, np.zeros(WORD_BYTES, np.uint8))


class Numbers:
    """Booleans, integers, and floating point by its bits."""

    def __init__(self, leaf: Leaf, encoding: str) -> None:
        self._leaf = leaf
        self._encoding = encoding
        self._values: NDArray[Any] = np.empty(0, leaf.stored)
        self._count = 0

    def clear(self) -> None:
        self._count = 0

    def append(self, piece: LeafPiece) -> None:
        source, first = number_source(piece, self._leaf)
        self.extend(
            source[first : first + piece.value_count] if piece.positions is None else source[first + piece.positions]
        )

    def extend(self, values: NDArray[Any]) -> None:
        end = self._count + len(values)
        self._values = with_room(self._values, self._count, end)
        self._values[self._count : end] = values
        self._count = end

    def encode(self, levels: EncodedLevels, scratch: Scratch) -> EncodedValues:
        values = self._values[: self._count]
        prefix = (levels.data, levels.level_at)
        room = self._count // 128 * BLOCK_OVERHEAD + levels.page_count * PAGE_OVERHEAD + ROOM
        out = scratch.take(levels.size_bytes + values.nbytes + room)
        page_at = np.empty(levels.page_count + 1, np.int64)
        if self._leaf.physical == BOOLEAN:
            pages.encode_plain_bits(*prefix, values, levels.value_at, out, page_at)
        elif self._encoding == PLAIN:
            size = values.itemsize
            pages.encode_plain_fixed(*prefix, values.view(np.uint8), levels.value_at, size, out, page_at)
        else:
            pages.encode_delta_binary(*prefix, values, levels.value_at, out, page_at)
        return EncodedValues(
            data=out,
            page_at=page_at,
            encoding=ENCODING_IDS[self._encoding],
            bounds=partial(number_bounds, self._leaf, values, levels.value_at),
        )


def number_bounds(
    leaf: Leaf, values: NDArray[Any], value_at: NDArray[np.int64], index: NDArray[np.int32] = NO_INDEX
) -> NumberBounds:
    """Of ``values``, or of the values at ``index``.

    Zeros get the sign that holds for either: Parquet's rule for floating point, where -0.0 equals 0.0."""
    page_count = len(value_at) - 1
    has_bounds = value_at[1:] > value_at[:-1]
    kind = FLOATS.get(leaf.physical, leaf.stored)
    low, high = np.zeros(page_count, kind), np.zeros(page_count, kind)
    nan_count = 0
    if leaf.physical in FLOATS:
        nans = np.zeros(page_count, np.int64)
        bounds.float_bounds(values.view(kind), index, value_at, low, high, nans)
        nan_count = int(nans.sum())
        has_bounds &= low <= high
        low[low == 0] = -0.0
        high[high == 0] = 0.0
    else:
        bounds.number_bounds(values, index, value_at, low, high)
    return NumberBounds(low=low, high=high, has_bounds=has_bounds, nan_count=nan_count)


_STRING_ENCODERS: dict[str, Callable[..., None]] = {
    PLAIN: pages.encode_plain_bytes,
    DELTA_LENGTH_BYTE_ARRAY: pages.encode_delta_length,
    DELTA_BYTE_ARRAY: pages.encode_delta_strings,
}


class Strings:
    """Byte arrays, one behind the other."""

    def __init__(self, leaf: Leaf, encoding: str) -> None:
        self._leaf = leaf
        self._encoding = encoding
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._count = 0

    def clear(self) -> None:
        self._count = 0

    @property
    def _used(self) -> int:
        return int(self._offsets[self._count])

    def append(self, piece: LeafPiece) -> None:
        positions = ALL if piece.positions is None else piece.positions
        self.extend(*string_source(piece, self._leaf), piece.value_count, positions)

    def extend(
        self,
        offsets: NDArray[np.int32],
        data: NDArray[np.uint8],
        first: int,
        count: int,
        positions: NDArray[np.int64],
    ) -> None:
        """Add ``count`` strings from ``first`` on, or those at ``first + positions``."""
        done, used = self._count, self._used
        self._offsets = with_room(self._offsets, done + 1, done + count + 1)
        if len(positions):
            rows = positions + first
            taken = int((offsets[rows + 1].astype(np.int64) - offsets[rows]).sum())
            self._data = with_room(self._data, used, used + taken + WORD_BYTES)
            level_kernels.append_strings(offsets, data, first, count, positions, self._offsets, done, self._data, used)
        else:
            start, end = int(offsets[first]), int(offsets[first + count])
            self._data = with_room(self._data, used, used + end - start + WORD_BYTES)
            self._data[used : used + end - start] = data[start:end]
            ends = self._offsets[done + 1 : done + count + 1]
            np.add(offsets[first + 1 : first + count + 1], used - start, out=ends, dtype=np.int64)
        self._count = done + count

    def encode(self, levels: EncodedLevels, scratch: Scratch) -> EncodedValues:
        used, size = self._used, self._leaf.size
        # Beside their bytes, strings have sizes, and with DELTA_BYTE_ARRAY the lengths they share: 4 bytes each.
        room = 8 * self._count + self._count // 64 * BLOCK_OVERHEAD + levels.page_count * PAGE_OVERHEAD + ROOM
        out = scratch.take(levels.size_bytes + used + room)
        page_at = np.empty(levels.page_count + 1, np.int64)
        prefix = (levels.data, levels.level_at)
        if size:
            pages.encode_plain_fixed(*prefix, self._data, levels.value_at, size, out, page_at)
        else:
            encoder = _STRING_ENCODERS[self._encoding]
            encoder(*prefix, self._offsets, self._data, levels.value_at, out, page_at)
        return EncodedValues(
            data=out,
            page_at=page_at,
            encoding=ENCODING_IDS[self._encoding],
            bounds=partial(self._bounds, levels.value_at),
            value_bytes=None if size else used,
        )

    def _bounds(self, value_at: NDArray[np.int64]) -> StringBounds:
        low, high = np.full(len(value_at) - 1, -1), np.full(len(value_at) - 1, -1)
        if self._count:
            bounds.string_bounds(self._offsets, self._data, value_at, self._leaf.flip, low, high)
        return StringBounds(low=self._strings_at(low), high=self._strings_at(high), signed_size=self._leaf.signed_size)

    def _strings_at(self, places: NDArray[np.int64]) -> list[bytes | None]:
        return [
            None if at < 0 else self._data[self._offsets[at] : self._offsets[at + 1]].tobytes()
            for at in places.tolist()
        ]
