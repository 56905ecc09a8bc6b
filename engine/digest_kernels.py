"""The kernel that writes records in their canonical form, of which the digest is taken (engine/digest.py)."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.byte_copy import copy_bytes
from engine.kernel_types import read_only, strided, writable

# offset, timestamp, timestamp type, leader epoch, key length, value length, header count
FIXED_RECORD_BYTES = 8 + 8 + 1 + 4 + 4 + 4 + 4
# key length, value length
FIXED_HEADER_BYTES = 4 + 4


@njit(nogil=True, inline="always")
def _little32(out, at, number):  # type: ignore[no-untyped-def]
    out[at] = number & 0xFF
    out[at + 1] = (number >> 8) & 0xFF
    out[at + 2] = (number >> 16) & 0xFF
    out[at + 3] = (number >> 24) & 0xFF
    return at + 4


@njit(nogil=True, inline="always")
def _little64(out, at, number):  # type: ignore[no-untyped-def]
    return _little32(out, _little32(out, at, number), number >> 32)


@njit(nogil=True, inline="always")
def _size(length):  # type: ignore[no-untyped-def]
    return max(np.int64(length), 0)


@njit(nogil=True, inline="always")
def _span(out, at, data, start, length):  # type: ignore[no-untyped-def]
    at = _little32(out, at, np.int64(length))
    if length > 0:
        copy_bytes(out, at, data, start, np.int64(length))
        at += length
    return at


_CANONICAL = types.int64(
    types.int64,
    strided(types.int64),
    strided(types.int64),
    strided(types.int8),
    strided(types.int32),
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    strided(types.int64),
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    writable(types.uint8),
    writable(types.int64),
)


@njit(_CANONICAL, nogil=True, cache=True)
def write_canonical(  # type: ignore[no-untyped-def]
    row,
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
    out,
    state,
):
    """Write whole records from ``row`` on until ``out`` is full; returns the row to go on with.

    ``header_first`` is empty when no record has headers. ``state`` out: bytes written; bytes that the record at the
    returned row needs (0 when all are written).
    """
    at = np.int64(0)
    state[1] = 0
    while row < offset.shape[0]:
        first = np.int64(0)
        end = np.int64(0)
        if header_first.shape[0] > 0:
            first = header_first[row]
            end = header_first[row + 1]
        need = FIXED_RECORD_BYTES + _size(key_length[row]) + _size(value_length[row])
        for header in range(first, end):
            need += FIXED_HEADER_BYTES + _size(header_key_length[header]) + _size(header_value_length[header])
        if at + need > out.shape[0]:
            state[1] = need
            break
        at = _little64(out, at, offset[row])
        at = _little64(out, at, timestamp_ms[row])
        out[at] = np.int64(timestamp_type[row]) & 0xFF
        at = _little32(out, at + 1, np.int64(leader_epoch[row]))
        at = _span(out, at, key_data, key_start[row], key_length[row])
        at = _span(out, at, value_data, value_start[row], value_length[row])
        at = _little32(out, at, end - first)
        for header in range(first, end):
            at = _span(out, at, header_key_data, header_key_start[header], header_key_length[header])
            at = _span(out, at, header_value_data, header_value_start[header], header_value_length[header])
        row += 1
    state[0] = at
    return row
