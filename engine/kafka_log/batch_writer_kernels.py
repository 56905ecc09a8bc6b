"""Kernels of batch format v2, writing: where batches begin and how large they are, then their bytes.

The CRC field is left 0: it is taken over the finished, perhaps compressed, batch.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from engine.kernels.types import OutWords, read_only, tuple_of, writable
from engine.records.record_kernels import RECORDS, headers_of
from engine.records.wire_kernels import string_size, varint_size, write_string, write_varint

_HEADER_BYTES = 61
_MAX_DELTA = 2**31 - 1
_NO_BOUNDARY = np.int64(2**63 - 1)


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


class BatchPlan(NamedTuple):
    """Where the batches of n rows lie, int64[n + 1] each: the ``body_bytes`` of each row's record after its length; of
    each batch its ``first_row``, then n, its ``base_offset``, and its ``start`` in the buffer, then the last's end."""

    body_bytes: OutWords
    first_row: OutWords
    base_offset: OutWords
    start: OutWords


_PLAN = tuple_of(BatchPlan)


@njit(types.int64(RECORDS, read_only(types.int64), types.int64, types.int64, _PLAN), nogil=True, cache=True)
def plan_batches(records, grid, target_bytes, cover_from, plan):
    """Cut the rows into batches; returns how many (0 for no rows).

    A batch's base offset is the one after the record before it (``cover_from`` for the first), or its first record's
    where that is further away than an offset delta reaches.
    """
    offset, timestamp_ms, timestamp_type, leader_epoch, key, value, header_first, header_key, header_value = records
    key_length, value_length = key.length, value.length
    header_key_length, header_value_length = header_key.length, header_value.length
    body_bytes, first_row, base_offset, start = plan
    start[0] = 0
    batches = np.int64(0)
    grid_at = np.int64(0)
    base_row = np.int64(0)
    boundary = np.int64(-1)
    total = np.int64(0)
    for row in range(offset.shape[0]):
        first, end = headers_of(header_first, row)
        fixed = 1 + string_size(key_length[row]) + string_size(value_length[row]) + varint_size(end - first)
        for header in range(first, end):
            fixed += string_size(header_key_length[header]) + string_size(header_value_length[header])
        starts = row == 0 or (
            offset[row] >= boundary
            or offset[row] - base_offset[batches - 1] > _MAX_DELTA
            or leader_epoch[row] != leader_epoch[base_row]
            or timestamp_type[row] != timestamp_type[base_row]
            # Under log append time all records of a batch have the batch's one timestamp.
            or (timestamp_type[row] == 1 and timestamp_ms[row] != timestamp_ms[base_row])
        )
        if not starts:
            deltas_bytes = varint_size(timestamp_ms[row] - timestamp_ms[base_row])
            body = fixed + deltas_bytes + varint_size(offset[row] - base_offset[batches - 1])
            size = body + varint_size(body)
            starts = _HEADER_BYTES + total + size > target_bytes
        if starts:
            if row > 0:
                start[batches] = start[batches - 1] + _HEADER_BYTES + total
            while grid_at < grid.shape[0] and grid[grid_at] <= offset[row]:
                grid_at += 1
            boundary = grid[grid_at] if grid_at < grid.shape[0] else _NO_BOUNDARY
            covered = offset[row - 1] + 1 if row > 0 else cover_from
            base_offset[batches] = covered if offset[row] - covered <= _MAX_DELTA else offset[row]
            first_row[batches] = row
            body = fixed + 1 + varint_size(offset[row] - base_offset[batches])
            batches += 1
            base_row = np.int64(row)
            total = np.int64(0)
            size = body + varint_size(body)
        body_bytes[row] = body
        total += size
    if batches > 0:
        start[batches] = start[batches - 1] + _HEADER_BYTES + total
    first_row[batches] = offset.shape[0]
    return batches


@njit(types.void(RECORDS, _PLAN, writable(types.uint8)), nogil=True, cache=True)
def fill_batches(records, plan, out):
    """Write all batches one after the other; batch b lies at ``start[b]`` and ends at ``start[b + 1]``."""
    offset, timestamp_ms, timestamp_type, leader_epoch, key, value, header_first, header_key, header_value = records
    key_data, key_start, key_length = key
    value_data, value_start, value_length = value
    header_key_data, header_key_start, header_key_length = header_key
    header_value_data, header_value_start, header_value_length = header_value
    body_bytes, first_row, base_offset, start = plan
    for batch in range(base_offset.shape[0]):
        base_row = first_row[batch]
        at = start[batch] + _HEADER_BYTES
        max_timestamp = timestamp_ms[base_row]
        for row in range(base_row, first_row[batch + 1]):
            max_timestamp = max(max_timestamp, timestamp_ms[row])
            at = write_varint(out, at, body_bytes[row])
            out[at] = 0
            at = write_varint(out, at + 1, timestamp_ms[row] - timestamp_ms[base_row])
            at = write_varint(out, at, offset[row] - base_offset[batch])
            at = write_string(out, at, key_data, key_start[row], key_length[row])
            at = write_string(out, at, value_data, value_start[row], value_length[row])
            first, end = headers_of(header_first, row)
            at = write_varint(out, at, end - first)
            for header in range(first, end):
                at = write_string(out, at, header_key_data, header_key_start[header], header_key_length[header])
                at = write_string(out, at, header_value_data, header_value_start[header], header_value_length[header])
        at = start[batch]
        _be64(out, at, base_offset[batch])
        _be32(out, at + 8, start[batch + 1] - at - 12)
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
