"""A column chunk as bytes and as the footer describes it: page headers, checksums, statistics, page index.

Source: the Parquet format's parquet.thrift; docs/parquet_files.md says which of its fields are written.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from zstandard import ZstdCompressor

from engine.table import page_header_kernels as headers
from engine.table.parquet_bounds import Extremes, PageBounds
from engine.table.parquet_levels import EncodedLevels
from engine.table.parquet_settings import PAGE_ROWS
from engine.table.parquet_values import EncodedValues, Leaf
from engine.table.thrift_compact import (
    BINARY,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    binary,
    listed,
    struct,
    zigzag,
)

_LEVEL = 1
_STORING_LEVEL = -5
_WORTH = 0.02
"""Share of a chunk's or a page's bytes that zstd must save. A chunk whose dictionary and first page promise less is
stored as it is: readers set up a zstd context for every page. Where only the dictionary shrinks, the pages, bits of
indexes, go through zstd's fastest level, which finds nothing in them."""

_WORTH_BYTES = 128
"""What it must save a page in any case: setting up a context takes as long as decoding a hundred values."""

_REPEATED_BYTES = 64
"""A page so small is compared with the one before it: pages of nulls, or of one value, are all the same."""

_REMEMBERED_BYTES = 2048
"""Pages of a chunk that is compared with the one before it, which has a few bytes a page."""

_PLAIN, _RLE = 0, 3
_UNCOMPRESSED, _ZSTD = 0, 6
"""Compression codecs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkStatistics:
    """What a manifest needs to know of a column chunk.

    ``extremes``: least and greatest as ``bounds_of`` takes them; None without values, or where they are all NaN, or too
    long to be written.
    """

    size_bytes: int
    value_count: int
    null_count: int
    nan_count: int
    extremes: Extremes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChunk:
    """A column chunk whose pages are in the file.

    ``metadata``, ``offset_index`` and ``column_index`` are encoded structs of the footer; the last is None where a
    page's bounds are not known. Sizes count the page headers.
    """

    metadata: bytes
    offset_index: bytes
    column_index: bytes | None
    uncompressed_bytes: int
    statistics: ChunkStatistics


class PageCompressor:
    """zstd with one context for all pages, and no more of it than pays."""

    def __init__(self) -> None:
        self._zstd = ZstdCompressor(level=_LEVEL)
        self._storing = ZstdCompressor(level=_STORING_LEVEL)

    def chunk(
        self, dictionary: memoryview | None, data: NDArray[np.uint8], page_at: NDArray[np.int64]
    ) -> tuple[int, Sequence[bytes | memoryview]]:
        """(codec, the pages as they are stored): the dictionary, where there is one, and what ``page_at`` divides."""
        ends = page_at.tolist()
        view = data.data
        dictionaries = [] if dictionary is None else [self._zstd.compress(dictionary)]
        first = self._zstd.compress(view[: ends[1]])
        page_saves = ends[1] - len(first)
        dictionary_saves = 0 if dictionary is None else len(dictionary) - len(dictionaries[0])
        size = ends[-1] + (0 if dictionary is None else len(dictionary))
        if page_saves * (len(ends) - 1) + dictionary_saves < max(_WORTH * size, _WORTH_BYTES * (len(ends) - 1)):
            pages = [view[start:end] for start, end in pairwise(ends)]
            return _UNCOMPRESSED, pages if dictionary is None else [dictionary, *pages]
        compressor = self._zstd if page_saves >= _WORTH * ends[1] else self._storing
        found = [*dictionaries, first]
        before = view[: ends[1]]
        for start, end in pairwise(ends[1:]):
            page = view[start:end]
            is_repeated = end - start <= _REPEATED_BYTES and page == before
            found.append(found[-1] if is_repeated else compressor.compress(page))
            before = page
        return _ZSTD, found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PlacelessChunk:
    """A chunk but for where in the file it is: ``page_sizes`` with their headers, and ColumnMetaData up to the places
    of the pages and from there on."""

    data: bytes
    page_sizes: NDArray[np.int64]
    has_dictionary: bool
    metadata_head: bytes
    metadata_rest: bytes
    column_index: bytes | None
    uncompressed_bytes: int
    statistics: ChunkStatistics

    def at(self, position: int) -> WrittenChunk:
        """The chunk that begins at byte ``position`` of the file."""
        starts = np.cumsum(self.page_sizes) - self.page_sizes + position
        first = int(self.has_dictionary)
        places = [(9, I64, zigzag(int(starts[first])))]
        if self.has_dictionary:
            places.append((11, I64, zigzag(position)))
        return WrittenChunk(
            metadata=self.metadata_head + struct(places, after=7)[:-1] + self.metadata_rest,
            offset_index=_offset_index(starts[first:], self.page_sizes[first:]),
            column_index=self.column_index,
            uncompressed_bytes=self.uncompressed_bytes,
            statistics=self.statistics,
        )


class ChunkWriter:
    """The chunks of one column. One that is small and has the same pages as the one before is made only once: every
    row group has columns of nulls, and most of Kafka's own columns are one value."""

    def __init__(self, leaf: Leaf, compressor: PageCompressor) -> None:
        self._leaf = leaf
        self._compressor = compressor
        self._pages_before: tuple[bytes, ...] | None = None
        self._before: _PlacelessChunk | None = None

    def write(self, levels: EncodedLevels, values: EncodedValues, position: int) -> tuple[WrittenChunk, bytes]:
        """The chunk that begins at byte ``position`` of the file, and its bytes."""
        pages = _small_pages(levels, values)
        if self._before is None or pages is None or pages != self._pages_before:
            self._before = _encode(self._leaf, levels, values, self._compressor)
            self._pages_before = pages
        return self._before.at(position), self._before.data


