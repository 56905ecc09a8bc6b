"""How one value of each leaf type is read from Avro's binary form into the arena, checked on the way.

Every reader takes the record's bytes ``data[at:end]`` and returns the position behind the value, or a negative one:
BAD (the issue says why) or NO_ROOM (the arena's strings are full). An issue from FIRST_KEPT on leaves the column null
or, where the value is the same, filled; the record's bytes are kept.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.avro_operations import (
    BOOLEAN,
    BYTES,
    DATA,
    DATA_SIZE,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    DECIMAL_NOT_MINIMAL,
    DECIMAL_RANGE,
    DOUBLE,
    ENDS_EARLY,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    INT_TOO_WIDE,
    KEY_NOT_UTF8,
    LONG,
    MAP_KEY,
    NEGATIVE_LENGTH,
    NO_SYMBOL,
    NOT_BOOLEAN,
    NOT_MINIMAL,
    NOT_UTF8,
    OPERATION,
    PARAMETER,
    STRING,
    TARGET,
    TIME_MICROS,
    TIME_MILLIS,
    TIME_RANGE,
    TIMESTAMP_MILLIS,
    TIMESTAMP_RANGE,
    UUID_FORM,
    UUID_TEXT,
    VALID,
    VALUES,
)
from engine.formats.memory_kernels import SLACK, copy, copy_text, load_u64
from engine.formats.utf8_kernels import is_utf8

BAD = -1
NO_ROOM = -2

DAY_MILLIS = 86_400_000
DAY_MICROS = 86_400_000_000
MAX_MILLIS = (2**63 - 1) // 1000

_POWERS = [10**digits for digits in range(39)]
POWER_HIGH = np.array([power >> 64 for power in _POWERS], np.uint64)
POWER_LOW = np.array([power & (2**64 - 1) for power in _POWERS], np.uint64)


@njit(nogil=True, cache=True)
def read_number(data, at, end):  # type: ignore[no-untyped-def]
    """A zigzag varint of at most 64 bits: (value, position behind it or BAD, issue)."""
    if at >= end:
        return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)
    byte = np.uint64(data[at])
    if byte < np.uint64(0x80):
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at + 1, np.int64(0)
    total = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    at += 1
    while at < end and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            break
        total |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        if byte < np.uint64(0x80):
            issue = np.int64(NOT_MINIMAL) if byte == np.uint64(0) else np.int64(0)
            return np.int64(total >> np.uint64(1)) ^ -np.int64(total & np.uint64(1)), at, issue
    return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)


@njit(nogil=True, cache=True)
def read_length(data, at, end):  # type: ignore[no-untyped-def]
    """A length with as many bytes behind it: (length, position behind the number or BAD, issue)."""
    length, at, issue = read_number(data, at, end)
    if at < 0:
        return length, at, issue
    if length < 0:
        return length, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
    if length > end - at:
        return length, np.int64(BAD), np.int64(ENDS_EARLY)
    return length, at, issue


@njit(nogil=True, cache=True)
def read_string(data, base, at, end, row, arena_base, arena, arena32, entry):  # type: ignore[no-untyped-def]
    """A string, bytes or a map's key into offsets and data."""
    length, at, issue = read_length(data, at, end)
    if at < 0:
        return at, issue
    slot = (row[VALUES] >> 2) + entry
    begin = np.int64(arena32[slot])
    if begin + length + SLACK > row[DATA_SIZE]:
        return np.int64(NO_ROOM), issue
    not_ascii = copy_text(arena_base + row[DATA] + begin, base + at, length, data.shape[0] - at)
    if not_ascii and row[OPERATION] == STRING and not is_utf8(data, at, at + length):
        if row[PARAMETER] == MAP_KEY:
            return np.int64(BAD), np.int64(KEY_NOT_UTF8)
        arena32[slot + 1] = arena32[slot]
        arena[row[VALID] + entry] = 0
        return at + length, np.int64(NOT_UTF8)
    arena32[slot + 1] = np.int32(begin + length)
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = 1
    return at + length, issue


