"""A block: the record bytes of consecutive batches, and the ``Records`` found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.kafka_log import batch_reader_kernels as kernels
from engine.kafka_log.compression import Compression, DecompressError, Decompressor, TargetFull
from engine.kafka_log.record_batch import HEADER_SIZE_BYTES
from engine.offset_range import OffsetRange
from engine.records.record_kernels import SpanPlaces
from engine.records.records import ByteSpans, Headers, Records

# Kafka counts the bytes of a record and of a batch with a Java int: nothing a client could read back is larger.
MAX_BATCH_BYTES: Final = 2**31 - 1

_PROBLEMS: Final = {
    kernels.RECORDS_MISSING: "the batch holds fewer records than it claims",
    kernels.RECORD_PAST_END: "a record's length goes past the end of its batch",
    kernels.BAD_VARINT: "a variable-length number does not end where it must",
    kernels.BAD_OFFSET: "a record's offset is outside its batch or not above the one before it",
    kernels.FIELD_PAST_END: "a key or value goes past the end of its record",
    kernels.BAD_HEADERS: "a record claims more headers than it has bytes for",
    kernels.BYTES_LEFT: "bytes are left behind the last record or header",
}


@dataclass(slots=True, kw_only=True, eq=False)
class RecordBlock:
    """Collects batches until ``target_bytes`` of records are there; ``records()`` then finds the records in them.

    Each block owns its memory, so ``Records`` made from it stay valid for as long as anything refers to them. Reusing
    the memory would save 0.2 CPU-seconds a GiB, a hundredth of what tiering takes, and hand out bytes that change.
    """

    target_bytes: int
    data: NDArray[np.uint8] = field(init=False)
    size_bytes: int = 0
    batch_bytes: int = 0
    _batches: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Twice the target, so that the batch that crosses the target nearly always fits and isn't decompressed twice.
        # Memory that is never written costs nothing.
        self.data = np.empty(2 * self.target_bytes, np.uint8)

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self.target_bytes

    def __len__(self) -> int:
        """How many batches are in the block."""
        return len(self._batches)

    def append(self, decompressor: Decompressor, body: memoryview, batch: tuple[int, ...]) -> bool:
        """Take in a batch (a row of a batch table) whose bytes after the header are ``body``.

        False when the block has no room for it and another batch is in it already; a block of one batch grows.
        Errors: Corrupt (without coordinates of the partition) for bytes that do not decompress or can't be true.
        """
        compression = self._compression(batch)
        while True:
            try:
                size = decompressor.decompress_into(compression, body, self.data[self.size_bytes :])
                break
            except TargetFull:
                if self._batches:
                    return False
                self._grow(batch)
            except DecompressError as error:
                raise Corrupt(f"A batch does not decompress: {error}", offset=batch[kernels.BASE_OFFSET]) from error
        count = batch[kernels.RECORD_COUNT]
        if count * kernels.LEAST_RECORD_BYTES > size:
            problem = f"A batch of {size} bytes claims {count} records"
            raise Corrupt(problem, offset=batch[kernels.BASE_OFFSET])
        self._batches.append((self.size_bytes, self.size_bytes + size, *batch[2:]))
        self.size_bytes += size
        self.batch_bytes += HEADER_SIZE_BYTES + len(body)
        return True

    def records(self, offsets: OffsetRange) -> Records:
        """The records in ``offsets``, in offset order. Errors: Corrupt (offset of the batch) for a bad record."""
        batches = np.array(self._batches, np.int64).reshape(-1, kernels.BATCH_COLUMNS)
        room = int(batches[:, kernels.RECORD_COUNT].sum())
        found = kernels.FoundRecords(
            offset=np.empty(room, np.int64),
            timestamp_ms=np.empty(room, np.int64),
            timestamp_type=np.empty(room, np.int8),
            leader_epoch=np.empty(room, np.int32),
            key=SpanPlaces.room_for(room),
            value=SpanPlaces.room_for(room),
            header_first=np.empty(room + 1, np.int64),
            header_at=np.empty(room, np.int64),
            end=np.empty(room, np.int64),
        )
        state = np.zeros(3, np.int64)
        kernels.scan_records(self.data, batches, offsets.start, offsets.end, found, state)
        rows, problem, batch = (int(number) for number in state)
        if problem != kernels.GOOD:
            raise Corrupt(f"A batch is damaged: {_PROBLEMS[problem]}", offset=int(batches[batch, kernels.BASE_OFFSET]))
        return Records(
            offset=found.offset[:rows],
            timestamp_ms=found.timestamp_ms[:rows],
            timestamp_type=found.timestamp_type[:rows],
            leader_epoch=found.leader_epoch[:rows],
            key=ByteSpans(data=self.data, start=found.key.start[:rows], length=found.key.length[:rows]),
            value=ByteSpans(data=self.data, start=found.value.start[:rows], length=found.value.length[:rows]),
            headers=self._headers(found, rows),
            batch_bytes=self.batch_bytes,
        )

    def _headers(self, records: kernels.FoundRecords, rows: int) -> Headers | None:
        count = int(records.header_first[rows])
        if count == 0:
            return None
        key, value = SpanPlaces.room_for(count), SpanPlaces.room_for(count)
        bad_row = kernels.scan_record_headers(self.data, records, rows, key, value)
        if bad_row >= 0:
            bases = np.array([batch[kernels.BASE_OFFSET] for batch in self._batches], np.int64)
            base_offset = bases[np.searchsorted(bases, records.offset[bad_row], "right") - 1]
            raise Corrupt("A batch is damaged: a record's headers do not end where it does", offset=int(base_offset))
        return Headers(
            first=records.header_first[: rows + 1],
            key=ByteSpans(data=self.data, start=key.start, length=key.length),
            value=ByteSpans(data=self.data, start=value.start, length=value.length),
        )

    def _compression(self, batch: tuple[int, ...]) -> Compression:
        number = batch[kernels.ATTRIBUTES] & 0x07
        try:
            return Compression(number)
        except ValueError:
            problem = f"A batch is compressed with codec {number}, which Kafka has not defined"
            raise Corrupt(problem, offset=batch[kernels.BASE_OFFSET]) from None

    def _grow(self, batch: tuple[int, ...]) -> None:
        if len(self.data) > MAX_BATCH_BYTES:
            problem = f"A batch is larger than {MAX_BATCH_BYTES} bytes when decompressed, more than Kafka can count"
            raise Corrupt(problem, offset=batch[kernels.BASE_OFFSET])
        self.data = np.empty(min(4 * len(self.data), MAX_BATCH_BYTES + 1), np.uint8)