def _small_pages(levels: EncodedLevels, values: EncodedValues) -> tuple[bytes, ...] | None:
    """All that a chunk is made of, or None where that is a lot."""
    size = int(values.page_at[-1])
    dictionary = values.dictionary or b""
    if size + len(dictionary) > _REMEMBERED_BYTES:
        return None
    arrays = (values.data[:size], values.page_at, levels.entry_at, levels.value_at)
    return (bytes(dictionary), *(array.tobytes() for array in arrays))


def _encode(leaf: Leaf, levels: EncodedLevels, values: EncodedValues, compressor: PageCompressor) -> _PlacelessChunk:
    entry_counts = np.diff(levels.entry_at)
    codec, bodies = compressor.chunk(values.dictionary, values.data, values.page_at)
    has_dictionary = values.dictionary is not None
    first = int(has_dictionary)
    pages = np.empty((5, len(bodies)), np.int64)
    pages[0, first:] = np.diff(values.page_at)
    pages[1] = [len(body) for body in bodies]
    pages[2] = [zlib.crc32(body) for body in bodies]
    pages[3, first:] = entry_counts
    pages[4] = values.encoding
    if values.dictionary is not None:
        pages[0, 0], pages[3, 0] = len(values.dictionary), values.dictionary_entries
        pages[4, 0] = headers.DICTIONARY_PAGE
    head = np.empty(len(bodies) * headers.LARGEST_HEADER, np.uint8)
    head_at = np.empty(len(bodies) + 1, np.int64)
    headers.page_headers(*pages, head, head_at)
    view, ends = head.data, head_at.tolist()
    pieces: list[bytes | memoryview] = []
    for (start, end), body in zip(pairwise(ends), bodies, strict=True):
        pieces += (view[start:end], body)
    data = b"".join(pieces)
    bounds = values.bounds()
    statistics = ChunkStatistics(
        size_bytes=len(data),
        value_count=levels.entry_count,
        null_count=levels.entry_count - levels.value_count,
        nan_count=bounds.nan_count,
        extremes=bounds.extremes(),
    )
    uncompressed = int(pages[0].sum()) + ends[-1]
    page_counts = [_page_encoding(2, _PLAIN, 1)] if has_dictionary else []
    page_counts.append(_page_encoding(0, values.encoding, levels.page_count))
    sizes = ((5, levels.entry_count), (6, uncompressed), (7, statistics.size_bytes))
    behind = (
        (12, STRUCT, _encoded_statistics(bounds, statistics)),
        (13, LIST, listed(STRUCT, page_counts)),
        (16, STRUCT, _size_statistics(levels, values)),
    )
    return _PlacelessChunk(
        data=data,
        page_sizes=pages[1] + np.diff(head_at),
        has_dictionary=has_dictionary,
        metadata_head=_metadata_head(leaf, values.encoding, has_dictionary, codec)
        + struct(((field, I64, zigzag(size)) for field, size in sizes), after=4)[:-1],
        metadata_rest=struct(behind, after=11 if has_dictionary else 9),
        column_index=_column_index(bounds, entry_counts - np.diff(levels.value_at), entry_counts),
        uncompressed_bytes=uncompressed,
        statistics=statistics,
    )


