"""Batch format v2 in plain Python, straight from docs/batch_format.md: what the kernels are compared with."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import crc32c
import numpy as np
from hypothesis import strategies as st

from engine.records.records import ByteSpans, Headers, Records

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record, as plain values."""

    offset: int
    timestamp_ms: int = 0
    timestamp_type: int = 0
    leader_epoch: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


def records_from(rows: Sequence[Row]) -> Records:
    return Records(
        offset=np.array([row.offset for row in rows], np.int64),
        timestamp_ms=np.array([row.timestamp_ms for row in rows], np.int64),
        timestamp_type=np.array([row.timestamp_type for row in rows], np.int8),
        leader_epoch=np.array([row.leader_epoch for row in rows], np.int32),
        key=ByteSpans.from_list([row.key for row in rows]),
        value=ByteSpans.from_list([row.value for row in rows]),
        headers=Headers.from_lists([row.headers for row in rows]) if any(row.headers for row in rows) else None,
    )


def rows_of(blocks: Iterable[Records]) -> list[Row]:
    return [
        Row(
            offset=int(records.offset[row]),
            timestamp_ms=int(records.timestamp_ms[row]),
            timestamp_type=int(records.timestamp_type[row]),
            leader_epoch=int(records.leader_epoch[row]),
            key=records.key[row],
            value=records.value[row],
            headers=tuple(records.headers.of_record(row)) if records.headers else (),
        )
        for records in blocks
        for row in range(len(records))
    ]


def varint(number: int) -> bytes:
    raw = (number << 1 ^ number >> 63) & 2**64 - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def read_varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    raw, shift = 0, 0
    while shift < (35 if bits == 32 else 70):
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 2**bits - 1
            return raw >> 1 ^ -(raw & 1), at
        shift += 7
    raise ValueError("varint too long")


def field(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record_bytes(row: Row, base_offset: int, base_timestamp_ms: int) -> bytes:
    delta = (row.timestamp_ms - base_timestamp_ms + 2**63) % 2**64 - 2**63
    body = b"\0" + varint(delta) + varint(row.offset - base_offset) + field(row.key) + field(row.value)
    body += varint(len(row.headers)) + b"".join(field(key) + field(value) for key, value in row.headers)
    return varint(len(body)) + body


def batch(
    rows: Sequence[Row],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    body: bytes | None = None,
    record_count: int | None = None,
    compression: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    leader_epoch: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    crc: int | None = None,
    magic: int = 2,
) -> bytes:
    """A whole batch; everything can be told to lie. ``body`` replaces the (compressed) records."""
    base = rows[0].offset if base_offset is None else base_offset
    last = rows[-1].offset if last_offset is None else last_offset
    base_ms = (rows[0].timestamp_ms if rows else -1) if base_timestamp_ms is None else base_timestamp_ms
    max_ms = max([row.timestamp_ms for row in rows], default=-1) if max_timestamp_ms is None else max_timestamp_ms
    if body is None:
        body = b"".join(record_bytes(row, base, base_ms) for row in rows)
    if rows and rows[0].timestamp_type == 1:
        attributes |= 8
    count = len(rows) if record_count is None else record_count
    epoch = (rows[0].leader_epoch if rows else 0) if leader_epoch is None else leader_epoch
    behind_crc = struct.pack(
        ">hiqqqhii", attributes | compression, last - base, base_ms, max_ms, producer_id, -1, -1, count
    )
    behind_crc += body
    sum_ = crc32c.crc32c(behind_crc) if crc is None else crc
    return struct.pack(">qiibI", base, len(behind_crc) + 9, epoch, magic, sum_) + behind_crc


def parse_batch(data: bytes) -> list[Row]:
    """The rows of one uncompressed batch. Errors: ValueError, IndexError or struct.error for anything damaged."""
    base, length, epoch, magic, crc, attributes, last_delta, base_ms, max_ms = struct.unpack_from(">qiibIhiqq", data)
    (count,) = struct.unpack_from(">i", data, 57)
    if magic != 2 or length + 12 != len(data) or crc != crc32c.crc32c(data[21:]) or count < 0:
        raise ValueError("bad header")
    rows, at, previous = [], 61, -1
    for _ in range(count):
        size, at = read_varint(data, at, 32)
        end = at + size
        if size < 6 or end > len(data):
            raise ValueError("bad size")
        inside = data[:end]
        delta_ms, at = read_varint(inside, at + 1, 64)
        delta, at = read_varint(inside, at, 32)
        if not previous < delta <= last_delta:
            raise ValueError("bad offset")
        previous = delta
        key, at = _read_field(inside, at)
        value, at = _read_field(inside, at)
        header_count, at = read_varint(inside, at, 32)
        if header_count < 0 or header_count * 2 > end - at:
            raise ValueError("bad header count")
        headers = []
        for _ in range(header_count):
            header_key, at = _read_field(inside, at)
            header_value, at = _read_field(inside, at)
            if header_key is None:
                raise ValueError("null header key")
            headers.append((header_key, header_value))
        if at != end:
            raise ValueError("bytes left")
        rows.append(
            Row(
                offset=base + delta,
                timestamp_ms=max_ms if attributes & 8 else (base_ms + delta_ms + 2**63) % 2**64 - 2**63,
                timestamp_type=1 if attributes & 8 else 0,
                leader_epoch=epoch,
                key=key,
                value=value,
                headers=tuple(headers),
            )
        )
    if at != len(data):
        raise ValueError("bytes left in batch")
    return rows


def _read_field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at, 32)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("field past end")
    return data[at : at + size], at + size


_BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=300)
_HEADERS = st.lists(
    st.tuples(st.sampled_from([b"", b"a", b"trace", b"\xff"]), st.none() | st.binary(max_size=9)), max_size=3
)
_TIMES = st.integers(-1, 2**41) | st.integers(-(2**63), 2**63 - 1) | st.just(-1)


@st.composite
def rows_strategy(draw: st.DrawFn, *, max_size: int = 30, epochs: bool = True, time_types: bool = True) -> list[Row]:
    """Rows in rising offset order: gaps of any width, epochs that rise, both timestamp types, every null and empty."""
    count = draw(st.integers(1, max_size))
    offset = draw(st.integers(0, 2**40) | st.integers(0, 10))
    epoch = 0
    rows = []
    for _ in range(count):
        offset += draw(st.sampled_from([1, 1, 1, 1, 2, 100, 2**31 - 1, 2**31, 2**33]))
        epoch += draw(st.sampled_from([0, 0, 0, 0, 0, 1, 7])) if epochs else 0
        rows.append(
            Row(
                offset=offset,
                timestamp_ms=draw(_TIMES),
                timestamp_type=draw(st.sampled_from([0, 0, 0, 1])) if time_types else 0,
                leader_epoch=epoch,
                key=draw(_BYTES),
                value=draw(_BYTES),
                headers=tuple(draw(_HEADERS)),
            )
        )
    return rows
