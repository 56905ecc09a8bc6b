"""Columns of an offset range out of a table's files: only the bytes of what is wanted are read.

Files are left out by their bounds, row groups by their statistics, pages by their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.ranged_file import ReadCount
from engine.reading.block_source import BlockPlace, OwnFile
from engine.reading.file_index import FileIndex, FileIndexLimits
from engine.reading.log_reader import LogReader
from engine.table.manifests import TableFile
from engine.table.merge.copied_rows import in_schema
from engine.table.rows.rows import CodecPool
from streams.record_rows import rows_of
from streams.selection import TableSelection

_NO_OFFSETS = np.empty(0, np.int64)

_LIMITS = FileIndexLimits(tables=1, snapshots=4, open_footer_bytes=16 << 20, page_layout_bytes=8 << 20, open_inputs=64)
"""Of one reader of one topic, in a process that is somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPiece:
    """Rows of one partition in the order of their offsets, maybe none; all before offset ``end`` are done with it."""

    partition: int
    end: int
    rows: pa.RecordBatch


class StoredColumns:
    """Reads one topic's files. Everything may raise Corrupt and Unavailable. For one thread."""

    def __init__(self) -> None:
        self._index = FileIndex(limits=_LIMITS)
        self._codecs = CodecPool()
        self.records = LogReader(file_index=self._index)
        """Whole records of the same files."""

    @property
    def count(self) -> ReadCount:
        """What was read so far."""
        return self._index.count

    def pieces(self, wanted: TableSelection, partition: int, offsets: OffsetRange) -> Iterator[StreamPiece]:
        """Rows of ``offsets``, which the ledger covers, about a row group at a time; the last piece ends where they
        do."""
        table, end = wanted.table, offsets.start
        for file in self._index.covering(table, partition, offsets):
            inside = file.range.intersection(offsets)
            assert inside is not None, "a file that covers a part of the range shares offsets with it"
            if file.path in wanted.without_rows:
                continue
            found = self._adopted(wanted, file, inside) if file.parts else self._own(wanted, file, inside)
            for piece in found:
                yield piece
                end = piece.end
        if end < offsets.end:
            yield StreamPiece(partition=partition, end=offsets.end, rows=_one_batch(wanted.chosen.empty_table()))

    def close(self) -> None:
        self.records.close()
        self._index.close()

    def _own(self, wanted: TableSelection, file: TableFile, offsets: OffsetRange) -> Iterator[StreamPiece]:
        opened = self._index.open(wanted.table, file)
        source = OwnFile(wanted.table, opened, self._index, self._codecs)
        kept = wanted.row_groups(opened.footer)
        at = offsets.start
        while at < offsets.end:
            window = opened.window_of_offset(at)
            if window == len(opened.windows):
                return
            if kept.isdisjoint(opened.groups_of(window)):
                at = opened.window_range(window).end
                continue
            # As many rows as offsets are enough; where the pages' bounds promised too many, there is another place.
            place = source.place_at(at, offsets.end - at)
            assert place is not None, "the window has a record at or after the offset"
            held = OffsetRange(start=at, end=min(place.offsets.end, offsets.end))
            rows = self._rows(wanted, source, place, kept, held)
            yield StreamPiece(partition=file.partition, end=held.end, rows=wanted.chosen_of(rows))
            at = held.end

    def _rows(
        self,
        wanted: TableSelection,
        source: OwnFile,
        place: BlockPlace,
        kept: frozenset[int],
        offsets: OffsetRange,
    ) -> pa.RecordBatch:
        """The rows of a place that lie in ``offsets``, in the columns that have to be read, without row groups that are
        not ``kept``: a window of a clustered file has several."""
        stored = [source.stored_rows(group, run, wanted.read.names) for group, run in place.runs if group in kept]
        parts = [in_schema(batch, wanted.read) for part in stored for batch in part.combine_chunks().to_batches()]
        offset = np.concatenate([part.column(wanted.table.layout.offset).to_numpy() for part in parts] or [_NO_OFFSETS])
        together = pa.Table.from_batches(parts, schema=wanted.read)
        if len(parts) > 1:
            order = np.argsort(offset, kind="stable")
            together, offset = together.take(pa.array(order)), offset[order]
        if bool((np.diff(offset) <= 0).any()):
            raise Corrupt(
                f"the rows at offsets {place.offsets} are out of order, or an offset is there twice",
                topic=wanted.table.topic,
                offset=place.offsets.start,
                file=place.path,
                next_step="run floeberg fsck on the topic",
            )
        first, end = np.searchsorted(offset, (offsets.start, offsets.end), "left").tolist()
        return _one_batch(together.slice(first, end - first))

    def _adopted(self, wanted: TableSelection, file: TableFile, offsets: OffsetRange) -> Iterator[StreamPiece]:
        """Rows that another program wrote are records first: by them they were proven."""
        for records in self.records.records(wanted.table, file.partition, offsets):
            with self._codecs.taken(wanted.table) as codecs:
                rows = wanted.chosen_of(rows_of(wanted, file.partition, records, codecs).rows)
            yield StreamPiece(partition=file.partition, end=int(records.offset[-1]) + 1, rows=rows)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
