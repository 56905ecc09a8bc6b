"""Kernels of batch format v2, reading: batch headers in a window of a segment, records and headers in a block.

Every read is checked against the end of what holds it, and every number that the bytes claim against what they can
hold.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.kernels.types import OutInts, OutWords, read_only, tuple_of, writable
from engine.records.record_kernels import SPAN_PLACES, SpanPlaces
from engine.records.wire_kernels import INT_BITS, LONG_BITS, read_varint, unzigzag

# Columns of a batch table, one row a batch. START and END bound the whole batch in a window, the records in a block.
START, END, BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, ATTRIBUTES = 0, 1, 2, 3, 4, 5
BASE_TIMESTAMP_MS, MAX_TIMESTAMP_MS, PRODUCER_ID, RECORD_COUNT, CRC32C = 6, 7, 8, 9, 10
BATCH_COLUMNS = 11

# How a scan of batch headers ended.
WINDOW_DONE, BATCH_CUT, BAD_LENGTH, OTHER_MAGIC = 0, 1, 2, 3

# What is wrong with a record; the texts are in record_block.py.
GOOD, RECORDS_MISSING, RECORD_PAST_END, BAD_VARINT, BAD_OFFSET, FIELD_PAST_END, BAD_HEADERS, BYTES_LEFT = range(8)

# The least a record takes: length, attributes, two deltas, two lengths, a count, one byte each.
LEAST_RECORD_BYTES = 7

_BATCHES_IN = types.Array(types.int64, 2, "C", readonly=True)
_BATCHES_OUT = types.Array(types.int64, 2, "C")


@njit(nogil=True, inline="always")
def _be32(data, at):
    return ((np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16) | (np.int64(data[at + 2]) << 8)) | np.int64(
        data[at + 3]
    )


@njit(nogil=True, inline="always")
def _int32(data, at):
    return np.int64(np.int32(_be32(data, at)))


@njit(nogil=True, inline="always")
def _int64(data, at):
    return (_be32(data, at) << 32) | _be32(data, at + 4)


@njit(nogil=True, inline="always")
def _varint(data, at, end):
    """An int: (value, position after it); the position is -1 when it runs past ``end`` or past 5 bytes."""
    bits, at = read_varint(data, at, end, INT_BITS)
    # Five bytes have room for 35 bits: as in Kafka's int, the upper three are lost.
    return unzigzag(bits & np.uint64(0xFFFFFFFF)), at


@njit(nogil=True, inline="always")
def _varlong(data, at, end):
    """A long: (value, position after it); the position is -1 when it runs past ``end`` or past 10 bytes."""
    bits, at = read_varint(data, at, end, LONG_BITS)
    return unzigzag(bits), at


@njit(types.void(read_only(types.uint8), _BATCHES_OUT, writable(types.int64)), nogil=True, cache=True)
def scan_headers(window, batches, state):
    """Fill ``batches`` (int64[n, BATCH_COLUMNS]) with the whole batches at the front of ``window``.

    ``state`` out: batches found; bytes they take; how the scan ended; the next batch's size as it claims (0 unknown).
    """
    size = np.int64(window.shape[0])
    at = np.int64(0)
    found = np.int64(0)
    state[2] = WINDOW_DONE
    state[3] = 0
    while at < size and found < batches.shape[0]:
        if at + 17 > size:
            state[2] = BATCH_CUT
            break
        length = _int32(window, at + 8)
        magic = np.int64(np.int8(window[at + 16]))
        if magic != 2:
            state[2] = OTHER_MAGIC
            break
        if length < 49:
            state[2] = BAD_LENGTH
            break
        end = at + 12 + length
        if end > size:
            state[2] = BATCH_CUT
            state[3] = 12 + length
            break
        batches[found, START] = at
        batches[found, END] = end
        base_offset = _int64(window, at)
        batches[found, BASE_OFFSET] = base_offset
        batches[found, LAST_OFFSET] = base_offset + _int32(window, at + 23)
        batches[found, LEADER_EPOCH] = _int32(window, at + 12)
        batches[found, ATTRIBUTES] = (np.int64(window[at + 21]) << 8) | np.int64(window[at + 22])
        batches[found, BASE_TIMESTAMP_MS] = _int64(window, at + 27)
        batches[found, MAX_TIMESTAMP_MS] = _int64(window, at + 35)
        batches[found, PRODUCER_ID] = _int64(window, at + 43)
        batches[found, RECORD_COUNT] = _int32(window, at + 57)
        batches[found, CRC32C] = _be32(window, at + 17)
        found += 1
        at = end
    state[0] = found
    state[1] = at


# Scratch of one record, filled by ``_parse_record``.
_RECORD_END, _OFFSET_DELTA, _TIMESTAMP_DELTA, _KEY_AT, _KEY_SIZE, _VALUE_AT, _VALUE_SIZE = range(7)
_HEADERS_AT, _HEADER_COUNT = 7, 8
_SCRATCH = 9


@njit(nogil=True, inline="always")
def _parse_record(data, at, batch_end, record):
    """Fill ``record`` from the bytes at ``at``; returns what is wrong with them."""
    size, at = _varint(data, at, batch_end)
    if at < 0:
        return BAD_VARINT
    end = at + size
    if size < LEAST_RECORD_BYTES - 1 or end > batch_end:
        return RECORD_PAST_END
    record[_RECORD_END] = end
    # One byte of attributes, of which Kafka uses none.
    record[_TIMESTAMP_DELTA], at = _varlong(data, at + 1, end)
    if at < 0:
        return BAD_VARINT
    record[_OFFSET_DELTA], at = _varint(data, at, end)
    if at < 0:
        return BAD_VARINT
    size, at = _varint(data, at, end)
    if at < 0:
        return BAD_VARINT
    record[_KEY_AT] = at
    record[_KEY_SIZE] = max(size, -1)
    at += max(size, 0)
    if at > end:
        return FIELD_PAST_END
    size, at = _varint(data, at, end)
    if at < 0:
        return BAD_VARINT
    record[_VALUE_AT] = at
    record[_VALUE_SIZE] = max(size, -1)
    at += max(size, 0)
    if at > end:
        return FIELD_PAST_END
    count, at = _varint(data, at, end)
    if at < 0:
        return BAD_VARINT
    # A header takes two bytes at least: key length, value length.
    if count < 0 or count * 2 > end - at:
        return BAD_HEADERS
    if count == 0 and at != end:
        return BYTES_LEFT
    record[_HEADERS_AT] = at
    record[_HEADER_COUNT] = count
    return GOOD


class FoundRecords(NamedTuple):
    """What ``scan_records`` fills, with room for all records that the batches claim (``header_first`` for one more).

    ``header_at`` is where a record's headers start, after their count, and ``end`` where the record does.
    """

    offset: OutWords
    timestamp_ms: OutWords
    timestamp_type: Annotated[NDArray[np.int8], writable(types.int8)]
    leader_epoch: OutInts
    key: Annotated[SpanPlaces, SPAN_PLACES]
    value: Annotated[SpanPlaces, SPAN_PLACES]
    header_first: OutWords
    header_at: OutWords
    end: OutWords


_FOUND = tuple_of(FoundRecords)
_SCAN_RECORDS = types.void(read_only(types.uint8), _BATCHES_IN, types.int64, types.int64, _FOUND, writable(types.int64))


@njit(_SCAN_RECORDS, nogil=True, cache=True)
def scan_records(data, batches, range_start, range_end, found, state):
    """Find the records of ``batches`` (int64[n, BATCH_COLUMNS]) in ``data`` that lie in the range.

    ``state`` out: records found; what is wrong; the batch it is in.
    """
    offset, timestamp_ms, timestamp_type, leader_epoch, key, value, header_first, header_at, record_end = found
    key_start, key_length = key
    value_start, value_length = value
    row = np.int64(0)
    headers = np.int64(0)
    record = np.empty(_SCRATCH, np.int64)
    state[1] = GOOD
    for batch in range(batches.shape[0]):
        state[2] = batch
        at = batches[batch, START]
        batch_end = batches[batch, END]
        append_time = (batches[batch, ATTRIBUTES] & 0x08) != 0
        previous = batches[batch, BASE_OFFSET] - 1
        for _ in range(batches[batch, RECORD_COUNT]):
            problem = _parse_record(data, at, batch_end, record) if at < batch_end else RECORDS_MISSING
            record_offset = batches[batch, BASE_OFFSET] + record[_OFFSET_DELTA]
            if problem == GOOD and (record_offset <= previous or record_offset > batches[batch, LAST_OFFSET]):
                problem = BAD_OFFSET
            if problem != GOOD:
                state[1] = problem
                return
            previous = record_offset
            at = record[_RECORD_END]
            if record_offset < range_start or record_offset >= range_end:
                continue
            offset[row] = record_offset
            timestamp_ms[row] = batches[batch, BASE_TIMESTAMP_MS] + record[_TIMESTAMP_DELTA]
            if append_time:
                timestamp_ms[row] = batches[batch, MAX_TIMESTAMP_MS]
            timestamp_type[row] = append_time
            leader_epoch[row] = batches[batch, LEADER_EPOCH]
            key_start[row] = record[_KEY_AT]
            key_length[row] = record[_KEY_SIZE]
            value_start[row] = record[_VALUE_AT]
            value_length[row] = record[_VALUE_SIZE]
            header_first[row] = headers
            header_at[row] = record[_HEADERS_AT]
            record_end[row] = at
            headers += record[_HEADER_COUNT]
            row += 1
        if at != batch_end:
            state[1] = BYTES_LEFT
            return
    header_first[row] = headers
    state[0] = row


_SCAN_HEADERS = types.int64(read_only(types.uint8), _FOUND, types.int64, SPAN_PLACES, SPAN_PLACES)


@njit(_SCAN_HEADERS, nogil=True, cache=True)
def scan_record_headers(data, records, rows, key, value):
    """Find all headers of the first ``rows`` records, which must end where these do; the row where not, or -1."""
    header_first, header_at, record_end = records.header_first, records.header_at, records.end
    key_start, key_length = key
    value_start, value_length = value
    for row in range(rows):
        at = header_at[row]
        end = record_end[row]
        for header in range(header_first[row], header_first[row + 1]):
            size, at = _varint(data, at, end)
            if at < 0 or size < 0 or at + size > end:
                return row
            key_start[header] = at
            key_length[header] = size
            at += size
            size, at = _varint(data, at, end)
            if at < 0 or at + max(size, 0) > end:
                return row
            value_start[header] = at
            value_length[header] = max(size, -1)
            at += max(size, 0)
        if at != end:
            return row
    return np.int64(-1)
