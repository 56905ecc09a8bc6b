"""What the records of an offset range are read from: one of our own files, or an adopted range of somebody else's.

Offset index entries are the multiples of a power of two, chosen so that 24 to 48 KiB of records lie between two: for
each row group of our own files, once for an adopted range. Batches break there too, so that a sequential reader starts
on an entry. The grid takes nothing but footers, is the same after any restart, and the grids before and after
compaction nest: where the step differs, the entries of the coarser one are entries of the finer one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.page_reader import PageRun, read_rows
from engine.reading.file_index import FileIndex, OpenFile, OpenGroup
from engine.reading.time_index import NEVER, latest_by_offset
from engine.records.merged_records import merged_pieces
from engine.records.records import NO_RECORDS, Records
from engine.table.foreign.adopted_rows import ProvenBytes, read_window, window_at
from engine.table.manifests import TableFile
from engine.table.rows.rows import CodecPool, records_from_rows
from engine.table.topic_table import TopicTable

LARGEST_INTERVAL_BYTES = 48 << 10
"""Between an index entry and the offset that was asked for lies at most about this much that is sent for nothing."""

LARGEST_STEP = 1 << 20
"""Where a range is nearly empty, entries cost less than a search through what little is there."""

SEQUENTIAL_ROWS = 64 * 1024
"""Rows decoded at once for a reader that goes on, where there is room: a row group."""

_RUN_FSCK = "run floeberg fsck on the topic"

BlockKey: TypeAlias = tuple[str, int]
"""(path, offset): a block that holds the first record at or after that offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlace:
    """Rows that can be decoded by themselves: of each row group of a window (which has one in stream order) a run of
    pages; without ``runs``, a window of an adopted range.

    ``offsets``: all records of these are in the rows, and where there are several runs some of others are too. Ends
    before a record of the file, or at the end of its range.
    """

    path: str
    offsets: OffsetRange
    runs: tuple[tuple[int, PageRun], ...] = ()
    """(row group, its pages)."""

    @property
    def key(self) -> BlockKey:
        return (self.path, self.offsets.start)

    def holds(self, key: BlockKey) -> bool:
        """Whether the block of this place has what ``key`` names."""
        path, offset = key
        return self.path == path and offset in self.offsets

    @property
    def row_count(self) -> int:
        """At least 1."""
        return max(1, sum(run.row_count for _, run in self.runs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBlock:
    """The records of a place in ``pieces`` that follow each other, and what they take in memory."""

    place: BlockPlace
    pieces: tuple[Records, ...]
    size_bytes: int

    @classmethod
    def of(cls, place: BlockPlace, *pieces: Records) -> RowBlock:
        return cls(place=place, pieces=pieces, size_bytes=sum(map(_size_bytes, pieces)))


def _size_bytes(records: Records) -> int:
    fixed = records.offset.nbytes + records.timestamp_ms.nbytes + records.leader_epoch.nbytes + len(records)
    spans = [records.key, records.value]
    if records.headers is not None:
        spans += [records.headers.key, records.headers.value]
        fixed += records.headers.first.nbytes
    return fixed + sum(part.data.nbytes + part.start.nbytes + part.length.nbytes for part in spans)


class BlockSource(Protocol):
    """One file, or adopted range, of a table. Safe to use from several threads. Everything may raise Corrupt (naming
    the file) and Unavailable."""

    @property
    def path(self) -> str:
        """As in the places of its blocks."""

    @property
    def record_bytes(self) -> int:
        """Mean bytes of a record in its canonical form: near enough to what it takes in a batch. At least 1."""

    @property
    def sequential_rows(self) -> int:
        """Rows that are best decoded at once for a reader that goes on: each read decodes the dictionaries of all
        columns again, so a quarter of a row group, or of a window, costs a third of the throughput."""

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        """The offset index's entries inside ``wanted``, rising: int64 offsets."""

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(first offset, latest timestamp in ms) of each page that overlaps ``wanted``: int64[n] each."""

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:
        """Where the first record at or after ``offset`` is, with about ``least_rows`` rows; None after the last."""

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:
        """Decode the rows of a place. ``is_sequential``: what comes after them is wanted next."""


class OwnFile:
    """A file that Floeberg wrote: blocks are runs of pages, or row groups where pages don't align; of a clustered file
    such runs of all row groups of a window, put together by offset."""

    def __init__(self, table: TopicTable, opened: OpenFile, index: FileIndex, codecs: CodecPool) -> None:
        self._table = table
        self._opened = opened
        self._index = index
        self._codecs = codecs
        self.path = opened.file.path
        self.record_bytes = opened.record_bytes
        self.sequential_rows = max(SEQUENTIAL_ROWS, int(opened.windows.row_count.max()))

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        opened = self._opened
        parts = [np.empty(0, np.int64)]
        for window, step in enumerate(grid_steps(opened).tolist()):
            parts.append(_multiples(step, opened.window_range(window), wanted))
        return np.concatenate(parts)

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return latest_by_offset(self._opened, self._table.layout, wanted)

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:
        opened, layout = self._opened, self._table.layout
        window = opened.window_of_offset(offset)
        if window >= len(opened.windows):
            return None
        groups = opened.groups_of(window)
        pages = [_pages_of(self._index.open_group(self._table, opened, group), layout.offset) for group in groups]
        start = max(offset, int(opened.windows.first_offset[window]))
        if len(pages) == 1:
            # Whoever comes back to a little before is served too.
            start = int(pages[0].first[np.searchsorted(pages[0].last, start, "left")])
        upto = _end_of_rows(pages, start, least_rows)
        runs = zip(groups, (each.between(start, upto) for each in pages), strict=True)
        if upto > int(opened.windows.last_offset[window]):
            upto = opened.window_range(window).end
        return BlockPlace(
            path=self.path,
            offsets=OffsetRange(start=start, end=upto),
            runs=tuple((group, run) for group, run in runs if run.row_count),
        )

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:
        runs = [self._read_run(group, run, is_sequential=is_sequential) for group, run in place.runs]
        if len(runs) == 1:
            return RowBlock.of(place, *runs)
        runs = [inside(run, place.offsets.start, place.offsets.end) for run in runs]
        pieces = tuple(merged_pieces(runs))
        offset = np.concatenate([np.empty(0, np.int64), *(piece.offset for piece in pieces)])
        if bool((np.diff(offset) <= 0).any()):
            problem = f"several row groups hold the same offset of {place.offsets}"
            raise self._damage(problem, place.offsets.start, _RUN_FSCK)
        return RowBlock.of(place, *pieces)

    def stored_rows(self, group: int, run: PageRun, columns: Collection[str]) -> pa.Table:
        """Some top-level columns of a run as they are stored, and no byte of the others; those that are null in all
        rows are left out, and so are those that the file lacks."""
        described = self._index.open_group(self._table, self._opened, group)
        return read_rows(
            self._opened.source,
            self._opened.footer,
            described.group,
            described.layout,
            run,
            unread=frozenset(chunk.column.top for chunk in described.group.chunks).difference(columns),
            is_plain=True,
            whole_bytes=0,
        )

    def _read_run(self, group: int, run: PageRun, *, is_sequential: bool) -> Records:
        table, opened = self._table, self._opened
        described = self._index.open_group(table, opened, group)
        expected = _pages_of(described, table.layout.offset).offsets(run)
        rows = read_rows(
            opened.source,
            opened.footer,
            described.group,
            described.layout,
            run,
            is_sequential=is_sequential,
            unread=frozenset({table.layout.partition, table.layout.error}),
        )
        try:
            with self._codecs.taken(table) as codecs:
                records = records_from_rows(table.layout, rows, codecs)
        except Corrupt as error:
            raise self._damage(error.problem, expected.start, error.next_step) from error
        self._check_offsets(records.offset, expected)
        return records

    def _check_offsets(self, offset: NDArray[np.int64], expected: OffsetRange) -> None:
        """Rows that are not those asked for must never reach a consumer."""
        right = (
            len(offset) > 0
            and int(offset[0]) == expected.start
            and int(offset[-1]) == expected.end - 1
            and bool((np.diff(offset) > 0).all())
        )
        if not right:
            problem = f"the rows at offsets {expected} hold other offsets than the file's index says"
            raise self._damage(problem, expected.start, _RUN_FSCK)

    def _damage(self, problem: str, offset: int, next_step: str | None) -> Corrupt:
        file = self._opened.file
        return Corrupt(
            problem,
            topic=self._table.topic,
            partition=file.partition,
            offset=offset,
            file=file.path,
            next_step=next_step,
        )


class AdoptedFile:
    """An adopted range, read in windows of offsets: always the same ones, so what was decoded for one reader serves the
    next. Nothing is known of where in the files its records lie."""

    def __init__(self, table: TopicTable, file: TableFile, proven: ProvenBytes, codecs: CodecPool) -> None:
        self._table = table
        self._file = file
        self._proven = proven
        self._codecs = codecs
        self.path = file.path
        self.record_bytes = max(1, file.size_bytes // max(1, file.record_count))
        self.sequential_rows = SEQUENTIAL_ROWS

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        step = _steps(self._file.range.offset_count, self._file.size_bytes)
        return _multiples(int(step), self._file.range, wanted)

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array([max(self._file.range.start, wanted.start)], np.int64), np.array([NEVER], np.int64)

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:  # noqa: ARG002  # windows are always the same
        if offset >= self._file.range.end:
            return None
        window = window_at(self._file, max(offset, self._file.range.start))
        return BlockPlace(path=self.path, offsets=window)

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:  # noqa: ARG002  # there is nothing to fetch at once
        with self._codecs.taken(self._table) as codecs:
            records = read_window(self._table, self._file, place.offsets, codecs, self._proven)
        return RowBlock.of(place, records or NO_RECORDS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pages:
    """The pages of a row group (one, where it can only be read whole): ``first`` and ``last`` offset int64[pages],
    ``row`` int64[pages + 1], the first row of each and the end."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    row: NDArray[np.int64]

    def between(self, start: int, upto: int) -> PageRun:
        """The pages that reach ``start`` and begin before ``upto``."""
        first_page = int(np.searchsorted(self.last, start, "left"))
        end_page = max(first_page, int(np.searchsorted(self.first, upto, "left")))
        return PageRun(
            first_row=int(self.row[first_page]),
            end_row=int(self.row[end_page]),
            first_page=first_page,
            end_page=end_page,
        )

    def offsets(self, run: PageRun) -> OffsetRange:
        """From the first record of a run to after its last."""
        return OffsetRange(start=int(self.first[run.first_page]), end=int(self.last[run.end_page - 1]) + 1)


def _pages_of(group: OpenGroup, offset_column: str) -> _Pages:
    layout = group.layout
    if layout is not None:
        return _Pages(first=layout.first_offset, last=layout.last_offset, row=layout.first_row)
    first, last = group.group.int_bounds(offset_column)
    return _Pages(first=np.array([first]), last=np.array([last]), row=np.array([0, group.group.row_count]))


def _end_of_rows(pages: Sequence[_Pages], start: int, least_rows: int) -> int:
    """The first offset of a page, or the one after the last page, before which ``least_rows`` rows from ``start`` on
    are: where one begins inside a page, the page is taken to hold its offsets evenly."""
    first = np.concatenate([each.first for each in pages])
    end = np.concatenate([each.last for each in pages]) + 1
    rows = np.concatenate([np.diff(each.row) for each in pages])
    left = np.clip(end - start, 0, end - first)
    rows, first, end, left = (each[left > 0] for each in (rows * (left / (end - first)), end - left, end, left))
    ends = np.append(np.sort(first[first > start]), end.max())
    before = np.clip((ends[:, np.newaxis] - first) / left, 0, 1) @ rows
    return int(ends[min(int(np.searchsorted(before, least_rows, "left")), len(ends) - 1)])


def grid_steps(opened: OpenFile) -> NDArray[np.int64]:
    """The power of two between two entries in each window: int64[windows]."""
    windows = opened.windows
    # What a window weighs encoded tells how its records compare with the file's mean.
    weight = windows.total_bytes / max(1, int(windows.total_bytes.sum()))
    ranges = [opened.window_range(window) for window in range(len(windows))]
    offset_count = np.array([part.offset_count for part in ranges], np.float64)
    return _steps(offset_count, weight * opened.record_bytes * opened.file.record_count)


def inside(records: Records, start: int, end: int) -> Records:
    """The records at offsets ``start`` to ``end``, that excluded."""
    first_row, end_row = np.searchsorted(records.offset, (start, end), "left")
    return records.slice(int(first_row), int(end_row))


def _steps(offset_count: NDArray[np.float64] | int, batch_bytes: NDArray[np.float64] | int) -> NDArray[np.int64]:
    offsets_between = LARGEST_INTERVAL_BYTES * offset_count / np.maximum(batch_bytes, 1)
    exponent = np.floor(np.log2(np.clip(offsets_between, 1, LARGEST_STEP)))
    return np.left_shift(np.int64(1), exponent.astype(np.int64))


def _multiples(step: int, held: OffsetRange, wanted: OffsetRange) -> NDArray[np.int64]:
    """The multiples of ``step`` in both ranges."""
    start, end = max(held.start, wanted.start), min(held.end, wanted.end)
    return np.arange(-(-start // step) * step, end, step, dtype=np.int64)
