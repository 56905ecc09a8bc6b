"""The kernels over records and their strings: gather, check, write in canonical form, put CRCs of parts together."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.kernels.byte_copy import copy_bytes
from engine.kernels.memory import store_i32, store_i64, store_u8
from engine.kernels.types import Bytes, Ints, OutInts, OutWords, Words, read_only, tuple_of, writable
from engine.kernels.utf8 import is_utf8


class SpanArrays(NamedTuple):
    """``ByteSpans`` as kernels take them."""

    data: Bytes
    start: Words
    length: Ints


class SpanPlaces(NamedTuple):
    """Where a kernel that finds strings says that they are: ``ByteSpans`` without their bytes."""

    start: OutWords
    length: OutInts

    @classmethod
    def room_for(cls, count: int) -> Self:
        return cls(np.empty(count, np.int64), np.empty(count, np.int32))


SPANS, SPAN_PLACES = tuple_of(SpanArrays), tuple_of(SpanPlaces)


class RecordArrays(NamedTuple):
    """``Records`` as kernels take them; without headers, their arrays are empty."""

    offset: Words
    timestamp_ms: Words
    timestamp_type: Annotated[NDArray[np.int8], read_only(types.int8)]
    leader_epoch: Ints
    key: Annotated[SpanArrays, SPANS]
    value: Annotated[SpanArrays, SPANS]
    header_first: Words
    header_key: Annotated[SpanArrays, SPANS]
    header_value: Annotated[SpanArrays, SPANS]


RECORDS = tuple_of(RecordArrays)

# offset, timestamp, timestamp type, leader epoch, key length, value length, header count
FIXED_RECORD_BYTES = 8 + 8 + 1 + 4 + 4 + 4 + 4
# key length, value length
FIXED_HEADER_BYTES = 4 + 4


@njit(types.int64(SPANS, writable(types.int64), writable(types.uint8)), nogil=True, cache=True)
def _gather(spans, offsets, out):
    data, start, length = spans
    at = np.int64(0)
    nulls = np.int64(0)
    for row in range(start.shape[0]):
        offsets[row] = at
        size = np.int64(length[row])
        if size < 0:
            nulls += 1
            continue
        source = start[row]
        for index in range(size):
            out[at + index] = data[source + index]
        at += size
    offsets[start.shape[0]] = at
    return nulls


def gather_spans(spans: SpanArrays) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Copy the spans one after another: (offsets int64[n + 1], bytes uint8, how many are null)."""
    total = int(np.maximum(spans.length, 0).sum(dtype=np.int64))
    offsets = np.empty(len(spans.start) + 1, np.int64)
    out = np.empty(total, np.uint8)
    nulls = _gather(spans, offsets, out)
    return offsets, out, int(nulls)


@njit(types.void(SPANS, writable(types.uint8)), nogil=True, cache=True)
def find_not_utf8(spans, invalid):
    """``invalid`` uint8[n] out: 1 where a span is not valid UTF-8; nulls and empty ones are."""
    data, start, length = spans
    base = data.ctypes.data
    for row in range(start.shape[0]):
        size = np.int64(length[row])
        invalid[row] = 0
        begin = start[row]
        inside = begin >= 0 and begin + size <= data.shape[0]
        if size > 0 and not (inside and is_utf8(base + begin, base + begin + size)):
            invalid[row] = 1


@njit(nogil=True, inline="always")
def headers_of(header_first, row):
    """First header of a record and the one after its last; ``header_first`` is empty where no record has any."""
    if header_first.shape[0] == 0:
        return np.int64(0), np.int64(0)
    return header_first[row], header_first[row + 1]


@njit(nogil=True, inline="always")
def _size(length):
    return max(np.int64(length), 0)


@njit(types.int64(types.int64, RECORDS, writable(types.uint8), writable(types.int64)), nogil=True, cache=True)
def write_canonical(row, records, out, state):
    """Write whole records from ``row`` on until ``out`` is full; returns the row to go on with.

    ``state`` out: bytes written; bytes that the record at the returned row needs (0 when all are written).
    """
    offset, timestamp_ms, timestamp_type, leader_epoch, key, value, header_first, header_key, header_value = records
    key_data, key_start, key_length = key
    value_data, value_start, value_length = value
    header_key_data, header_key_start, header_key_length = header_key
    header_value_data, header_value_start, header_value_length = header_value
    base = out.ctypes.data
    at = np.int64(0)
    state[1] = 0
    while row < offset.shape[0]:
        first, end = headers_of(header_first, row)
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


# CRC-32C's polynomial, bits reversed: the lowest bit is that of the highest power, so that a shift to the right
# multiplies by x.
_POLYNOMIAL = np.uint32(0x82F63B78)
_ONE = np.uint32(1)
_TOP = np.uint32(1 << 31)


@njit(nogil=True, inline="always")
def _multiply(left, right):
    """Product of two polynomials over GF(2) modulo CRC-32C's; bit 31 is the coefficient of x^0."""
    product = np.uint32(0)
    for place in range(32):
        if left & (_TOP >> np.uint32(place)):
            product ^= right
        right = (right >> _ONE) ^ (_POLYNOMIAL * (right & _ONE))
    return product


@njit(types.uint32(read_only(types.uint32), read_only(types.int64)), nogil=True, cache=True)
def combined_crc32c(crc, length_bytes):
    """CRC-32C of strings one after another, from the CRC and the length of each.

    As zlib's ``crc32_combine``: appending n bytes multiplies the CRC before by x^(8n) modulo the polynomial.
    """
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
