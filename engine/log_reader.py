"""Offset ranges of the table as record batches: what a broker hands to its consumers in place of its own segment.

Positions are relative offsets (KIP-405 leaves "position" to the plugin): position ``r`` of the segment ``[start, end)``
is offset ``start + r``. What is read back holds every record of the range once, in order, each with its offset,
timestamp, epoch, key, value and headers; batch boundaries and compression are the reader's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.kafka_log.compression import Compression
from engine.offset_range import OffsetRange
from engine.records import Records
from engine.table.file_index import FileIndex
from engine.table.topic_table import TopicTable
from engine.table.warehouse import Warehouse


class LogReader:
    """Reads partitions of any table by offset. One per process; safe to use from several threads."""

    def __init__(self, *, warehouse: Warehouse, file_index: FileIndex) -> None:
        raise NotImplementedError

    def read(
        self,
        table: TopicTable,
        partition: int,
        *,
        range: OffsetRange,  # noqa: A002  # the field's own word
        start: int,
        max_bytes: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> Iterator[memoryview]:
        """Record batches v2 of ``range`` (a segment's) from offset ``start`` on, produced as they are asked for.

        The first batch begins at ``start``'s first record or the next one; every batch has a valid CRC and carries its
        leader epoch. Batches extend over the gaps behind them, so that every offset from ``start`` to ``range.end``
        is covered by one batch or lies before the first; a rest without records is covered by one empty batch.
        Ends after ``max_bytes`` (but never inside a batch, and never before the first), or at the range's end.

        Raises Invalid (``start`` outside ``range``), Unavailable (the range isn't in the table yet, the warehouse is
        away), Corrupt (a file's bytes are not what they claim to be). The range is checked before the first batch.
        """
        raise NotImplementedError

    def offset_grid(self, table: TopicTable, partition: int, range: OffsetRange) -> NDArray[np.int64]:  # noqa: A002
        """Rising relative offsets (int64, each > 0, none >= the range's length) for the segment's offset index.

        Entry ``r`` means: position ``r`` holds relative offset ``r``. Batches of ``read`` begin and end on them.
        Raises as ``read``.
        """
        raise NotImplementedError

    def time_index(
        self,
        table: TopicTable,
        partition: int,
        range: OffsetRange,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs for the segment's time index: (timestamp_ms int64[n], relative offset int64[n]), both rising.

        A lookup of the last pair whose timestamp is <= t gives an offset with no record of a timestamp >= t before it.
        Raises as ``read``.
        """
        raise NotImplementedError

    def records(self, table: TopicTable, partition: int, range: OffsetRange) -> Iterator[Records]:  # noqa: A002
        """All records of ``range`` in rising offset order, in blocks (about a row group each). Raises as ``read``."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop prefetching and let go of the caches."""
        raise NotImplementedError
