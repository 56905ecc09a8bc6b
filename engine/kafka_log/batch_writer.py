"""Writes ``Records`` as record batches, format v2: what a broker hands to its consumers."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.kafka_log import batch_writer_kernels as kernels
from engine.kafka_log.compression import Compression, Compressor
from engine.kafka_log.record_batch import (
    CRC_COVERS_FROM,
    CRC_POSITION,
    HEADER_SIZE_BYTES,
    LENGTH_PREFIX_BYTES,
    MAX_LAST_OFFSET_DELTA,
    NO_TIMESTAMP_MS,
    BatchHeader,
    format_header,
)
from engine.offset_range import OffsetRange
from engine.records import ByteSpans, Headers, Records

DEFAULT_TARGET_BYTES: Final = 32 << 10
_MAX_BATCH_BYTES: Final = 2**31 - 1
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_LENGTH_POSITION: Final = 8
_ATTRIBUTES_POSITION: Final = CRC_COVERS_FROM
_NO_HEADERS: Final = Headers(first=np.empty(0, np.int64), key=ByteSpans.nulls(0), value=ByteSpans.nulls(0))


def encode_batches(
    records: Records,
    *,
    grid: Sequence[int] | NDArray[np.int64] | None = None,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    compression: Compression = Compression.NONE,
    cover_to: int | None = None,
) -> list[memoryview]:
    """Record batches of about ``target_bytes`` (uncompressed, header included) that hold ``records`` in order.

    A batch begins at its first record's offset, has one leader epoch and one timestamp type, and never holds a
    record at or behind an offset of ``grid`` (ascending) together with one before it. Each batch but the last covers
    the offsets up to the next record; the last one up to ``cover_to`` - 1, or it ends with its last record when that
    is None.
    Where a gap is wider than one batch can cover (2^31 offsets), empty batches follow. A record larger than
    ``target_bytes`` is a batch of its own. No records make no batches, whatever ``cover_to`` says (``empty_batch``).

    Producer ids and sequences are -1. Uncompressed batches are views of one buffer, one behind the other.
    Errors: Invalid for a batch over 2 GiB or ``cover_to`` at or below the last record's offset.
    """
    if len(records) == 0:
        return []
    if cover_to is not None and cover_to <= records.offset[-1]:
        raise Invalid(f"batches can't end before {cover_to}: the last record is at {records.offset[-1]}")
    plan = _plan(records, grid, target_bytes, cover_to)
    buffer = _fill(records, plan).data
    edges = plan.start.tolist()
    compressor = None if compression is Compression.NONE else Compressor(compression)
    batches = [
        _with_crc(buffer[start:end] if compressor is None else _compressed(buffer[start:end], compression, compressor))
        for start, end in itertools.pairwise(edges)
    ]
    return batches if plan.too_wide is None else _with_empty_batches(batches, plan, records)


def empty_batch(
    range: OffsetRange,  # noqa: A002 - the field's word for it
    *,
    leader_epoch: int,
    timestamp_ms: int = NO_TIMESTAMP_MS,
) -> bytes:
    """Batches without records that cover ``range``, as the log cleaner leaves them; one, unless it is over 2^31 wide.

    ``timestamp_ms`` is their maximum timestamp, -1 for none. An empty range needs no bytes.
    """
    parts = []
    start = range.start
    while start < range.end:
        delta = min(range.end - 1 - start, MAX_LAST_OFFSET_DELTA)
        header = BatchHeader(
            base_offset=start,
            length_bytes=HEADER_SIZE_BYTES - LENGTH_PREFIX_BYTES,
            leader_epoch=leader_epoch,
            last_offset_delta=delta,
            base_timestamp_ms=NO_TIMESTAMP_MS,
            max_timestamp_ms=timestamp_ms,
            record_count=0,
        )
        crc = crc32c.crc32c(format_header(header)[CRC_COVERS_FROM:])
        parts.append(format_header(replace(header, crc32c=crc)))
        start += delta + 1
    return b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """Where each of n batches lies. ``first_row`` and ``start`` (bytes in the buffer) int64[n + 1], ``last_offset``
    int64[n]; ``body_bytes`` int64[rows]; ``covered_to`` int64[n], the last offset wanted, beyond what a batch can
    reach in the batches ``too_wide`` (None: none)."""

    first_row: NDArray[np.int64]
    start: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    covered_to: NDArray[np.int64]
    body_bytes: NDArray[np.int64]
    too_wide: NDArray[np.intp] | None


def _plan(
    records: Records, grid: Sequence[int] | NDArray[np.int64] | None, target_bytes: int, cover_to: int | None
) -> _Plan:
    headers = records.headers or _NO_HEADERS
    rows = len(records)
    body_bytes, first_row = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    records_bytes = np.empty(rows, np.int64)
    count = kernels.plan_batches(
        records.offset,
        records.timestamp_ms,
        records.timestamp_type,
        records.leader_epoch,
        records.key.length,
        records.value.length,
        headers.first,
        headers.key.length,
        headers.value.length,
        np.ascontiguousarray(() if grid is None else grid, np.int64),
        target_bytes,
        body_bytes,
        first_row,
        records_bytes,
    )
    size_bytes = records_bytes[:count] + HEADER_SIZE_BYTES
    if int(size_bytes.max()) > _MAX_BATCH_BYTES:
        offset = int(records.offset[first_row[int(size_bytes.argmax())]])
        raise Invalid(f"a record of {size_bytes.max()} bytes is larger than a batch can be", offset=offset)
    start = np.zeros(count + 1, np.int64)
    np.cumsum(size_bytes, out=start[1:])
    base_offset = records.offset[first_row[:count]]
    covered_to = np.empty(count, np.int64)
    covered_to[:-1] = base_offset[1:] - 1
    covered_to[-1] = records.offset[-1] if cover_to is None else cover_to - 1
    last_offset = np.minimum(covered_to, base_offset + MAX_LAST_OFFSET_DELTA)
    too_wide = np.flatnonzero(last_offset < covered_to)
    return _Plan(
        first_row=first_row[: count + 1],
        start=start,
        last_offset=last_offset,
        covered_to=covered_to,
        body_bytes=body_bytes,
        too_wide=too_wide if len(too_wide) else None,
    )


def _fill(records: Records, plan: _Plan) -> NDArray[np.uint8]:
    headers = records.headers or _NO_HEADERS
    key, value = records.key, records.value
    buffer = np.empty(int(plan.start[-1]), np.uint8)
    kernels.fill_batches(
        records.offset,
        records.timestamp_ms,
        records.timestamp_type,
        records.leader_epoch,
        key.data,
        key.start,
        key.length,
        value.data,
        value.start,
        value.length,
        headers.first,
        headers.key.data,
        headers.key.start,
        headers.key.length,
        headers.value.data,
        headers.value.start,
        headers.value.length,
        plan.body_bytes,
        plan.first_row,
        plan.start,
        plan.last_offset,
        buffer,
    )
    return buffer


def _compressed(batch: memoryview, compression: Compression, compressor: Compressor) -> memoryview:
    header, body = bytearray(batch[:HEADER_SIZE_BYTES]), compressor.compress(batch[HEADER_SIZE_BYTES:])
    (attributes,) = _ATTRIBUTES.unpack_from(header, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(header, _ATTRIBUTES_POSITION, attributes | compression)
    _LENGTH.pack_into(header, _LENGTH_POSITION, HEADER_SIZE_BYTES - LENGTH_PREFIX_BYTES + len(body))
    return memoryview(header + body)


def _with_crc(batch: memoryview) -> memoryview:
    _CRC.pack_into(batch, CRC_POSITION, crc32c.crc32c(batch[CRC_COVERS_FROM:]))
    return batch


def _with_empty_batches(batches: list[memoryview], plan: _Plan, records: Records) -> list[memoryview]:
    """Fill what the batches in ``plan.too_wide`` could not cover."""
    assert plan.too_wide is not None, "called only where a batch can't cover its gap"
    for batch in reversed(plan.too_wide.tolist()):
        row = int(plan.first_row[batch])
        beyond = OffsetRange(start=int(plan.last_offset[batch]) + 1, end=int(plan.covered_to[batch]) + 1)
        empty = empty_batch(
            beyond, leader_epoch=int(records.leader_epoch[row]), timestamp_ms=int(records.timestamp_ms[row])
        )
        batches[batch + 1 : batch + 1] = [
            memoryview(empty)[at : at + HEADER_SIZE_BYTES] for at in range(0, len(empty), HEADER_SIZE_BYTES)
        ]
    return batches
