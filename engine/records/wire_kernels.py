"""What Kafka's records are made of, inside kernels: varints, and strings after their length.

Source: Kafka's ``ByteUtils``, docs/batch_format.md. A varint has seven bits of a number a byte, the lowest first, and
the eighth is set where another byte follows. Numbers are zigzag first: shifted by one to make room for the sign in the
lowest bit, all others inverted where it is set, so that small negative numbers are short too.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.byte_copy import copy_bytes

# What the bytes of the longest int and of the longest long hold: 5 and 10 times seven bits.
INT_BITS, LONG_BITS = 35, 70


@njit(nogil=True, inline="always")
def read_varint(data, at, end, most_bits):
    """(the number's bits, uint64; position after it, -1 where ``end`` or ``most_bits`` come before its last byte)."""
    bits = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(most_bits):
        byte = np.uint64(data[at])
        at += 1
        bits |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return bits, at
        shift += np.uint64(7)
    return np.uint64(0), np.int64(-1)


@njit(nogil=True, inline="always")
def unzigzag(bits):
    return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))


@njit(nogil=True, inline="always")
def zigzag(number):
    # Shifted by 63, a number is its sign in all bits.
    return np.uint64((number << 1) ^ (number >> 63))


@njit(nogil=True, inline="always")
def varint_size(number):
    bits = zigzag(number)
    size = np.int64(1)
    while bits >= np.uint64(0x80):
        bits >>= np.uint64(7)
        size += 1
    return size


@njit(nogil=True, inline="always")
def write_varint(out, at, number):
    bits = zigzag(number)
    while bits >= np.uint64(0x80):
        out[at] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


@njit(nogil=True, inline="always")
def string_size(length):
    return varint_size(np.int64(length)) + max(np.int64(length), 0)


@njit(nogil=True, inline="always")
def write_string(out, at, data, start, length):
    at = write_varint(out, at, np.int64(length))
    if length > 0:
        copy_bytes(out, at, data, start, np.int64(length))
        at += length
    return at
