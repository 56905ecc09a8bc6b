"""Kernels of batch format v2, writing: where batches begin and how large they are, then their bytes.

The CRC field is left 0: it is taken over the finished, perhaps compressed, batch.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernels.byte_copy import copy_bytes
from engine.kernels.types import read_only, strided, writable
from engine.records.record_kernels import RECORDS, headers_of

_HEADER_BYTES = 61
_MAX_DELTA = 2**31 - 1
_NO_BOUNDARY = np.int64(2**63 - 1)


@njit(nogil=True, inline="always")
def _varint_size(number):
    raw = np.uint64((number << 1) ^ (number >> 63))
    size = np.int64(1)
    while raw >= np.uint64(0x80):
        raw >>= np.uint64(7)
        size += 1
    return size


@njit(nogil=True, inline="always")
def _varint(out, at, number):
    raw = np.uint64((number << 1) ^ (number >> 63))
    while raw >= np.uint64(0x80):
        out[at] = np.uint8(raw & np.uint64(0x7F)) | np.uint8(0x80)
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@njit(nogil=True, inline="always")
def _field_size(length):
    return _varint_size(np.int64(length)) + max(np.int64(length), 0)


@njit(nogil=True, inline="always")
def _field(out, at, data, start, length):
    at = _varint(out, at, np.int64(length))
    if length > 0:
        copy_bytes(out, at, data, start, np.int64(length))
        at += length
    return at


@njit(nogil=True, inline="always")
def _be16(out, at, number):
    out[at] = (number >> 8) & 0xFF
    out[at + 1] = number & 0xFF


@njit(nogil=True, inline="always")
def _be32(out, at, number):
    _be16(out, at, number >> 16)
    _be16(out, at + 2, number)


@njit(nogil=True, inline="always")
def _be64(out, at, number):
    _be32(out, at, number >> 32)
    _be32(out, at + 4, number)


_I64, _I32 = strided(types.int64), strided(types.int32)
_PLAN = types.int64(
    *(_I64, _I64, strided(types.int8), _I32, _I32, _I32, _I64, _I32, _I32),
    *(read_only(types.int64), types.int64, types.int64),
    *(writable(types.int64),) * 4,
)


@njit(_PLAN, nogil=True, cache=True)
def plan_batches(
    offset,
    timestamp_ms,
    timestamp_type,
    leader_epoch,
    key_length,
    value_length,
    header_first,
    header_key_length,
    header_value_length,
    grid,
    target_bytes,
    cover_from,
    body_bytes,
    first_row,
    base_offset,
    records_bytes,
):
    """Cut the rows into batches; returns how many (0 for no rows).

    A batch's base offset is the one after the record before it (``cover_from`` for the first), or its first record's
    where that is further away than an offset delta reaches.
    Outputs: ``body_bytes`` int64[rows], a record after its length; ``first_row`` int64[rows + 1] of each batch, then
    the row count; ``base_offset`` and ``records_bytes`` int64[rows] of each batch.
    """
    batches = np.int64(0)
    grid_at = np.int64(0)
    base_row = np.int64(0)
    boundary = np.int64(-1)
    total = np.int64(0)
    for row in range(offset.shape[0]):
        headers_bytes = np.int64(0)
        first, end = headers_of(header_first, row)
        for header in range(first, end):
            headers_bytes += _field_size(header_key_length[header]) + _field_size(header_value_length[header])
        fields_bytes = _field_size(key_length[row]) + _field_size(value_length[row])
        fixed = 1 + fields_bytes + _varint_size(end - first) + headers_bytes
        starts = row == 0 or (
            offset[row] >= boundary
            or offset[row] - base_offset[batches - 1] > _MAX_DELTA
            or leader_epoch[row] != leader_epoch[base_row]
            or timestamp_type[row] != timestamp_type[base_row]
            # Under log append time all records of a batch have the batch's one timestamp.
            or (timestamp_type[row] == 1 and timestamp_ms[row] != timestamp_ms[base_row])
        )
        if not starts:
            deltas_bytes = _varint_size(timestamp_ms[row] - timestamp_ms[base_row])
            body = fixed + deltas_bytes + _varint_size(offset[row] - base_offset[batches - 1])
            size = body + _varint_size(body)
            starts = _HEADER_BYTES + total + size > target_bytes
        if starts:
            if row > 0:
                records_bytes[batches - 1] = total
            while grid_at < grid.shape[0] and grid[grid_at] <= offset[row]:
                grid_at += 1
            boundary = grid[grid_at] if grid_at < grid.shape[0] else _NO_BOUNDARY
            covered = offset[row - 1] + 1 if row > 0 else cover_from
            base_offset[batches] = covered if offset[row] - covered <= _MAX_DELTA else offset[row]
            first_row[batches] = row
            body = fixed + 1 + _varint_size(offset[row] - base_offset[batches])
            batches += 1
            base_row = np.int64(row)
            total = np.int64(0)
            size = body + _varint_size(body)
        body_bytes[row] = body
        total += size
    if batches > 0:
        records_bytes[batches - 1] = total
    first_row[batches] = offset.shape[0]
    return batches


_FILL = types.void(*RECORDS, *(read_only(types.int64),) * 4, writable(types.uint8))


@njit(_FILL, nogil=True, cache=True)
def fill_batches(
    offset,
    timestamp_ms,
    timestamp_type,
    leader_epoch,
    key_data,
    key_start,
    key_length,
    value_data,
    value_start,
    value_length,
    header_first,
    header_key_data,
    header_key_start,
    header_key_length,
    header_value_data,
    header_value_start,
    header_value_length,
    body_bytes,
    first_row,
    batch_start,
    base_offset,
    out,
):
    """Write all batches one after the other; batch b lies at ``batch_start[b]`` and ends at ``batch_start[b + 1]``."""
    for batch in range(base_offset.shape[0]):
        base_row = first_row[batch]
        at = batch_start[batch] + _HEADER_BYTES
        max_timestamp = timestamp_ms[base_row]
        for row in range(base_row, first_row[batch + 1]):
            max_timestamp = max(max_timestamp, timestamp_ms[row])
            at = _varint(out, at, body_bytes[row])
            out[at] = 0
            at = _varint(out, at + 1, timestamp_ms[row] - timestamp_ms[base_row])
            at = _varint(out, at, offset[row] - base_offset[batch])
            at = _field(out, at, key_data, key_start[row], key_length[row])
            at = _field(out, at, value_data, value_start[row], value_length[row])
            first, end = headers_of(header_first, row)
            at = _varint(out, at, end - first)
            for header in range(first, end):
                at = _field(out, at, header_key_data, header_key_start[header], header_key_length[header])
                at = _field(out, at, header_value_data, header_value_start[header], header_value_length[header])
        at = batch_start[batch]
        _be64(out, at, base_offset[batch])
        _be32(out, at + 8, batch_start[batch + 1] - at - 12)
        _be32(out, at + 12, np.int64(leader_epoch[base_row]))
        out[at + 16] = 2
        _be32(out, at + 17, 0)
        _be16(out, at + 21, 8 if timestamp_type[base_row] == 1 else 0)
        _be32(out, at + 23, offset[first_row[batch + 1] - 1] - base_offset[batch])
        _be64(out, at + 27, timestamp_ms[base_row])
        _be64(out, at + 35, max_timestamp)
        # No producer id, epoch, sequence: -1 each.
        for byte in range(at + 43, at + 57):
            out[byte] = 0xFF
        _be32(out, at + 57, first_row[batch + 1] - base_row)
