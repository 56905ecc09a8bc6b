"""Offset ranges of the table as record batches: what a broker hands to its consumers in place of its own segment.

Positions are relative offsets (KIP-405 leaves "position" to the plugin): position ``r`` of the segment ``[start, end)``
is offset ``start + r``. What is read back holds every record of the range once, in order, each with its offset,
timestamp, epoch, key, value and headers; batch boundaries and compression are the reader's own.

What the broker does with it (Kafka 4.1, RemoteLogManager.read, findFirstBatch, lookupTimestamp): it takes the position
of the last offset index entry at or below the offset asked for (0 below the first), skips batches that end below that
offset, and hands out the next ones up to the fetch's size; a first batch that is larger than the fetch is handed out
alone. Clients drop records below their position and go on after the last batch's last offset, some (kafkajs) after
the last record instead: so every batch ends with a record, and what no record comes after ends with a control batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.kafka_log.batch_writer import control_batches, encode_batches
from engine.kafka_log.compression import Compression
from engine.offset_range import OffsetRange
from engine.parquet.page_reader import PageRun, pages_from, whole_group
from engine.reading.file_index import FileIndex, OpenFile, OpenGroup
from engine.reading.offset_grid import grid_offsets
from engine.reading.read_ahead import ReadAhead, ReadAheadLimits
from engine.reading.row_block import RowBlock, RowBlockReader
from engine.reading.time_index import entries, latest_by_offset
from engine.records.records import Records
from engine.table.foreign.adopted_rows import AdoptedFile
from engine.table.manifests import TableFile
from engine.table.topic_table import TopicTable

FIRST_READ_BYTES = 1 << 20
"""Decoded for a reader that begins somewhere new: a consumer's default fetch (max.partition.fetch.bytes)."""

SEQUENTIAL_ROWS = 64 * 1024
"""Rows decoded at once for a reader that goes on, a whole row group where there is room: each read decodes the
dictionaries of all columns again, so a quarter of a row group costs a third of the throughput."""

FEWEST_SEQUENTIAL_ROWS = 4 * 1024
"""A page: what a sequential reader decodes at once when so many go on side by side that there is no room for more."""

RECORD_OVERHEAD_BYTES = 64
"""Memory of a decoded record beside its key, value and headers: positions, lengths, offset, timestamp."""

ENCODE_BYTES = 512 << 10
"""Batches made at once: what is made behind the point where a broker hangs up is lost."""

LARGEST_BATCH_BYTES = 64 << 10
"""Where records between two grid entries pass this, the batch is cut off the grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReaderLimits:
    """Bounds of one reader; those of the index are the index's own."""

    read_ahead: ReadAheadLimits = field(default_factory=ReadAheadLimits)


@dataclass(slots=True)
class _Pace:
    """How far one call decodes ahead: a page or two at first, then more, from the start where the reader is known."""

    rows: int
    is_sequential: bool

    def next_rows(self, most_rows: int) -> int:
        """Rows for the next block."""
        rows = self.rows
        self.is_sequential = self.is_sequential or rows >= most_rows
        self.rows = rows * 4
        return min(rows, most_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Position:
    """A row of a file where a block begins: a page's first row, or a row group's where pages don't align."""

    opened: OpenFile
    group: OpenGroup
    page: int
    row: int

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.opened.file.path, self.group.group.index, self.row)

    def run(self, least_rows: int) -> PageRun:
        layout = self.group.layout
        if layout is None:
            return whole_group(self.group.group, None)
        return pages_from(layout, self.page, least_rows=least_rows)


