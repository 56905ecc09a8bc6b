"""How one value of each leaf type is read from Avro's binary form into the arena, checked on the way.

Bytes, memory and rows are addresses (columns/tables.py says why). What keeps every access inside: nothing at
``base + at`` is read before ``at`` was compared with ``end``, ``base`` having ``size`` bytes and ``end <= size``; an
entry is below the capacity of its level, by which the arena was laid out; and strings are compared with DATA_SIZE.

A reader returns the position behind the value, or a negative one: BAD (the issue says why) or NO_ROOM (the memory's
strings are full). An issue from FIRST_KEPT on leaves the column null or, where the value is the same, filled; the
record's bytes are kept.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.avro.operations import (
    DECIMAL_NOT_MINIMAL,
    DECIMAL_RANGE,
    ENDS_EARLY,
    INT_TOO_WIDE,
    KEY_NOT_UTF8,
    NEGATIVE_LENGTH,
    NO_SYMBOL,
    NOT_BOOLEAN,
    NOT_MINIMAL,
    NOT_UTF8,
    TIME_RANGE,
    TIMESTAMP_RANGE,
    UUID_FORM,
)
from engine.formats.columns.fill_kernels import NO_ROOM
from engine.formats.columns.operations import (
    BOOLEAN,
    BYTES,
    DATA,
    DATA_SIZE,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    DOUBLE,
    ENUM,
    INT,
    LONG,
    MAP_KEY,
    NARROW,
    OPERATION,
    PARAMETER,
    STRING,
    TARGET,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MILLIS,
    UUID_TEXT,
    VALID,
    VALUES,
)
from engine.kernels.floats import double_of_float
from engine.kernels.inner import inner
from engine.kernels.memory import (
    SLACK,
    copy,
    copy_text,
    load_i32,
    load_i64,
    load_u8,
    store_i32,
    store_i64,
    store_u8,
    word,
)
from engine.kernels.utf8 import is_utf8

BAD = -1

DAY_MILLIS = 86_400_000
DAY_MICROS = 86_400_000_000
MAX_MILLIS = (2**63 - 1) // 1000

_POWERS = [10**digits for digits in range(39)]
POWER_HIGH = np.array([power >> 64 for power in _POWERS], np.uint64)
POWER_LOW = np.array([power & (2**64 - 1) for power in _POWERS], np.uint64)


@inner
def read_long_number(base, at, end):
    """A zigzag varint of two bytes and more; ``at < end``.

    Nine bytes hold 63 bits, so of a tenth only the lowest bit may be set; a last byte of zero adds nothing, and the
    number could have been shorter. Zigzag has the sign in the lowest bit: shifted out, it inverts all others.
    """
    total = np.uint64(load_u8(base + at) & np.uint8(0x7F))
    shift = np.uint64(7)
    at += 1
    while at < end and shift < np.uint64(64):
        byte = np.uint64(load_u8(base + at))
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            break
        total |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        if byte < np.uint64(0x80):
            issue = np.int64(NOT_MINIMAL) if byte == np.uint64(0) else np.int64(0)
            return np.int64(total >> np.uint64(1)) ^ -np.int64(total & np.uint64(1)), at, issue
    return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)


@inner(forceinline=True)
def read_number(base, at, end):
    """A zigzag varint of at most 64 bits: (value, position behind it or BAD, issue)."""
    if at >= end:
        return np.int64(0), np.int64(BAD), np.int64(ENDS_EARLY)
    byte = np.int64(load_u8(base + at))
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1, np.int64(0)
    return read_long_number(base, at, end)


@inner(forceinline=True)
def read_length(base, at, end):
    """A length with as many bytes behind it: (length, position behind the number or BAD, issue)."""
    length, at, issue = read_number(base, at, end)
    if at < 0:
        return length, at, issue
    if length < 0:
        return length, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
    if length > end - at:
        return length, np.int64(BAD), np.int64(ENDS_EARLY)
    return length, at, issue


@inner(forceinline=True)
def read_string(base, size, at, end, row, memory, entry):
    """A string, bytes or a map's key into offsets and data."""
    length, at, issue = read_length(base, at, end)
    if at < 0:
        return at, issue
    slot = memory + word(row, VALUES) + 4 * entry
    begin = np.int64(load_i32(slot))
    if begin + length + SLACK > word(row, DATA_SIZE):
        return np.int64(NO_ROOM), issue
    not_ascii = copy_text(memory + word(row, DATA) + begin, base + at, length, size - at)
    if not_ascii and word(row, OPERATION) == STRING and not is_utf8(base + at, base + at + length):
        if word(row, PARAMETER) == MAP_KEY:
            return np.int64(BAD), np.int64(KEY_NOT_UTF8)
        store_i32(slot + 4, load_i32(slot))
        store_u8(memory + word(row, VALID) + entry, np.uint8(0))
        return at + length, np.int64(NOT_UTF8)
    store_i32(slot + 4, np.int32(begin + length))
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(1))
    return at + length, issue


