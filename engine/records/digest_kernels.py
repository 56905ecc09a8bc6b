"""The kernels of digests: write records in their canonical form, and put the digests of runs together."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernels.byte_copy import copy_bytes
from engine.kernels.memory import store_i32, store_i64, store_u8
from engine.kernels.types import read_only, strided, writable

# offset, timestamp, timestamp type, leader epoch, key length, value length, header count
FIXED_RECORD_BYTES = 8 + 8 + 1 + 4 + 4 + 4 + 4
# key length, value length
FIXED_HEADER_BYTES = 4 + 4


@njit(nogil=True, inline="always")
def _size(length):  # type: ignore[no-untyped-def]
    return max(np.int64(length), 0)


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
    base = out.ctypes.data
    at = np.int64(0)
    state[1] = 0
    while row < offset.shape[0]:
        first, end = np.int64(0), np.int64(0)
        if header_first.shape[0] > 0:
            first, end = header_first[row], header_first[row + 1]
        need = FIXED_RECORD_BYTES + _size(key_length[row]) + _size(value_length[row])
        for header in range(first, end):
            need += FIXED_HEADER_BYTES + _size(header_key_length[header]) + _size(header_value_length[header])
        if at + need > out.shape[0]:
            state[1] = need
            break
        # Whole words at addresses: there is room for ``need`` bytes, and a function that is given the arrays would
        # count references to them, which costs more than the copying.
        store_i64(base + at, offset[row])
        store_i64(base + at + 8, timestamp_ms[row])
        store_u8(base + at + 16, np.uint8(timestamp_type[row]))
        store_i32(base + at + 17, leader_epoch[row])
        store_i32(base + at + 21, key_length[row])
        at += 25
        size = _size(key_length[row])
        copy_bytes(out, at, key_data, key_start[row] if size else 0, size)
        at += size
        store_i32(base + at, value_length[row])
        at += 4
        size = _size(value_length[row])
        copy_bytes(out, at, value_data, value_start[row] if size else 0, size)
        at += size
        store_i32(base + at, np.int32(end - first))
        at += 4
        for header in range(first, end):
            store_i32(base + at, header_key_length[header])
            size = _size(header_key_length[header])
            copy_bytes(out, at + 4, header_key_data, header_key_start[header] if size else 0, size)
            at += 4 + size
            store_i32(base + at, header_value_length[header])
            size = _size(header_value_length[header])
            copy_bytes(out, at + 4, header_value_data, header_value_start[header] if size else 0, size)
            at += 4 + size
        row += 1
    state[0] = at
    return row


# CRC-32C's polynomial, bits reversed.
_POLYNOMIAL = np.uint32(0x82F63B78)
_ONE = np.uint32(1)
_TOP = np.uint32(1 << 31)


@njit(nogil=True, inline="always")
def _multiply(left, right):  # type: ignore[no-untyped-def]
    """Product of two polynomials over GF(2) modulo CRC-32C's; bit 31 is the coefficient of x^0."""
    product = np.uint32(0)
    for place in range(32):
        if left & (_TOP >> np.uint32(place)):
            product ^= right
        right = (right >> _ONE) ^ (_POLYNOMIAL * (right & _ONE))
    return product


@njit(types.uint32(read_only(types.uint32), read_only(types.int64)), nogil=True, cache=True)
def combined_crc32c(crc, length_bytes):  # type: ignore[no-untyped-def]
    """CRC-32C of the strings behind each other, from the CRC and the length of each."""
    total = np.uint32(0)
    last_length = np.int64(-1)
    power = _TOP
    for at in range(crc.shape[0]):
        if length_bytes[at] != last_length:
            # x^(8n): what appending n bytes multiplies a CRC by.
            last_length = length_bytes[at]
            power = _TOP
            square = _TOP >> _ONE
            exponent = 8 * last_length
            while exponent > 0:
                if exponent & 1:
                    power = _multiply(square, power)
                square = _multiply(square, square)
                exponent >>= 1
        total = _multiply(power, total) ^ crc[at]
    return total
