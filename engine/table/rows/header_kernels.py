"""Kernels for a record's header section as Kafka's wire format has it: count, then key and value of each header.

All lengths are zigzag varints (docs/batch_format.md); a null value has the length -1.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.kernels.types import read_only, writable
from engine.records.record_kernels import SPAN_PLACES, SPANS, SpanPlaces
from engine.records.records import NULL_LENGTH, ByteSpans, Headers
from engine.records.wire_kernels import (
    INT_BITS,
    read_varint,
    string_size,
    unzigzag,
    varint_size,
    write_string,
    write_varint,
)

_FIRST, _WANTED, _OFFSETS = read_only(types.int64), read_only(types.boolean), writable(types.int64)


@njit(types.void(_FIRST, _WANTED, SPANS, SPANS, _OFFSETS), nogil=True, cache=True)
def _measure(first, wanted, key, value, offsets):
    """Where the sections of the wanted records begin, one after another."""
    key_length, value_length = key.length, value.length
    size = np.int64(0)
    for row in range(wanted.shape[0]):
        offsets[row] = size
        if wanted[row]:
            size += varint_size(first[row + 1] - first[row])
            for header in range(first[row], first[row + 1]):
                size += string_size(key_length[header]) + string_size(value_length[header])
    offsets[wanted.shape[0]] = size


@njit(types.void(_FIRST, _WANTED, SPANS, SPANS, writable(types.uint8)), nogil=True, cache=True)
def _encode(first, wanted, key, value, out):
    """The sections of the wanted records, one after another."""
    key_data, key_start, key_length = key
    value_data, value_start, value_length = value
    at = np.int64(0)
    for row in range(wanted.shape[0]):
        if wanted[row]:
            at = write_varint(out, at, first[row + 1] - first[row])
            for header in range(first[row], first[row + 1]):
                at = write_string(out, at, key_data, key_start[header], key_length[header])
                at = write_string(out, at, value_data, value_start[header], value_length[header])


@njit(nogil=True, inline="always")
def _number(data, at, end):
    """(value, position after it); the position is -1 where the bytes end too early or the number is too long."""
    bits, at = read_varint(data, at, end, INT_BITS)
    return unzigzag(bits), at


@njit(types.int64(SPANS, types.boolean, writable(types.int64), SPAN_PLACES, SPAN_PLACES), nogil=True, cache=True)
def _decode(sections, fill, first, key, value):
    """Count (or ``fill``) the headers of each section; the number of them, or -1 - row of a damaged section."""
    data, start, length = sections
    key_start, key_length = key
    value_start, value_length = value
    total = np.int64(0)
    for row in range(start.shape[0]):
        first[row] = total
        if length[row] < 0:
            continue
        end = start[row] + length[row]
        if start[row] < 0 or end > data.shape[0]:
            return -1 - row
        count, at = _number(data, start[row], end)
        if at < 0 or count < 0 or count > length[row]:
            return -1 - row
        for _ in range(count):
            size, at = _number(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return -1 - row
            if fill:
                key_start[total], key_length[total] = at, size
            at += size
            size, at = _number(data, at, end)
            if at < 0 or size < -1 or size > end - at:
                return -1 - row
            if fill:
                value_start[total], value_length[total] = at, size
            if size > 0:
                at += size
            total += 1
        if at != end:
            return -1 - row
    first[start.shape[0]] = total
    return total


def encode_header_sections(headers: Headers, wanted: NDArray[np.bool_]) -> ByteSpans:
    """The header section of each wanted record (bool[n]), null for the others."""
    first, key, value = np.ascontiguousarray(headers.first), headers.key.arrays, headers.value.arrays
    offsets = np.empty(len(wanted) + 1, np.int64)
    _measure(first, wanted, key, value, offsets)
    out = np.empty(int(offsets[-1]), np.uint8)
    _encode(first, wanted, key, value, out)
    length = np.where(wanted, np.diff(offsets), NULL_LENGTH).astype(np.int32)
    return ByteSpans(data=out, start=offsets[:-1], length=length)


def decode_header_sections(sections: ByteSpans) -> Headers:
    """The headers of each section, none where it is null. Raises Corrupt for bytes that are no header section."""
    arrays, first, none = sections.arrays, np.empty(len(sections) + 1, np.int64), SpanPlaces.room_for(0)
    total = _decode(arrays, False, first, none, none)
    if total < 0:
        raise Corrupt(f"row {-1 - total} keeps bytes that are no header section")
    key, value = SpanPlaces.room_for(total), SpanPlaces.room_for(total)
    _decode(arrays, True, first, key, value)
    return Headers(
        first=first,
        key=ByteSpans(data=arrays.data, start=key.start, length=key.length),
        value=ByteSpans(data=arrays.data, start=value.start, length=value.length),
    )
