"""A run of a data file's rows turned back into records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.page_reader import PageRun, read_rows
from engine.reading.file_index import OpenFile, OpenGroup
from engine.records.records import NO_RECORDS, Records
from engine.table.foreign.adopted_rows import ProvenBytes, read_window
from engine.table.manifests import TableFile
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TopicTable

CODECS_KEPT = 64
"""Tables whose codecs stay open: opening one compiles the programs of its schemas."""

IDLE_CODECS = 4
"""Open codecs a table keeps for the next reader; a codec serves one thread at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBlock:
    """The records of rows ``first_row <= row < end_row`` of a row group.

    ``offsets`` reaches from the first record to the next one in the file, or to the end of the file's range.
    """

    path: str
    group: int
    first_row: int
    end_row: int
    offsets: OffsetRange
    records: Records
    size_bytes: int


class RowBlockReader:
    """Decodes rows to records. Safe to use from several threads: each takes a codec of its own."""

    def __init__(self) -> None:
        self._idle: BoundedCache[str, _IdleCodecs] = BoundedCache(capacity=CODECS_KEPT, cost_of=lambda _: 1)
        self._proven = ProvenBytes()

    def read(
        self, table: TopicTable, opened: OpenFile, group: OpenGroup, run: PageRun, *, is_sequential: bool
    ) -> RowBlock:
        """Raises Corrupt, naming the file, when the rows are not the records the index promised; Unavailable."""
        file = opened.file
        unread = frozenset({table.layout.partition, table.layout.error})
        rows = read_rows(
            opened.source,
            opened.footer,
            group.group,
            group.layout,
            run,
            is_sequential=is_sequential,
            unread=unread,
        )
        try:
            with self._codecs(table) as codecs:
                records = records_from_rows(table.layout, rows, codecs)
        except Corrupt as error:
            raise Corrupt(
                error.problem,
                topic=table.topic,
                partition=file.partition,
                offset=opened.group_range(group.group.index).start,
                file=file.path,
                next_step=error.next_step,
            ) from error
        offsets = _expected_offsets(opened, group, run)
        _check_offsets(table, opened, records, offsets)
        return RowBlock(
            path=file.path,
            group=group.group.index,
            first_row=run.first_row,
            end_row=run.end_row,
            offsets=OffsetRange(start=offsets.start, end=_next_offset(opened, group, run)),
            records=records,
            size_bytes=_size_bytes(records),
        )

    def read_window(self, table: TopicTable, file: TableFile, window: OffsetRange) -> RowBlock:
        """The block of an adopted range that a window is: its rows are its offsets. Raises Corrupt, Unavailable."""
        with self._codecs(table) as codecs:
            records = read_window(table, file, window, codecs, self._proven) or NO_RECORDS
        return RowBlock(
            path=file.path,
            group=0,
            first_row=window.start,
            end_row=window.end,
            offsets=window,
            records=records,
            size_bytes=_size_bytes(records),
        )

    @contextmanager
    def _codecs(self, table: TopicTable) -> Iterator[RowCodecs]:
        idle = self._idle.get(table.location)
        if idle is None or not idle.fits(table):
            idle = _IdleCodecs(table)
            self._idle.put(table.location, idle)
        codecs = idle.take() or RowCodecs.of(table)
        try:
            yield codecs
        finally:
            idle.give_back(codecs)


class _IdleCodecs:
    """The open codecs of one table, as it was loaded."""

    def __init__(self, table: TopicTable) -> None:
        self._table = table
        self._read = _what_is_read(table)
        self._idle: list[RowCodecs] = []
        self._lock = threading.Lock()

    def fits(self, table: TopicTable) -> bool:
        """Whether the codecs read ``table`` too: most commits change neither schemas nor columns."""
        same_metadata = table.metadata_location == self._table.metadata_location
        return same_metadata or _what_is_read(table) == self._read

    def take(self) -> RowCodecs | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, codecs: RowCodecs) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CODECS:
                self._idle.append(codecs)


def _what_is_read(table: TopicTable) -> tuple[object, ...]:
    return table.codec, table.value_fields, table.key_codec, table.key_fields


def _expected_offsets(opened: OpenFile, group: OpenGroup, run: PageRun) -> OffsetRange:
    """From the first record of the run to behind the last, as the index says."""
    layout, index = group.layout, group.group.index
    if layout is None:
        summaries = opened.summaries
        return OffsetRange(start=int(summaries.first_offset[index]), end=int(summaries.last_offset[index]) + 1)
    first, last = layout.first_offset[run.first_page], layout.last_offset[run.end_page - 1]
    return OffsetRange(start=int(first), end=int(last) + 1)


def _next_offset(opened: OpenFile, group: OpenGroup, run: PageRun) -> int:
    """The offset of the first record behind the run, or the end of the file's range."""
    layout = group.layout
    if layout is not None and run.end_page < layout.page_count:
        return int(layout.first_offset[run.end_page])
    return opened.group_range(group.group.index).end


def _check_offsets(table: TopicTable, opened: OpenFile, records: Records, expected: OffsetRange) -> None:
    """Rows that are not those asked for must never reach a consumer."""
    offset = records.offset
    right = (
        len(offset) > 0
        and int(offset[0]) == expected.start
        and int(offset[-1]) == expected.end - 1
        and bool((np.diff(offset) > 0).all())
    )
    if not right:
        raise Corrupt(
            f"the rows at offsets {expected} hold other offsets than the file's index says",
            topic=table.topic,
            partition=opened.file.partition,
            offset=expected.start,
            file=opened.file.path,
            next_step="run floeberg fsck on the topic",
        )


def _size_bytes(records: Records) -> int:
    fixed = records.offset.nbytes + records.timestamp_ms.nbytes + records.leader_epoch.nbytes + len(records)
    spans = [records.key, records.value]
    if records.headers is not None:
        spans += [records.headers.key, records.headers.value]
        fixed += records.headers.first.nbytes
    return fixed + sum(part.data.nbytes + part.start.nbytes + part.length.nbytes for part in spans)