@inner(forceinline=True)
def read_enum(base, at, end, row, pool, pool_start, memory, entry):
    """An enum's index as its symbol's text, from the pool of all symbols."""
    index, at, issue = read_number(base, at, end)
    if at < 0:
        return at, issue
    if index < 0 or index >= word(row, PARAMETER):
        return np.int64(BAD), np.int64(NO_SYMBOL)
    symbol = word(row, TARGET) + index
    source = np.int64(load_i32(pool_start + 4 * symbol))
    length = np.int64(load_i32(pool_start + 4 * symbol + 4)) - source
    slot = memory + word(row, VALUES) + 4 * entry
    begin = np.int64(load_i32(slot))
    if begin + length + SLACK > word(row, DATA_SIZE):
        return np.int64(NO_ROOM), issue
    # The pool has SLACK bytes behind its last symbol.
    copy_text(memory + word(row, DATA) + begin, pool + source, length, length + SLACK)
    store_i32(slot + 4, np.int32(begin + length))
    return at, issue


@inner(forceinline=True)
def read_boolean(base, at, row, memory, entry):
    byte = load_u8(base + at)
    store_u8(memory + word(row, VALUES) + entry, np.uint8(byte & 1))
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(byte <= 1))
    return at + 1, np.int64(0) if byte <= 1 else np.int64(NOT_BOOLEAN)


@inner(forceinline=True)
def read_scaled(base, at, end, row, memory, entry):
    """Milliseconds as microseconds, and microseconds within a day; null where they don't fit."""
    value, at, issue = read_number(base, at, end)
    if at < 0:
        return at, issue
    operation = word(row, OPERATION)
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
    store_i64(memory + word(row, VALUES) + 8 * entry, np.int64(value * factor if fits else 0))
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(fits))
    return at, issue if fits else kept


@inner
def read_decimal(base, at, end, row, memory, entry):
    """Two's complement, big-endian, of any length, to 128 bits."""
    issue = np.int64(0)
    length = word(row, PARAMETER)
    if word(row, OPERATION) == DECIMAL_BYTES:
        length, at, issue = read_length(base, at, end)
        if at < 0:
            return at, issue
        if length > 1:
            second = load_u8(base + at + 1)
            if (load_u8(base + at) == 0 and second < 0x80) or (load_u8(base + at) == 0xFF and second >= 0x80):
                issue = np.int64(DECIMAL_NOT_MINIMAL)
    elif length > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    fits = length > 0
    negative = fits and load_u8(base + at) >= 0x80
    fill = np.uint8(0xFF) if negative else np.uint8(0)
    high = np.uint64(0xFFFFFFFFFFFFFFFF) if negative else np.uint64(0)
    low = high
    # The last 16 bytes are shifted through both halves; bytes before them may only repeat the sign.
    for index in range(length):
        if index < length - 16 and load_u8(base + at + index) != fill:
            fits = False
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(load_u8(base + at + index))
    if (high >= np.uint64(0x8000000000000000)) != negative:
        fits = False
    size_high, size_low = high, low
    if negative:
        size_low = ~low + np.uint64(1)
        size_high = ~high + (np.uint64(1) if size_low == 0 else np.uint64(0))
    bound_high, bound_low = POWER_HIGH[word(row, TARGET)], POWER_LOW[word(row, TARGET)]
    if size_high > bound_high or (size_high == bound_high and size_low >= bound_low):
        fits = False
    slot = memory + word(row, VALUES) + 16 * entry
    store_i64(slot, np.int64(low) if fits else np.int64(0))
    store_i64(slot + 8, np.int64(high) if fits else np.int64(0))
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(fits))
    return at + length, issue if fits else np.int64(DECIMAL_RANGE)


