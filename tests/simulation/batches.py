"""What a simulated broker's log is made of: batches with the records they were written with."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tests.engine.kafka_log.batch_twin import Row, record_bytes
from tests.engine.kafka_log.batch_twin import batch as batch_bytes

NO_PRODUCER = -1
_TRANSACTIONAL, _CONTROL, _LOG_APPEND, _GZIP = 16, 32, 8, 1


class Kind(Enum):
    DATA = "data"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One batch as a leader appended it. Two batches are the same only if they are the same object: replicas share.

    ``last_offset`` may lie behind the last row's where the cleaner took rows away. ``transactional`` data belongs to
    the transaction that its producer ends with the next marker.
    """

    base_offset: int
    last_offset: int
    rows: tuple[Row, ...]
    kind: Kind = Kind.DATA
    producer_id: int = NO_PRODUCER
    transactional: bool = False
    epoch: int
    compressed: bool = False
    encoded: bytes = b""

    @property
    def end(self) -> int:
        return self.last_offset + 1

    def without(self, offsets: set[int]) -> Batch:
        """What the cleaner leaves of it: offsets and times of the batch stay, the records go."""
        kept = replace(self, rows=tuple(row for row in self.rows if row.offset not in offsets), encoded=b"")
        return encode(kept)


def encode(batch: Batch) -> Batch:
    """The batch with its bytes."""
    attributes = _TRANSACTIONAL if batch.transactional else 0
    rows: Sequence[Row] = batch.rows
    if batch.kind is not Kind.DATA:
        attributes |= _TRANSACTIONAL | _CONTROL
        # Version 0, type 0 abort or 1 commit; the value is the coordinator's epoch (KIP-98).
        key = struct.pack(">hh", 0, int(batch.kind is Kind.COMMIT))
        rows = [Row(offset=batch.base_offset, leader_epoch=batch.epoch, key=key, value=struct.pack(">hi", 0, 0))]
    body, compression = None, 0
    if batch.compressed and rows:
        body = gzip.compress(
            b"".join(record_bytes(row, batch.base_offset, rows[0].timestamp_ms) for row in rows), mtime=0
        )
        compression = _GZIP
    encoded = batch_bytes(
        rows,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        attributes=attributes,
        producer_id=batch.producer_id,
        leader_epoch=batch.epoch,
        body=body,
        compression=compression,
    )
    return replace(batch, encoded=encoded)
