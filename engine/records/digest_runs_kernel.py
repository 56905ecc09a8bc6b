"""The kernel that puts the digests of runs of records together (engine/records/digest_runs.py)."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernels.types import read_only

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
