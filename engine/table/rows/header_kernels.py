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
from engine.records.record_kernels import SPANS
from engine.records.records import NULL_LENGTH, ByteSpans, Headers

_MAX_VARINT_BITS = 35

_PUT = types.int64(writable(types.uint8), types.int64, types.int64)
_ENCODE = types.int64(
    read_only(types.int64), read_only(types.boolean), *SPANS, *SPANS, writable(types.int64), writable(types.uint8)
)
_GET = types.UniTuple(types.int64, 2)(read_only(types.uint8), types.int64, types.int64)
_DECODE = types.int64(
    *SPANS,
    types.boolean,
    writable(types.int64),
    writable(types.int64),
    writable(types.int32),
    writable(types.int64),
    writable(types.int32),
)


@njit(_PUT, nogil=True, cache=True)
def _put_varint(out, at, value):
    """Write a zigzag varint at ``at`` (only count when ``out`` is empty); the position after it."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while True:
        byte = np.uint8(left & np.uint64(0x7F))
        left >>= np.uint64(7)
        if left:
            byte |= np.uint8(0x80)
        if out.shape[0]:
            out[at] = byte
        at += 1
        if not left:
            return at


@njit(_ENCODE, nogil=True, cache=True)
def _encode(first, wanted, key_data, key_start, key_length, value_data, value_start, value_length, offsets, out):
    """The sections of the wanted records one after another; an empty ``out`` only measures."""
    at = np.int64(0)
    write = out.shape[0] > 0
    for row in range(wanted.shape[0]):
        offsets[row] = at
        if not wanted[row]:
            continue
        at = _put_varint(out, at, first[row + 1] - first[row])
        for header in range(first[row], first[row + 1]):
            at = _put_varint(out, at, np.int64(key_length[header]))
            if write:
                for index in range(key_length[header]):
                    out[at + index] = key_data[key_start[header] + index]
            at += key_length[header]
            at = _put_varint(out, at, np.int64(value_length[header]))
            if value_length[header] > 0:
                if write:
                    for index in range(value_length[header]):
                        out[at + index] = value_data[value_start[header] + index]
                at += value_length[header]
    offsets[wanted.shape[0]] = at
    return at


@njit(_GET, nogil=True, cache=True)
def _get_varint(data, at, end):
    """(value, position after it); the position is -1 where the bytes end too early or the number is too long."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(_MAX_VARINT_BITS):
        byte = np.uint64(data[at])
        at += 1
        result |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(_DECODE, nogil=True, cache=True)
def _decode(data, start, length, fill, first, key_start, key_length, value_start, value_length):
    """Count (or ``fill``) the headers of each section; the number of them, or -1 - row of a damaged section."""
    total = np.int64(0)
    for row in range(start.shape[0]):
        first[row] = total
        if length[row] < 0:
            continue
        end = start[row] + length[row]
        if start[row] < 0 or end > data.shape[0]:
            return -1 - row
        count, at = _get_varint(data, start[row], end)
        if at < 0 or count < 0 or count > length[row]:
            return -1 - row
        for _ in range(count):
            size, at = _get_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return -1 - row
            if fill:
                key_start[total] = at
                key_length[total] = size
            at += size
            size, at = _get_varint(data, at, end)
            if at < 0 or size < -1 or size > end - at:
                return -1 - row
            if fill:
                value_start[total] = at
                value_length[total] = size
            if size > 0:
                at += size
            total += 1
        if at != end:
            return -1 - row
    first[start.shape[0]] = total
    return total


def encode_header_sections(headers: Headers, wanted: NDArray[np.bool_]) -> ByteSpans:
    """The header section of each wanted record (bool[n]), null for the others."""
    spans = (*headers.key.arrays, *headers.value.arrays)
    first = np.ascontiguousarray(headers.first)
    offsets = np.empty(len(wanted) + 1, np.int64)
    size = _encode(first, wanted, *spans, offsets, np.empty(0, np.uint8))
    out = np.empty(size, np.uint8)
    if size:
        _encode(first, wanted, *spans, offsets, out)
    length = np.where(wanted, np.diff(offsets), NULL_LENGTH).astype(np.int32)
    return ByteSpans(data=out, start=offsets[:-1], length=length)


def decode_header_sections(sections: ByteSpans) -> Headers:
    """The headers of each section, none where it is null. Raises Corrupt for bytes that are no header section."""
    data = np.ascontiguousarray(sections.data)
    first = np.empty(len(sections) + 1, np.int64)
    none64, none32 = np.empty(0, np.int64), np.empty(0, np.int32)
    total = _decode(data, sections.start, sections.length, False, first, none64, none32, none64, none32)
    if total < 0:
        raise Corrupt(f"row {-1 - total} keeps bytes that are no header section")
    key_start, value_start = np.empty(total, np.int64), np.empty(total, np.int64)
    key_length, value_length = np.empty(total, np.int32), np.empty(total, np.int32)
    _decode(data, sections.start, sections.length, True, first, key_start, key_length, value_start, value_length)
    return Headers(
        first=first,
        key=ByteSpans(data=data, start=key_start, length=key_length),
        value=ByteSpans(data=data, start=value_start, length=value_length),
    )
