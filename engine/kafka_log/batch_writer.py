"""Writes ``Records`` as record batches, format v2: what a broker hands to its consumers."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Final

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.kafka_log import batch_writer_kernels as kernels
from engine.kafka_log.compression import Compression, Compressor
from engine.kafka_log.record_batch import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    CRC_POSITION,
    HEADER_SIZE_BYTES,
    LENGTH_PREFIX_BYTES,
    MAX_LAST_OFFSET_DELTA,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP_MS,
    TRANSACTIONAL_FLAG,
)
from engine.offset_range import OffsetRange
from engine.records.record_kernels import RecordArrays
from engine.records.records import ByteSpans, Records

DEFAULT_TARGET_BYTES: Final = 32 << 10
_MAX_BATCH_BYTES: Final = 2**31 - 1
_MOST_COVERED: Final = MAX_LAST_OFFSET_DELTA + 1
_COMMIT_KEY: Final = struct.pack(">hh", 0, 1)
"""Version 0, type 1 (KIP-98)."""
_COMMIT_VALUE: Final = struct.pack(">hi", 0, 0)
"""Version 0, epoch of the transaction coordinator: some clients refuse a marker without it."""
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_LENGTH_POSITION: Final = 8
_ATTRIBUTES_POSITION: Final = CRC_COVERS_FROM


def encode_batches(
    records: Records,
    *,
    grid: Sequence[int] | NDArray[np.int64] | None = None,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    compression: Compression = Compression.NONE,
    cover_from: int | None = None,
) -> list[memoryview]:
    """Record batches of about ``target_bytes`` (uncompressed, header included) that hold ``records`` in order.

    A batch ends with its last record, has one leader epoch and one timestamp type, and never holds a record at or
    after an offset of ``grid`` (ascending) together with one before it. Each begins at the offset after the one
    before, so that it covers the gap before its first record; the first at ``cover_from``, or at its first record
    when that is None. Where a gap is wider than one batch can cover (2^31 offsets), control batches cover it. A
    record larger than ``target_bytes`` is a batch of its own. No records make no batches (``control_batches``).

    Producer ids and sequences are -1. Uncompressed batches are views of one buffer, one after the other.
    Errors: Invalid for a batch over 2 GiB or ``cover_from`` above the first record's offset.
    """
    if len(records) == 0:
        return []
    first_offset = int(records.offset[0])
    if cover_from is None:
        cover_from = first_offset
    if cover_from > first_offset:
        raise Invalid(f"batches can't begin at {cover_from}: the first record is at {first_offset}")
    arrays = records.arrays
    plan = _plan(arrays, np.ascontiguousarray(() if grid is None else grid, np.int64), target_bytes, cover_from)
    written = np.empty(int(plan.start[-1]), np.uint8)
    kernels.fill_batches(arrays, plan, written)
    buffer = written.data
    edges = plan.start.tolist()
    compressor = None if compression is Compression.NONE else Compressor(compression)
    batches = [
        _with_crc(buffer[start:end] if compressor is None else _compressed(buffer[start:end], compression, compressor))
        for start, end in itertools.pairwise(edges)
    ]
    # Where the batch before ended: further back than the base offset can reach, where a gap is too wide.
    covered_to = np.append(cover_from, records.offset[plan.first_row[1:-1] - 1] + 1)
    for batch in reversed(np.flatnonzero(covered_to < plan.base_offset).tolist()):
        gap = OffsetRange(start=int(covered_to[batch]), end=int(plan.base_offset[batch]))
        batches[batch:batch] = control_batches(gap)
    return batches


def control_batches(offsets: OffsetRange) -> list[memoryview]:
    """Batches that cover ``offsets`` and show no record; one, unless it is over 2^31 wide, none for an empty range.

    Each is a commit marker at the last offset that it covers, of no producer. Every client goes on after a control
    record; a batch without records (count 0) stops some for good. A commit changes nothing for a reader of committed
    records, and the timestamp -1 is found by no search. The epoch is unknown: the gap may be of several.
    """
    if offsets.is_empty:
        return []
    last = np.append(np.arange(offsets.start + MAX_LAST_OFFSET_DELTA, offsets.end - 1, _MOST_COVERED), offsets.end - 1)
    markers = Records(
        offset=last,
        timestamp_ms=np.full(len(last), NO_TIMESTAMP_MS, np.int64),
        timestamp_type=np.zeros(len(last), np.int8),
        leader_epoch=np.full(len(last), NO_LEADER_EPOCH, np.int32),
        key=ByteSpans.from_list([_COMMIT_KEY] * len(last)),
        value=ByteSpans.from_list([_COMMIT_VALUE] * len(last)),
        headers=None,
    )
    batches = encode_batches(markers, target_bytes=1, cover_from=offsets.start)
    for batch in batches:
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_POSITION, TRANSACTIONAL_FLAG | CONTROL_FLAG)
        _with_crc(batch)
    return batches


def _plan(arrays: RecordArrays, grid: NDArray[np.int64], target_bytes: int, cover_from: int) -> kernels.BatchPlan:
    rows = len(arrays.offset)
    plan = kernels.BatchPlan(*(np.empty(rows + 1, np.int64) for _ in range(4)))
    count = kernels.plan_batches(arrays, grid, target_bytes, cover_from, plan)
    plan = kernels.BatchPlan(
        body_bytes=plan.body_bytes,
        first_row=plan.first_row[: count + 1],
        base_offset=plan.base_offset[:count],
        start=plan.start[: count + 1],
    )
    size_bytes = np.diff(plan.start)
    if int(size_bytes.max()) > _MAX_BATCH_BYTES:
        offset = int(arrays.offset[plan.first_row[int(size_bytes.argmax())]])
        raise Invalid(f"a record of {size_bytes.max()} bytes is larger than a batch can be", offset=offset)
    return plan


def _compressed(batch: memoryview, compression: Compression, compressor: Compressor) -> memoryview:
    header, body = bytearray(batch[:HEADER_SIZE_BYTES]), compressor.compress(batch[HEADER_SIZE_BYTES:])
    (attributes,) = _ATTRIBUTES.unpack_from(header, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(header, _ATTRIBUTES_POSITION, attributes | compression)
    _LENGTH.pack_into(header, _LENGTH_POSITION, HEADER_SIZE_BYTES - LENGTH_PREFIX_BYTES + len(body))
    return memoryview(header + body)


def _with_crc(batch: memoryview) -> memoryview:
    _CRC.pack_into(batch, CRC_POSITION, crc32c.crc32c(batch[CRC_COVERS_FROM:]))
    return batch
