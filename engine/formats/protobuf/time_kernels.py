"""Messages that become one column: Timestamp, Duration, and those without fields.

Source: ``timestamp.proto`` and ``duration.proto`` of Protobuf's well-known types.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.protobuf.column_kernels import null_leaf, set_valid, store_number
from engine.formats.protobuf.operations import (
    BAD_TAG,
    BELOW_MICROSECOND,
    DEFAULT_WRITTEN,
    DURATION,
    EMPTY_WITH_FIELDS,
    FLAGS,
    HAS_NANOS,
    KIND,
    NUMBER_RANGE,
    OUT_OF_ORDER,
    ROW_WIDTH,
    TIME_FORM,
    TIME_RANGE,
    TIMESTAMP,
    UNKNOWN_FIELD,
    VALID,
    VALUES,
)
from engine.formats.protobuf.wire_kernels import BAD, read_length, read_varint, skip_field
from engine.kernels.inner import inner
from engine.kernels.memory import load_u8, store_i64, word

ROW_BYTES = 8 * ROW_WIDTH
SECONDS_TAG, NANOS_TAG = 8, 16
NANOS_A_SECOND = 1_000_000_000
MAX_MICROS_SECONDS = (2**63 - 1) // 1_000_000 - 1
MAX_DURATION_SECONDS = 10**12 - 1


@inner
def read_moment(base, at, end, free):
    """A Timestamp or a Duration: (seconds, nanoseconds, position or BAD, issue)."""
    seconds, nanos, issue, last = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while at < end:
        tag, at, found = read_varint(base, at, end)
        if at >= 0 and tag in (SECONDS_TAG, NANOS_TAG):
            value, at, other = read_varint(base, at, end)
            found = other if other != 0 else found
            if tag == SECONDS_TAG:
                seconds = value
            else:
                nanos = np.int64(np.int32(value))
                found = found if nanos == value else np.int64(NUMBER_RANGE)
            if at >= 0 and value == 0:
                found = np.int64(DEFAULT_WRITTEN)
            if at >= 0 and tag <= last:
                found = np.int64(OUT_OF_ORDER)
            last = tag
        elif at >= 0 and 8 <= tag <= 0xFFFFFFFF:
            at, found = skip_field(base, at, end, tag, free)
            found = np.int64(UNKNOWN_FIELD) if at >= 0 else found
        elif at >= 0:
            at, found = np.int64(BAD), np.int64(BAD_TAG)
        if at < 0:
            return seconds, nanos, np.int64(BAD), found
        issue = found if found != 0 and issue == 0 else issue
    return seconds, nanos, at, issue


@inner
def put_timestamp(row, memory, entry, seconds, nanos):
    """Microseconds since 1970, and what is below them in the column after it, null where it is zero. The issue."""
    fits = -MAX_MICROS_SECONDS <= seconds <= MAX_MICROS_SECONDS
    is_normal = 0 <= nanos < NANOS_A_SECOND
    below = nanos % 1000
    if not (fits and is_normal):
        null_leaf(row, memory, entry)
        below = np.int64(0)
    else:
        store_i64(memory + word(row, VALUES) + 8 * entry, seconds * 1_000_000 + nanos // 1000)
        set_valid(row, memory, entry, 1)
    if word(row, FLAGS) & HAS_NANOS:
        behind = row + ROW_BYTES
        store_number(behind, memory, entry, below)
        set_valid(behind, memory, entry, below != 0)
    elif below != 0:
        return np.int64(BELOW_MICROSECOND)
    if not is_normal:
        return np.int64(TIME_FORM)
    return np.int64(0) if fits else np.int64(TIME_RANGE)


@inner
def put_duration(row, memory, entry, seconds, nanos):
    """Seconds with nine digits after the point, 128 bits. The issue."""
    if seconds < -MAX_DURATION_SECONDS or seconds > MAX_DURATION_SECONDS:
        null_leaf(row, memory, entry)
        return np.int64(TIME_RANGE)
    # The product has more than 64 bits: each half of the seconds is multiplied, and the upper one's added 32 bits up.
    size = np.uint64(abs(seconds))
    upper = (size >> np.uint64(32)) * np.uint64(NANOS_A_SECOND)
    lower = (size & np.uint64(0xFFFFFFFF)) * np.uint64(NANOS_A_SECOND)
    low = lower + (upper << np.uint64(32))
    high = (upper >> np.uint64(32)) + np.uint64(low < lower)
    if seconds < 0:
        # Two's complement of both words; where the lower is zero, the one is carried.
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    total = low + np.uint64(nanos)
    high += (np.uint64(0xFFFFFFFFFFFFFFFF) if nanos < 0 else np.uint64(0)) + np.uint64(total < low)
    slot = memory + word(row, VALUES) + 16 * entry
    store_i64(slot, np.int64(total))
    store_i64(slot + 8, np.int64(high))
    set_valid(row, memory, entry, 1)
    is_normal = -NANOS_A_SECOND < nanos < NANOS_A_SECOND and (
        seconds == 0 or nanos == 0 or (seconds < 0) == (nanos < 0)
    )
    return np.int64(0) if is_normal else np.int64(TIME_FORM)


@inner
def read_message_leaf(base, at, end, row, memory, entry, is_again, free):
    """A Timestamp, a Duration, or a message without fields: (position or BAD, issue).

    One that comes a second time is null: its two halves belong together, as no column of halves shows.
    """
    kind = word(row, KIND)
    length, at, issue = read_length(base, at, end)
    if at < 0:
        return at, issue
    if kind not in (TIMESTAMP, DURATION):
        store_number(row, memory, entry, np.int64(1))
        set_valid(row, memory, entry, 1)
        return at + length, np.int64(EMPTY_WITH_FIELDS) if length > 0 else issue
    seconds, nanos, at, found = read_moment(base, at, at + length, free)
    if at < 0:
        return at, found
    issue = found if issue == 0 else issue
    if is_again and load_u8(memory + word(row, VALID) + entry) != 0:
        null_leaf(row, memory, entry)
        if word(row, FLAGS) & HAS_NANOS:
            null_leaf(row + ROW_BYTES, memory, entry)
        return at, np.int64(OUT_OF_ORDER)
    if kind == TIMESTAMP:
        found = put_timestamp(row, memory, entry, seconds, nanos)
    else:
        found = put_duration(row, memory, entry, seconds, nanos)
    return at, found if issue == 0 else issue