@njit(nogil=True, cache=True)
def read_enum(data, at, end, row, pool, pool_start, arena_base, arena32, entry):  # type: ignore[no-untyped-def]
    """An enum's index as its symbol's text, from the pool of all symbols."""
    index, at, issue = read_number(data, at, end)
    if at < 0:
        return at, issue
    if index < 0 or index >= row[PARAMETER]:
        return np.int64(BAD), np.int64(NO_SYMBOL)
    symbol = row[TARGET] + index
    length = np.int64(pool_start[symbol + 1]) - np.int64(pool_start[symbol])
    slot = (row[VALUES] >> 2) + entry
    begin = np.int64(arena32[slot])
    if begin + length + SLACK > row[DATA_SIZE]:
        return np.int64(NO_ROOM), issue
    copy_text(
        arena_base + row[DATA] + begin,
        pool.ctypes.data + pool_start[symbol],
        length,
        pool.shape[0] - pool_start[symbol],
    )
    arena32[slot + 1] = np.int32(begin + length)
    return at, issue


@njit(nogil=True, cache=True)
def read_boolean(data, at, row, arena, entry):  # type: ignore[no-untyped-def]
    byte = data[at]
    arena[row[VALUES] + entry] = byte & 1
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = byte <= 1
    return at + 1, np.int64(0) if byte <= 1 else np.int64(NOT_BOOLEAN)


@njit(nogil=True, cache=True)
def read_scaled(data, at, end, row, arena, arena64, entry):  # type: ignore[no-untyped-def]
    """Milliseconds as microseconds, and microseconds within a day; null where they don't fit."""
    value, at, issue = read_number(data, at, end)
    if at < 0:
        return at, issue
    operation = row[OPERATION]
    fits = True
    kept = np.int64(TIME_RANGE)
    if operation == TIMESTAMP_MILLIS:
        fits = -MAX_MILLIS <= value <= MAX_MILLIS
        kept = np.int64(TIMESTAMP_RANGE)
    elif operation == TIME_MILLIS:
        if value < -(2**31) or value >= 2**31:
            return np.int64(BAD), np.int64(INT_TOO_WIDE)
        fits = 0 <= value < DAY_MILLIS
    else:
        fits = 0 <= value < DAY_MICROS
    factor = 1 if operation == TIME_MICROS else 1000
    arena64[(row[VALUES] >> 3) + entry] = value * factor if fits else 0
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = fits
    return at, issue if fits else kept


@njit(nogil=True, cache=True)
def read_decimal(data, at, end, row, arena, arena64, entry):  # type: ignore[no-untyped-def]
    """Two's complement, big-endian, of any length, to 128 bits."""
    issue = np.int64(0)
    length = row[PARAMETER]
    if row[OPERATION] == DECIMAL_BYTES:
        length, at, issue = read_length(data, at, end)
        if at < 0:
            return at, issue
        if length > 1:
            second = data[at + 1]
            if (data[at] == 0 and second < 0x80) or (data[at] == 0xFF and second >= 0x80):
                issue = np.int64(DECIMAL_NOT_MINIMAL)
    elif length > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    fits = length > 0
    negative = fits and data[at] >= 0x80
    fill = np.uint8(0xFF) if negative else np.uint8(0)
    high = np.uint64(0xFFFFFFFFFFFFFFFF) if negative else np.uint64(0)
    low = high
    for index in range(length):
        if index < length - 16 and data[at + index] != fill:
            fits = False
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(data[at + index])
    if (high >= np.uint64(0x8000000000000000)) != negative:
        fits = False
    size_high, size_low = high, low
    if negative:
        size_low = ~low + np.uint64(1)
        size_high = ~high + (np.uint64(1) if size_low == 0 else np.uint64(0))
    bound_high, bound_low = POWER_HIGH[row[TARGET]], POWER_LOW[row[TARGET]]
    if size_high > bound_high or (size_high == bound_high and size_low >= bound_low):
        fits = False
    slot = (row[VALUES] >> 3) + 2 * entry
    arena64[slot] = np.int64(low) if fits else np.int64(0)
    arena64[slot + 1] = np.int64(high) if fits else np.int64(0)
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = fits
    return at + length, issue if fits else np.int64(DECIMAL_RANGE)


