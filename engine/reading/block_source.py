"""What the records of an offset range are read from: one of our own files, or an adopted range of somebody else's.

Offset index entries are the multiples of a power of two, chosen so that 24 to 48 KiB of records lie between two: for
each row group of our own files, once for an adopted range. Batches break there too, so that a sequential reader starts
on an entry. The grid takes nothing but footers, is the same after any restart, and the grids before and after
compaction nest: where the step differs, the entries of the coarser one are entries of the finer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.page_reader import PageRun, pages_from, read_rows, whole_group
from engine.reading.file_index import FileIndex, OpenFile, OpenGroup
from engine.reading.time_index import NEVER, latest_by_offset
from engine.records.records import NO_RECORDS, Records
from engine.table.foreign.adopted_rows import ProvenBytes, read_window, window_at
from engine.table.manifests import TableFile
from engine.table.rows.rows import CodecPool, records_from_rows
from engine.table.topic_table import TopicTable

LARGEST_INTERVAL_BYTES = 48 << 10
"""Between an index entry and the offset that was asked for lies at most about this much that is sent for nothing."""

LARGEST_STEP = 1 << 20
"""Where a range is nearly empty, entries cost less than a search through what little is there."""

BlockKey: TypeAlias = tuple[str, int, int]
"""(path, row group, row): a block that holds that row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlace:
    """Rows that can be decoded by themselves: a run of a row group's pages, or a window of an adopted range.

    ``offsets`` reaches from the first record to the next one in the file, or to the end of the file's range.
    """

    path: str
    group: int
    run: PageRun
    offsets: OffsetRange

    @property
    def key(self) -> BlockKey:
        return (self.path, self.group, self.run.first_row)

    def holds(self, key: BlockKey) -> bool:
        """Whether the block of this place has the row that ``key`` names."""
        path, group, row = key
        return self.path == path and self.group == group and self.run.first_row <= row < self.run.end_row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBlock:
    """The records of a place, and what they take in memory."""

    place: BlockPlace
    records: Records
    size_bytes: int

    @classmethod
    def of(cls, place: BlockPlace, records: Records) -> RowBlock:
        fixed = records.offset.nbytes + records.timestamp_ms.nbytes + records.leader_epoch.nbytes + len(records)
        spans = [records.key, records.value]
        if records.headers is not None:
            spans += [records.headers.key, records.headers.value]
            fixed += records.headers.first.nbytes
        size_bytes = fixed + sum(part.data.nbytes + part.start.nbytes + part.length.nbytes for part in spans)
        return cls(place=place, records=records, size_bytes=size_bytes)


