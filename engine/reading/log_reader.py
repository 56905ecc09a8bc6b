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
from engine.reading.block_source import AdoptedFile, BlockSource, OwnFile, inside
from engine.reading.file_index import FileIndex
from engine.reading.open_files import OpenFiles
from engine.reading.read_ahead import FIRST_READ_BYTES, ReadAhead, ReadAheadLimits
from engine.reading.time_index import entries
from engine.records.records import Records
from engine.table.foreign.adopted_rows import ProvenBytes
from engine.table.manifests import TableFile
from engine.table.rows.rows import CodecPool
from engine.table.topic_table import TopicTable

ENCODE_BYTES = 512 << 10
"""Batches made at once: what is made after the point where a broker hangs up is lost."""

LARGEST_BATCH_BYTES = 64 << 10
"""Where records between two grid entries pass this, the batch is cut off the grid."""

_ALL_ROWS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReaderLimits:
    """Bounds of one reader; those of the index are the index's own."""

    read_ahead: ReadAheadLimits = field(default_factory=ReadAheadLimits)


class LogReader:
    """Reads partitions of any table by offset. One per process; safe to use from several threads."""

    def __init__(self, *, file_index: FileIndex, limits: LogReaderLimits | None = None) -> None:
        self._index = file_index
        self._codecs = CodecPool()
        self._proven = ProvenBytes()
        self._open = OpenFiles()
        self._ahead = ReadAhead((limits or LogReaderLimits()).read_ahead)

    def read(
        self,
        table: TopicTable,
        partition: int,
        *,
        offsets: OffsetRange,
        start: int,
        max_bytes: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> Iterator[memoryview]:
        """Record batches v2 of ``offsets`` (a segment's) from offset ``start`` on, produced as they are asked for.

        Every batch has a valid CRC and carries its leader epoch. The first begins at ``start``, each other one at the
        offset after the one before: so they cover the gap before their first record, as batches do that Kafka's own
        cleaner leaves, and a batch that got lost shows. A gap that no record of the range comes after is covered by a
        control batch. Ends with the batch that reaches ``max_bytes``, or at the range's end; there is at least one.

        Raises Invalid (``start`` outside ``offsets``), Unavailable (the range isn't in the table yet, the warehouse is
        away), Corrupt (a file's bytes are not what they claim to be); that the range is there is checked at once.
        """
        if start not in offsets:
            raise Invalid(
                f"a read begins inside its range {offsets}", topic=table.topic, partition=partition, offset=start
            )
        wanted = OffsetRange(start=start, end=offsets.end)
        files = [file for file in self._index.covering(table, partition, offsets) if file.range.overlaps(wanted)]
        batches = self._batches(table, partition, files, wanted, max_bytes, compression)
        return self._open.while_read(files, batches)

    def offset_grid(self, table: TopicTable, partition: int, offsets: OffsetRange) -> NDArray[np.int64]:
        """Rising relative offsets (int64, each > 0, none >= the range's length) for the segment's offset index.

        Entry ``r`` means: position ``r`` holds relative offset ``r``. No batch of ``read`` holds records of both sides
        of one.
        Raises as ``read``.
        """
        files = self._index.covering(table, partition, offsets)
        parts = [self._source(table, file).grid(offsets) for file in files]
        relative = np.concatenate([np.empty(0, np.int64), *parts]) - offsets.start
        return relative[relative > 0]

    def time_index(
        self, table: TopicTable, partition: int, offsets: OffsetRange
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs for the segment's time index: (timestamp_ms int64[n], relative offset int64[n]), both rising.

        A lookup of the last pair whose timestamp is <= t gives an offset with no record of a timestamp >= t before it.
        Raises as ``read``.
        """
        files = self._index.covering(table, partition, offsets)
        pages = [self._source(table, file).latest_by_offset(offsets) for file in files]
        if not pages:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first_offset, latest_ms = (np.concatenate(part) for part in zip(*pages, strict=True))
        return entries(first_offset, latest_ms, offsets)

    def records(self, table: TopicTable, partition: int, offsets: OffsetRange) -> Iterator[Records]:
        """All records of ``offsets`` in rising order, in blocks (about a row group each). Raises as ``read``.

        Reads past the caches: a pass over a whole table must not push out what consumers are reading.
        """
        for file in self._index.covering(table, partition, offsets):
            source = self._source(table, file)
            place = source.place_at(offsets.start, _ALL_ROWS)
            while place is not None and place.offsets.start < offsets.end:
                for piece in source.read(place, is_sequential=True).pieces:
                    found = inside(piece, offsets.start, offsets.end)
                    if len(found):
                        yield found
                place = source.place_at(place.offsets.end, _ALL_ROWS)

    def open_files(self) -> frozenset[str]:
        """The paths of the files out of which answers are being made now. For any thread."""
        return self._open.paths()

    def forget(self, path: str) -> None:
        """Drop what is kept of a file that turned out damaged: it may have been put back as it was."""
        self._index.forget(path)

    def memory_use(self) -> dict[str, tuple[int, int]]:
        """Bytes in each cache, and its bound: decoded blocks and what the index keeps."""
        return {"decoded_block_bytes": self._ahead.memory_use, **self._index.memory_use()}

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
        covered, produced = wanted.start, 0
        for source, block in self._ahead.blocks(
            files,
            partial(self._source, table),
            wanted,
            partition=(table.location, partition),
            first_bytes=FIRST_READ_BYTES if max_bytes is None else max_bytes,
        ):
            # The grid of the block's offsets, which may all lie before those that are wanted.
            held = block.place.offsets
            block_end = min(held.end, wanted.end)
            grid = source.grid(OffsetRange(start=min(held.start, block_end), end=block_end))
            for piece in block.pieces:
                # A block that was decoded for another reader may begin before the end of this one's last.
                records = inside(piece, covered, wanted.end)
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

    def _source(self, table: TopicTable, file: TableFile) -> BlockSource:
        if file.parts:
            return AdoptedFile(table, file, self._proven, self._codecs)
        return OwnFile(table, self._index.open(table, file), self._index, self._codecs)


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