@inner
def hex_digit(byte):
    """The value of a lower-case hexadecimal digit, 255 for any other byte."""
    if 48 <= byte <= 57:
        return np.uint8(byte - 48)
    if 97 <= byte <= 102:
        return np.uint8(byte - 87)
    return np.uint8(255)


@inner
def read_uuid_text(base, at, end, row, memory, entry):
    """36 characters in RFC 4122's lower-case form to 16 bytes; null for any other text."""
    length, at, issue = read_length(base, at, end)
    if at < 0:
        return at, issue
    fits = length == 36
    out = word(row, VALUES) + 16 * entry
    position = at
    for index in range(16):
        value = np.uint8(0)
        if fits:
            if index in (4, 6, 8, 10):
                fits = load_u8(base + position) == 45
                position += 1
            high, low = hex_digit(load_u8(base + position)), hex_digit(load_u8(base + position + 1))
            position += 2
            fits = fits and high < 16 and low < 16
            value = np.uint8((high << 4) | low)
        store_u8(memory + out + index, value)
    if word(row, VALID) >= 0:
        store_u8(memory + word(row, VALID) + entry, np.uint8(fits))
    return at + length, issue if fits else np.int64(UUID_FORM)


@inner(forceinline=True)
def read_leaf(base, size, at, end, row, pool, pool_start, memory, entry):
    """One value of the operation's type into entry ``entry`` of its column: (position or negative, issue)."""
    operation = word(row, OPERATION)
    if operation in (STRING, BYTES):
        return read_string(base, size, at, end, row, memory, entry)
    if operation == LONG:
        value, at, issue = read_number(base, at, end)
        if word(row, PARAMETER) == NARROW and at >= 0 and (value < -(2**31) or value >= 2**31):
            return np.int64(BAD), np.int64(INT_TOO_WIDE)
        store_i64(memory + word(row, VALUES) + 8 * entry, np.int64(value))
        return at, issue
    if operation == INT:
        value, at, issue = read_number(base, at, end)
        if at >= 0 and (value < -(2**31) or value >= 2**31):
            return np.int64(BAD), np.int64(INT_TOO_WIDE)
        store_i32(memory + word(row, VALUES) + 4 * entry, np.int32(value))
        return at, issue
    if operation == ENUM:
        return read_enum(base, at, end, row, pool, pool_start, memory, entry)
    if operation in (TIMESTAMP_MILLIS, TIME_MILLIS, TIME_MICROS):
        return read_scaled(base, at, end, row, memory, entry)
    if operation in (DECIMAL_BYTES, DECIMAL_FIXED):
        return read_decimal(base, at, end, row, memory, entry)
    if operation == UUID_TEXT:
        return read_uuid_text(base, at, end, row, memory, entry)
    width = word(row, PARAMETER)
    if width > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    if operation == DOUBLE:
        bits = load_i64(base + at) if width != NARROW else double_of_float(np.int64(load_i32(base + at)))
        store_i64(memory + word(row, VALUES) + 8 * entry, bits)
        return at + width, np.int64(0)
    if operation == BOOLEAN:
        return read_boolean(base, at, row, memory, entry)
    # FLOAT and FIXED: the column holds the bytes as they are.
    copy(memory + word(row, VALUES) + width * entry, base + at, width)
    return at + width, np.int64(0)