@lru_cache(maxsize=4096)
def _metadata_head(leaf: Leaf, encoding: int, has_dictionary: bool, codec: int) -> bytes:
    """The first four fields of ColumnMetaData: type, encodings, path and codec, without the struct's end."""
    encodings = [*([_PLAIN] if has_dictionary else []), _RLE, encoding]
    head = struct(
        (
            (1, I32, zigzag(leaf.physical)),
            (2, LIST, listed(I32, [zigzag(each) for each in encodings])),
            (3, LIST, listed(BINARY, [binary(part.encode()) for part in leaf.path])),
            (4, I32, zigzag(codec)),
        )
    )
    return head[:-1]


@lru_cache(maxsize=4096)
def _page_encoding(page_type: int, encoding: int, count: int) -> bytes:
    return struct(((1, I32, zigzag(page_type)), (2, I32, zigzag(encoding)), (3, I32, zigzag(count))))


def _encoded_statistics(bounds: PageBounds, statistics: ChunkStatistics) -> bytes:
    fields = [(3, I64, zigzag(statistics.null_count))]
    if statistics.extremes is not None:
        least, greatest = statistics.extremes
        fields += [
            (5, BINARY, binary(bounds.encoded(greatest))),
            (6, BINARY, binary(bounds.encoded(least))),
            (7, TRUE, b""),
            (8, TRUE, b""),
        ]
    return struct(fields)


def _size_statistics(levels: EncodedLevels, values: EncodedValues) -> bytes:
    fields = []
    if values.value_bytes is not None:
        fields.append((1, I64, zigzag(values.value_bytes)))
    for field, counts in ((2, levels.repetition_counts), (3, levels.definition_counts)):
        if counts is not None:
            fields.append((field, LIST, listed(I64, [zigzag(count) for count in counts])))
    return struct(fields)


def _offset_index(page_starts: NDArray[np.int64], page_sizes: NDArray[np.int64]) -> bytes:
    out = np.empty(len(page_starts) * headers.LARGEST_LOCATION + headers.LARGEST_LOCATION, np.uint8)
    size = headers.offset_index(page_starts, page_sizes, PAGE_ROWS, out)
    return out[:size].tobytes()


def _column_index(bounds: PageBounds, null_counts: NDArray[np.int64], entry_counts: NDArray[np.int64]) -> bytes | None:
    """ColumnIndex; None where a page has values and no bounds that can be written."""
    is_null = null_counts == entry_counts
    values = bounds.listed()
    if values is None or not (is_null | bounds.has_bounds).all():
        return None
    nulls = np.where(is_null, np.uint8(TRUE), np.uint8(FALSE)).tobytes()
    return struct(
        (
            (1, LIST, listed(TRUE, [nulls], count=len(is_null))),
            (2, LIST, values[0]),
            (3, LIST, values[1]),
            (4, I32, zigzag(bounds.order())),
            (5, LIST, listed(I64, [zigzag(count) for count in null_counts.tolist()])),
        )
    )