@njit(nogil=True, cache=True)
def hex_digit(byte):  # type: ignore[no-untyped-def]
    """The value of a lower-case hexadecimal digit, 255 for any other byte."""
    if 48 <= byte <= 57:
        return np.uint8(byte - 48)
    if 97 <= byte <= 102:
        return np.uint8(byte - 87)
    return np.uint8(255)


@njit(nogil=True, cache=True)
def read_uuid_text(data, at, end, row, arena, entry):  # type: ignore[no-untyped-def]
    """36 characters in RFC 4122's lower-case form to 16 bytes; null for any other text."""
    length, at, issue = read_length(data, at, end)
    if at < 0:
        return at, issue
    fits = length == 36
    out = row[VALUES] + 16 * entry
    position = at
    for index in range(16):
        value = np.uint8(0)
        if fits:
            if index in (4, 6, 8, 10):
                fits = data[position] == 45
                position += 1
            high, low = hex_digit(data[position]), hex_digit(data[position + 1])
            position += 2
            fits = fits and high < 16 and low < 16
            value = np.uint8((high << 4) | low)
        arena[out + index] = value
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = fits
    return at + length, issue if fits else np.int64(UUID_FORM)


@njit(nogil=True, cache=True)
def read_leaf(data, base, at, end, row, pool, pool_start, arena_base, arena, arena32, arena64, entry):  # type: ignore[no-untyped-def]
    """One value of the operation's type into entry ``entry`` of its column: (position or negative, issue)."""
    operation = row[OPERATION]
    if operation in (STRING, BYTES):
        return read_string(data, base, at, end, row, arena_base, arena, arena32, entry)
    if operation == LONG:
        value, at, issue = read_number(data, at, end)
        arena64[(row[VALUES] >> 3) + entry] = value
        return at, issue
    if operation == INT:
        value, at, issue = read_number(data, at, end)
        if at >= 0 and (value < -(2**31) or value >= 2**31):
            return np.int64(BAD), np.int64(INT_TOO_WIDE)
        arena32[(row[VALUES] >> 2) + entry] = np.int32(value)
        return at, issue
    if operation == ENUM:
        return read_enum(data, at, end, row, pool, pool_start, arena_base, arena32, entry)
    if operation in (TIMESTAMP_MILLIS, TIME_MILLIS, TIME_MICROS):
        return read_scaled(data, at, end, row, arena, arena64, entry)
    if operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        return read_decimal(data, at, end, row, arena, arena64, entry)
    if operation == UUID_TEXT:
        return read_uuid_text(data, at, end, row, arena, entry)
    size = row[PARAMETER]
    if size > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    if operation == DOUBLE:
        arena64[(row[VALUES] >> 3) + entry] = np.int64(load_u64(base + at))
        return at + 8, np.int64(0)
    if operation == BOOLEAN:
        return read_boolean(data, at, row, arena, entry)
    # FLOAT and FIXED: the column holds the bytes as they are.
    copy(arena_base + row[VALUES] + size * entry, base + at, size)
    return at + size, np.int64(0)


@njit(nogil=True, cache=True)
def null_leaf(row, arena, arena32, arena64, entry):  # type: ignore[no-untyped-def]
    """Entry ``entry`` of a leaf's column becomes null; what lies under it is set to zero, not left as it was."""
    operation = row[OPERATION]
    if operation in (STRING, BYTES, ENUM):
        slot = (row[VALUES] >> 2) + entry
        arena32[slot + 1] = arena32[slot]
    elif operation in (INT, FLOAT):
        arena32[(row[VALUES] >> 2) + entry] = 0
    elif operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        slot = (row[VALUES] >> 3) + 2 * entry
        arena64[slot] = 0
        arena64[slot + 1] = 0
    elif operation == BOOLEAN:
        arena[row[VALUES] + entry] = 0
    elif operation in (FIXED, UUID_TEXT):
        size = row[PARAMETER]
        for index in range(size):
            arena[row[VALUES] + size * entry + index] = 0
    else:
        arena64[(row[VALUES] >> 3) + entry] = 0
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = 0
