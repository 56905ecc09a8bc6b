"""Records out of adopted ranges: rows that lie anywhere in some files, put in offset order a window at a time.

Slower than reading our own files, where a few pages hold what is wanted: every row group whose bounds touch the window
is looked through. Compaction would write them again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.records.records import NO_RECORDS, Records
from engine.table.adopted_range import ForeignFile
from engine.table.columns import arrow_schema
from engine.table.foreign.rows import open_foreign
from engine.table.manifests import TableFile
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TopicTable

WINDOW_BYTES = 16 << 20
"""Records put in order at once."""

MOST_WINDOW_OFFSETS = 1 << 18

PROVEN_FILES = 100_000
"""Paths that a reader remembers to have compared; an older one is read whole again. About 20 MB."""


class ProvenBytes:
    """The files of others whose bytes one reader has compared with those that were proven. Safe between threads.

    Others' pages may have no checksum, and a range's digest would take reading all of it.
    """

    def __init__(self) -> None:
        self._paths: BoundedCache[str, bool] = BoundedCache(capacity=PROVEN_FILES)

    def check(self, table: TopicTable, part: ForeignFile) -> None:
        """Reads the file whole, once. Raises Corrupt, Unavailable."""
        if part.crc32c is None or self._paths.get(part.path):
            return
        if table.warehouse.crc32c(part.path) != part.crc32c:
            raise Corrupt(
                "a file that another program wrote has other bytes than when its rows were proven",
                topic=table.topic,
                partition=part.partition,
                file=part.path,
                next_step="run floeberg fsck on the topic; restore the file from a copy of the warehouse",
            )
        self._paths.put(part.path, True)


def window_at(file: TableFile, offset: int) -> OffsetRange:
    """The window of an adopted range that holds an offset. The windows of a range are always the same, and none holds
    more records than offsets."""
    record_bytes = max(1, file.size_bytes // max(1, file.record_count))
    size = max(1, min(WINDOW_BYTES // record_bytes, MOST_WINDOW_OFFSETS))
    start = file.range.start + (offset - file.range.start) // size * size
    return OffsetRange(start=start, end=min(start + size, file.range.end))


def adopted_records(table: TopicTable, file: TableFile, wanted: OffsetRange) -> Iterator[Records]:
    """The records of an adopted range that lie in ``wanted``, in offset order, for a caller that compares the digest.

    Memory: one window's. Raises as ``read_window``.
    """
    codecs = RowCodecs.of(table)
    at = max(wanted.start, file.range.start)
    while at < min(wanted.end, file.range.end):
        window = window_at(file, at)
        records = read_window(table, file, window, codecs)
        first, end = np.searchsorted(records.offset, (wanted.start, wanted.end))
        yield records.slice(int(first), int(end))
        at = window.end


def read_window(
    table: TopicTable, file: TableFile, window: OffsetRange, codecs: RowCodecs, proven: ProvenBytes | None = None
) -> Records:
    """The records of an adopted range that lie in ``window``, in offset order. Without ``proven`` the caller compares
    the whole range's digest itself.

    Memory: the window's rows and one batch. Raises Corrupt (a file is missing, damaged, or has an offset twice),
    Unavailable.
    """
    if proven is not None:
        for part in file.parts:
            proven.check(table, part)
    found = [batch for part in file.parts for batch in _rows_of(table, part, window)]
    if not found:
        return NO_RECORDS
    rows = pa.Table.from_batches(_alike(found))
    offset = rows.column(table.layout.offset).to_numpy()
    order = np.argsort(offset, kind="stable")
    if bool((np.diff(offset[order]) <= 0).any()):
        raise Corrupt("an offset is there twice", topic=table.topic, partition=file.partition, offset=window.start)
    return records_from_rows(table.layout, rows.take(pa.array(order)), codecs)


def _rows_of(table: TopicTable, part: ForeignFile, window: OffsetRange) -> Iterator[pa.RecordBatch]:
    with open_foreign(table.warehouse, part, arrow_schema(table.iceberg_schema), table.layout) as opened:
        for group in range(opened.group_count):
            if not opened.group_may_hold(group, window) or not _is_in(opened.offsets(group), window).any():
                continue
            for batch in opened.batches(group):
                wanted = _is_in(batch.column(table.layout.offset).to_numpy(), window)
                if wanted.any():
                    yield batch if wanted.all() else batch.filter(pa.array(wanted))


def _is_in(offset: NDArray[np.int64], window: OffsetRange) -> NDArray[np.bool_]:
    return np.asarray((offset >= window.start) & (offset < window.end))


def _alike(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of files that have different columns, as columns that one of them has; what a file lacks is null."""
    names = list(dict.fromkeys(name for batch in batches for name in batch.schema.names))
    if all(batch.schema.names == names for batch in batches):
        return batches
    types = {field.name: field.type for batch in batches for field in batch.schema}
    return [
        pa.RecordBatch.from_arrays(
            [
                batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, types[name])
                for name in names
            ],
            names=names,
        )
        for batch in batches
    ]