class BlockSource(Protocol):
    """One file, or adopted range, of a table. Safe to use from several threads. Everything may raise Corrupt (naming
    the file) and Unavailable."""

    @property
    def record_bytes(self) -> int:
        """Mean bytes of a record in its canonical form: near enough to what it takes in a batch. At least 1."""

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        """The offset index's entries inside ``wanted``, rising: int64 offsets."""

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(first offset, latest timestamp in ms) of each page that overlaps ``wanted``: int64[n] each."""

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:
        """Where the first record at or after ``offset`` is, with about ``least_rows`` rows; None after the last."""

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:
        """Decode the rows of a place. ``is_sequential``: what comes after them is wanted next."""


class OwnFile:
    """A file that Floeberg wrote: blocks are runs of pages, or row groups where pages don't align."""

    def __init__(self, table: TopicTable, opened: OpenFile, index: FileIndex, codecs: CodecPool) -> None:
        self._table = table
        self._opened = opened
        self._index = index
        self._codecs = codecs
        self.record_bytes = opened.record_bytes

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        opened = self._opened
        parts = [np.empty(0, np.int64)]
        for group, step in enumerate(grid_steps(opened).tolist()):
            parts.append(_multiples(step, opened.group_range(group), wanted))
        return np.concatenate(parts)

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return latest_by_offset(self._opened, self._table.layout, wanted)

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:
        opened = self._opened
        index = opened.group_of_offset(offset)
        if index >= len(opened.summaries):
            return None
        described = self._index.open_group(self._table, opened, index)
        layout, start, end = described.layout, int(opened.summaries.first_offset[index]), opened.group_range(index).end
        if layout is None:
            run = whole_group(described.group, None)
        else:
            run = pages_from(layout, layout.page_of_offset(offset), least_rows=least_rows)
            start = int(layout.first_offset[run.first_page])
            if run.end_page < layout.page_count:
                end = int(layout.first_offset[run.end_page])
        return BlockPlace(path=opened.file.path, group=index, run=run, offsets=OffsetRange(start=start, end=end))

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:
        table, opened = self._table, self._opened
        described = self._index.open_group(table, opened, place.group)
        rows = read_rows(
            opened.source,
            opened.footer,
            described.group,
            described.layout,
            place.run,
            is_sequential=is_sequential,
            unread=frozenset({table.layout.partition, table.layout.error}),
        )
        try:
            with self._codecs.taken(table) as codecs:
                records = records_from_rows(table.layout, rows, codecs)
        except Corrupt as error:
            raise self._damage(error.problem, opened.group_range(place.group).start, error.next_step) from error
        self._check_offsets(records, place, described)
        return RowBlock.of(place, records)

    def _check_offsets(self, records: Records, place: BlockPlace, described: OpenGroup) -> None:
        """Rows that are not those asked for must never reach a consumer."""
        layout, offset = described.layout, records.offset
        last = self._opened.summaries.last_offset[place.group]
        if layout is not None:
            last = layout.last_offset[place.run.end_page - 1]
        expected = OffsetRange(start=place.offsets.start, end=int(last) + 1)
        right = (
            len(offset) > 0
            and int(offset[0]) == expected.start
            and int(offset[-1]) == expected.end - 1
            and bool((np.diff(offset) > 0).all())
        )
        if not right:
            problem = f"the rows at offsets {expected} hold other offsets than the file's index says"
            raise self._damage(problem, expected.start, "run floeberg fsck on the topic")

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
        self.record_bytes = max(1, file.size_bytes // max(1, file.record_count))

    def grid(self, wanted: OffsetRange) -> NDArray[np.int64]:
        step = _steps(self._file.range.offset_count, self._file.size_bytes)
        return _multiples(int(step), self._file.range, wanted)

    def latest_by_offset(self, wanted: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array([max(self._file.range.start, wanted.start)], np.int64), np.array([NEVER], np.int64)

    def place_at(self, offset: int, least_rows: int) -> BlockPlace | None:  # noqa: ARG002  # windows are always the same
        if offset >= self._file.range.end:
            return None
        window = window_at(self._file, max(offset, self._file.range.start))
        run = PageRun(first_row=window.start, end_row=window.end, first_page=0, end_page=0)
        return BlockPlace(path=self._file.path, group=0, run=run, offsets=window)

    def read(self, place: BlockPlace, *, is_sequential: bool) -> RowBlock:  # noqa: ARG002  # there is nothing to fetch at once
        with self._codecs.taken(self._table) as codecs:
            records = read_window(self._table, self._file, place.offsets, codecs, self._proven)
        return RowBlock.of(place, records or NO_RECORDS)


def grid_steps(opened: OpenFile) -> NDArray[np.int64]:
    """The power of two between two entries in each row group: int64[groups]."""
    summaries = opened.summaries
    # What a row group weighs encoded tells how its records compare with the file's mean.
    weight = summaries.total_bytes / max(1, int(summaries.total_bytes.sum()))
    ranges = [opened.group_range(group) for group in range(len(summaries))]
    offset_count = np.array([part.offset_count for part in ranges], np.float64)
    return _steps(offset_count, weight * opened.record_bytes * opened.file.record_count)


def _steps(offset_count: NDArray[np.float64] | int, batch_bytes: NDArray[np.float64] | int) -> NDArray[np.int64]:
    offsets_between = LARGEST_INTERVAL_BYTES * offset_count / np.maximum(batch_bytes, 1)
    exponent = np.floor(np.log2(np.clip(offsets_between, 1, LARGEST_STEP)))
    return np.left_shift(np.int64(1), exponent.astype(np.int64))


def _multiples(step: int, held: OffsetRange, wanted: OffsetRange) -> NDArray[np.int64]:
    """The multiples of ``step`` in both ranges."""
    start, end = max(held.start, wanted.start), min(held.end, wanted.end)
    return np.arange(-(-start // step) * step, end, step, dtype=np.int64)