class LogReader:
    """Reads partitions of any table by offset. One per process; safe to use from several threads."""

    def __init__(self, *, file_index: FileIndex, limits: LogReaderLimits | None = None) -> None:
        self._index = file_index
        self._rows = RowBlockReader()
        self._ahead = ReadAhead((limits or LogReaderLimits()).read_ahead)

    def read(
        self,
        table: TopicTable,
        partition: int,
        *,
        range: OffsetRange,  # noqa: A002 - the field's word for it
        start: int,
        max_bytes: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> Iterator[memoryview]:
        """Record batches v2 of ``range`` (a segment's) from offset ``start`` on, produced as they are asked for.

        Every batch has a valid CRC and carries its leader epoch. The first begins at ``start``, each other one at the
        offset after the one before: so they cover the gap before their first record, as batches do that Kafka's own
        cleaner leaves, and a batch that got lost shows. A gap that no record of the range comes after is covered by a
        control batch. Ends with the batch that reaches ``max_bytes``, or at the range's end; there is at least one.

        Raises Invalid (``start`` outside ``range``), Unavailable (the range isn't in the table yet, the warehouse is
        away), Corrupt (a file's bytes are not what they claim to be); that the range is there is checked at once.
        """
        if start not in range:
            raise Invalid(
                f"a read begins inside its range {range}", topic=table.topic, partition=partition, offset=start
            )
        wanted = OffsetRange(start=start, end=range.end)
        self._index.covering(table, partition, range)
        files = self._index.files(table, partition).overlapping(wanted)
        return self._batches(table, partition, files, wanted, max_bytes, compression)

    def offset_grid(self, table: TopicTable, partition: int, range: OffsetRange) -> NDArray[np.int64]:  # noqa: A002 - the field's word for it
        """Rising relative offsets (int64, each > 0, none >= the range's length) for the segment's offset index.

        Entry ``r`` means: position ``r`` holds relative offset ``r``. No batch of ``read`` holds records of both sides
        of one.
        Raises as ``read``.
        """
        parts = [np.empty(0, np.int64)]
        for file in self._index.covering(table, partition, range):
            parts.append(grid_offsets(self._opened(table, file), range))
        relative = np.concatenate(parts) - range.start
        return relative[relative > 0]

    def time_index(
        self,
        table: TopicTable,
        partition: int,
        range: OffsetRange,  # noqa: A002 - the field's word for it
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs for the segment's time index: (timestamp_ms int64[n], relative offset int64[n]), both rising.

        A lookup of the last pair whose timestamp is <= t gives an offset with no record of a timestamp >= t before it.
        Raises as ``read``.
        """
        pages = [
            latest_by_offset(self._opened(table, file), table.layout, range)
            for file in self._index.covering(table, partition, range)
        ]
        if not pages:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first_offset, latest_ms = (np.concatenate(part) for part in zip(*pages, strict=True))
        return entries(first_offset, latest_ms, range)

    def records(self, table: TopicTable, partition: int, range: OffsetRange) -> Iterator[Records]:  # noqa: A002 - the field's word for it
        """All records of ``range`` in rising offset order, in blocks (about a row group each). Raises as ``read``.

        Reads past the caches: a pass over a whole table must not push out what consumers are reading.
        """
        for file in self._index.covering(table, partition, range):
            if file.parts:
                for window in AdoptedFile(file=file).windows(range):
                    found = _inside(self._rows.read_window(table, file, window).records, range)
                    if len(found):
                        yield found
                continue
            opened = self._index.open(table, file)
            position = self._position(table, opened, range.start)
            while position is not None:
                run = whole_group(position.group.group, position.group.layout)
                block = self._rows.read(table, opened, position.group, run, is_sequential=True)
                found = _inside(block.records, range)
                if len(found):
                    yield found
                position = self._position(table, opened, block.offsets.end) if block.offsets.end < range.end else None

    def forget(self, path: str) -> None:
        """Drop what is kept of a file that turned out damaged: it may have been put back as it was."""
        self._index.forget(path)

    def memory_use(self) -> dict[str, tuple[int, int]]:
        """Bytes in each cache, and its bound: decoded blocks and what the index keeps."""
        return {"decoded_block_bytes": (self._ahead.held_bytes, self._ahead.limit_bytes), **self._index.memory_use()}

    def close(self) -> None:
        """Stop prefetching and let go of the caches; the index is the caller's."""
        self._ahead.close()

    def _batches(
        self,
        table: TopicTable,
        partition: int,
        files: Sequence[TableFile],
        wanted: OffsetRange,
        max_bytes: int | None,
        compression: Compression,
    ) -> Iterator[memoryview]:
        covered = wanted.start
        produced = 0
        for source, block in self._blocks(table, partition, files, wanted, max_bytes):
            records = _inside(block.records, wanted)
            block_end = min(block.offsets.end, wanted.end)
            grid = grid_offsets(source, OffsetRange(start=min(block.offsets.start, block_end), end=block_end))
            for part in _encodable_parts(records, grid, source.record_bytes):
                for batch in encode_batches(
                    part, grid=grid, target_bytes=LARGEST_BATCH_BYTES, compression=compression, cover_from=covered
                ):
                    yield batch
                    produced += len(batch)
                    if max_bytes is not None and produced >= max_bytes:
                        return
                covered = int(part.offset[-1]) + 1
        yield from control_batches(OffsetRange(start=covered, end=wanted.end))

    def _blocks(
        self,
        table: TopicTable,
        partition: int,
        files: Sequence[TableFile],
        wanted: OffsetRange,
        max_bytes: int | None,
    ) -> Iterator[tuple[OpenFile | AdoptedFile, RowBlock]]:
        """The blocks that hold records of ``wanted``, each decoded ahead of its reader where that is known to go on."""
        pace: _Pace | None = None
        for at, file in enumerate(files):
            if file.parts:
                yield from self._windows(table, partition, AdoptedFile(file=file), wanted)
                continue
            opened = self._index.open(table, file)
            following = files[at + 1] if at + 1 < len(files) else None
            position = self._position(table, opened, wanted.start)
            while position is not None and _first_offset(position) < wanted.end:
                if pace is None:
                    pace = self._first_pace(table, partition, opened, wanted.start, max_bytes)
                block = self._ahead.find(position.key)
                rows = pace.next_rows(self._most_rows(opened))
                if block is None:
                    block = self._decode(table, position, rows, is_sequential=pace.is_sequential)
                else:
                    pace = _Pace(rows=SEQUENTIAL_ROWS, is_sequential=True)
                self._ahead.note_end(table.location, partition, block.offsets.end)
                end = block.offsets.end
                position = self._position(table, opened, end) if end < file.range.end else None
                if pace.is_sequential:
                    self._prefetch(table, position, following)
                yield opened, block

    def _windows(
        self, table: TopicTable, partition: int, adopted: AdoptedFile, wanted: OffsetRange
    ) -> Iterator[tuple[AdoptedFile, RowBlock]]:
        """The blocks of an adopted range, the next one decoded ahead for a reader that goes through in order."""
        is_sequential = self._ahead.reader_stopped_at(table.location, partition, wanted.start)
        for window in adopted.windows(wanted):
            block = self._ahead.find(adopted.key(window))
            if block is None:
                read = partial(self._rows.read_window, table, adopted.file, window)
                block = self._ahead.decode(adopted.key(window), window.end, read)
            self._ahead.note_end(table.location, partition, window.end)
            if is_sequential and window.end < adopted.file.range.end:
                following = adopted.window_at(window.end)
                self._ahead.prefetch(
                    adopted.key(following),
                    following.end,
                    partial(self._rows.read_window, table, adopted.file, following),
                )
            is_sequential = True
            yield adopted, block

    def _first_pace(
        self, table: TopicTable, partition: int, opened: OpenFile, start: int, max_bytes: int | None
    ) -> _Pace:
        if self._ahead.reader_stopped_at(table.location, partition, start):
            return _Pace(rows=SEQUENTIAL_ROWS, is_sequential=True)
        wanted_bytes = FIRST_READ_BYTES if max_bytes is None else min(max_bytes, FIRST_READ_BYTES)
        return _Pace(rows=wanted_bytes // opened.record_bytes + 1, is_sequential=False)

    def _opened(self, table: TopicTable, file: TableFile) -> OpenFile | AdoptedFile:
        return AdoptedFile(file=file) if file.parts else self._index.open(table, file)

    def _most_rows(self, opened: OpenFile) -> int:
        """Rows a block may have, so that the blocks of all readers that go on side by side fit the memory for them."""
        rows = self._ahead.share_bytes // (opened.record_bytes + RECORD_OVERHEAD_BYTES)
        return max(min(rows, SEQUENTIAL_ROWS), min(FEWEST_SEQUENTIAL_ROWS, FIRST_READ_BYTES // opened.record_bytes + 1))

    def _position(self, table: TopicTable, opened: OpenFile, offset: int) -> _Position | None:
        """Where the first record at or behind ``offset`` is, or None behind the file's last."""
        index = opened.group_of_offset(offset)
        if index >= len(opened.summaries):
            return None
        group = self._index.open_group(table, opened, index)
        if group.layout is None:
            return _Position(opened=opened, group=group, page=0, row=0)
        page = group.layout.page_of_offset(offset)
        return _Position(opened=opened, group=group, page=page, row=int(group.layout.first_row[page]))

    def _decode(self, table: TopicTable, position: _Position, rows: int, *, is_sequential: bool) -> RowBlock:
        run = position.run(rows)
        return self._ahead.decode(
            position.key,
            run.end_row,
            lambda: self._rows.read(table, position.opened, position.group, run, is_sequential=is_sequential),
        )

    def _prefetch(self, table: TopicTable, position: _Position | None, following: TableFile | None) -> None:
        if position is None:
            if following is None:
                return
            opened = self._index.open(table, following)
            position = self._position(table, opened, following.range.start)
        if position is not None:
            ahead = position
            run = ahead.run(self._most_rows(ahead.opened))
            self._ahead.prefetch(
                ahead.key,
                run.end_row,
                lambda: self._rows.read(table, ahead.opened, ahead.group, run, is_sequential=True),
            )


def _first_offset(position: _Position) -> int:
    """The first record's offset in the block that begins at a position."""
    layout, index = position.group.layout, position.group.group.index
    if layout is None:
        return int(position.opened.summaries.first_offset[index])
    return int(layout.first_offset[position.page])


def _inside(records: Records, wanted: OffsetRange) -> Records:
    first, end = np.searchsorted(records.offset, (wanted.start, wanted.end), "left")
    return records.slice(int(first), int(end))


def _encodable_parts(records: Records, grid: NDArray[np.int64], record_bytes: int) -> Iterator[Records]:
    """Records in parts of about ENCODE_BYTES that end on the grid."""
    rows = max(1, ENCODE_BYTES // record_bytes)
    at, count = 0, len(records)
    while at < count:
        upto = count
        if at + rows < count:
            entry = int(np.searchsorted(grid, int(records.offset[at + rows]), "left"))
            upto = int(np.searchsorted(records.offset, grid[entry], "left")) if entry < len(grid) else count
        yield records.slice(at, upto)
        at = upto
