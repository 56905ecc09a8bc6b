"""The kernels that read the fields of one CSV column: strings, numbers, dates and times out of text.

Each tells a text that is the value's own spelling from one that can be read but would be written otherwise.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats import csv_operations as op
from engine.formats.csv_calendar_kernels import MICROSECONDS_A_DAY, days_in_month, days_of_date
from engine.formats.csv_dialect import AS_NEEDED, CsvKind
from engine.formats.csv_format_kernels import DOUBLE_ROOM, write_double
from engine.formats.double_kernels import nearest_double
from engine.formats.memory_kernels import copy_text
from engine.formats.utf8_kernels import is_utf8
from engine.formats.wide_multiply import bits_of_double
from engine.kernel_types import read_only, writable

_QUOTE, _SPACE, _ZERO, _NINE, _MINUS, _PLUS, _POINT = 0x22, 0x20, 0x30, 0x39, 0x2D, 0x2B, 0x2E
_COLON, _T, _Z = 0x3A, 0x54, 0x5A
_TEN = np.uint64(10)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MOST_DIGITS_OF_DOUBLE = 19
_MOST_EXPONENT = 100_000

BAD, SPELLED_OTHERWISE, EXACT = 0, 1, 2

_STRING, _INT, _LONG, _DOUBLE = int(CsvKind.STRING), int(CsvKind.INT), int(CsvKind.LONG), int(CsvKind.DOUBLE)
_BOOLEAN, _DECIMAL, _DATE = int(CsvKind.BOOLEAN), int(CsvKind.DECIMAL), int(CsvKind.DATE)
_TIMESTAMPTZ = int(CsvKind.TIMESTAMPTZ)

_TAKE = types.int64(
    read_only(types.uint8),
    read_only(types.int64),
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    writable(types.int32),
    writable(types.uint8),
    writable(types.uint8),
    writable(types.int32),
)


@njit(_TAKE, nogil=True, cache=True)
def take_texts(data, start, length, flags, column, offsets, out, valid, issue):
    """Copy a string column's fields behind each other, doubled quotes made single: how many bytes. ``out`` has SLACK
    bytes behind the sum of the lengths; ``start`` and ``length`` lie in ``data``."""
    base = data.ctypes.data
    to = out.ctypes.data
    used = np.int64(0)
    for row in range(start.shape[0]):
        offsets[row] = used
        size = np.int64(length[row])
        valid[row] = size >= 0
        if size < 0:
            continue
        begin = start[row]
        if flags[row] & op.ESCAPED:
            at = begin
            written = used
            while at < begin + size:
                out[written] = data[at]
                written += 1
                at += 2 if data[at] == _QUOTE else 1
            size = written - used
            not_ascii = True
        else:
            not_ascii = copy_text(to + used, base + begin, size, data.shape[0] - begin)
        if not_ascii and not is_utf8(to + used, to + used + size):
            valid[row] = 0
            if issue[row] == 0:
                issue[row] = np.int32(op.NOT_UTF8 | (column << op.CODE_BITS))
            continue
        used += size
    offsets[start.shape[0]] = used
    return used


@njit(nogil=True, cache=True)
def _is_digit(byte):
    return _ZERO <= byte <= _NINE


@njit(nogil=True, cache=True)
def _whole_number(data, at, end):
    """(how it was read, the number): at most 64 bits."""
    state = EXACT
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        if not negative:
            state = SPELLED_OTHERWISE
        at += 1
    if at == end:
        return BAD, np.int64(0)
    if data[at] == _ZERO and (end - at > 1 or negative):
        state = SPELLED_OTHERWISE
    value = np.uint64(0)
    for index in range(at, end):
        if not _is_digit(data[index]):
            return BAD, np.int64(0)
        digit = np.uint64(data[index] - _ZERO)
        if value > np.uint64(922337203685477580):
            return BAD, np.int64(0)
        value = value * _TEN + digit
    if value > np.uint64(2**63 - 1) + np.uint64(negative):
        return BAD, np.int64(0)
    return state, np.int64(-np.int64(value) if negative else np.int64(value))


@njit(nogil=True, cache=True)
def _ten_times(low, high, digit):
    """A 128-bit number times ten, and a digit."""
    first = (low & _LOW_HALF) * _TEN + digit
    second = (low >> _HALF) * _TEN + (first >> _HALF)
    return (second << _HALF) | (first & _LOW_HALF), high * _TEN + (second >> _HALF)


@njit(nogil=True, cache=True)
def _decimal(data, at, end, digits, scale):
    """(how it was read, low and high 64 bits of the number without its point)."""
    low = np.uint64(0)
    high = np.uint64(0)
    state = EXACT
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        if not negative:
            state = SPELLED_OTHERWISE
        at += 1
    if at == end or not _is_digit(data[at]) or data[end - 1] == _POINT:
        return BAD, low, high
    if at + 1 < end and data[at] == _ZERO and data[at + 1] != _POINT:
        state = SPELLED_OTHERWISE
    significant = 0
    places = -1
    for index in range(at, end):
        byte = data[index]
        if byte == _POINT and places < 0:
            places = 0
            continue
        if not _is_digit(byte):
            return BAD, low, high
        if places >= 0:
            places += 1
        if places > scale:
            # Digits behind the column's last one say nothing, or more than it can hold.
            if byte != _ZERO:
                return BAD, low, high
            continue
        if significant > 0 or byte != _ZERO:
            significant += 1
            if significant > digits:
                return BAD, low, high
            low, high = _ten_times(low, high, np.uint64(byte - _ZERO))
    places = max(places, 0)
    if places != scale:
        state = SPELLED_OTHERWISE
    if significant > 0:
        if significant + scale - min(places, scale) > digits:
            return BAD, low, high
        for _ in range(places, scale):
            low, high = _ten_times(low, high, np.uint64(0))
    if negative:
        if significant == 0:
            state = SPELLED_OTHERWISE
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    return state, low, high


@njit(nogil=True, cache=True)
def _letter(data, at):
    """A letter in lower case."""
    return data[at] | 0x20


@njit(nogil=True, cache=True)
def _named_double(data, at, end):
    """(whether it is nan or an infinity, the number), in any case, as Python and Java write them."""
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        at += 1
    size = end - at
    if size == 3 and _letter(data, at) == 0x6E and _letter(data, at + 1) == 0x61 and _letter(data, at + 2) == 0x6E:
        return True, np.nan
    is_infinity = size in (3, 8) and _letter(data, at) == 0x69
    if is_infinity and _letter(data, at + 1) == 0x6E and _letter(data, at + 2) == 0x66:
        rest = (0x69, 0x6E, 0x69, 0x74, 0x79)
        for index in range(size - 3):
            if _letter(data, at + 3 + index) != rest[index]:
                return False, 0.0
        return True, -np.inf if negative else np.inf
    return False, 0.0


@njit(nogil=True, cache=True)
def _double(data, begin, end, scratch):
    """(how it was read, the number)."""
    at = begin
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        at += 1
    digits = np.uint64(0)
    taken = 0
    power = np.int64(0)
    seen = 0
    has_point = False
    exact = True
    while at < end:
        byte = data[at]
        if byte == _POINT and not has_point:
            has_point = True
        elif _is_digit(byte):
            seen += 1
            if taken < _MOST_DIGITS_OF_DOUBLE:
                digits = digits * _TEN + np.uint64(byte - _ZERO)
                taken += 1 if digits != 0 else 0
                power -= 1 if has_point else 0
            else:
                exact = exact and byte == _ZERO
                power += 0 if has_point else 1
        else:
            break
        at += 1
    if seen == 0:
        is_named, value = _named_double(data, begin, end)
        if not is_named:
            return BAD, 0.0
    else:
        if at < end:
            if _letter(data, at) != 0x65 or at + 1 == end:
                return BAD, 0.0
            at += 1
            is_small = data[at] == _MINUS
            if is_small or data[at] == _PLUS:
                at += 1
            if at == end:
                return BAD, 0.0
            exponent = 0
            while at < end:
                if not _is_digit(data[at]):
                    return BAD, 0.0
                if exponent < _MOST_EXPONENT:
                    exponent = exponent * 10 + (data[at] - _ZERO)
                at += 1
            power += -exponent if is_small else exponent
        value = nearest_double(digits, power)
        if not exact and nearest_double(digits + np.uint64(1), power) != value:
            # The digits left out decide, and are not looked at: no program writes a double so.
            return BAD, 0.0
        if np.isinf(value):
            return BAD, 0.0
        if negative:
            value = -value
    size = write_double(value, scratch, 0)
    if size != end - begin:
        return SPELLED_OTHERWISE, value
    for index in range(size):
        if scratch[index] != data[begin + index]:
            return SPELLED_OTHERWISE, value
    return EXACT, value


@njit(nogil=True, cache=True)
def _boolean(data, at, end):
    size = end - at
    texts = (0x74, 0x72, 0x75, 0x65, 0x66, 0x61, 0x6C, 0x73, 0x65)
    if size not in (4, 5):
        return BAD, np.int64(0)
    first = 0 if size == 4 else 4
    state = EXACT
    for index in range(size):
        if _letter(data, at + index) != texts[first + index]:
            return BAD, np.int64(0)
        if data[at + index] != texts[first + index]:
            state = SPELLED_OTHERWISE
    return state, np.int64(size == 4)


@njit(nogil=True, cache=True)
def _number_at(data, at, size):
    """The number that ``size`` digits are, or -1."""
    value = np.int64(0)
    for index in range(at, at + size):
        if not _is_digit(data[index]):
            return np.int64(-1)
        value = value * 10 + np.int64(data[index] - _ZERO)
    return value


@njit(nogil=True, cache=True)
def _date(data, at, end):
    """(whether it begins with a date, days since 1970)."""
    if end - at < 10 or data[at + 4] != _MINUS or data[at + 7] != _MINUS:
        return False, np.int64(0)
    year, month, day = _number_at(data, at, 4), _number_at(data, at + 5, 2), _number_at(data, at + 8, 2)
    if year < 1 or month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
        return False, np.int64(0)
    return True, days_of_date(year, month, day)


@njit(nogil=True, cache=True)
def _time(data, at, end, separator, fraction, has_zone):
    """(how it was read, microseconds since 1970)."""
    is_date, days = _date(data, at, end)
    if not is_date or end - at < 19 or data[at + 13] != _COLON or data[at + 16] != _COLON:
        return BAD, np.int64(0)
    state = EXACT if data[at + 10] == separator else SPELLED_OTHERWISE
    if data[at + 10] != _T and data[at + 10] != _SPACE:
        return BAD, np.int64(0)
    hour, minute, second = _number_at(data, at + 11, 2), _number_at(data, at + 14, 2), _number_at(data, at + 17, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return BAD, np.int64(0)
    at += 19
    micros = np.int64(0)
    places = np.int64(0)
    if at < end and data[at] == _POINT:
        at += 1
        while at < end and _is_digit(data[at]):
            digit = np.int64(data[at] - _ZERO)
            if places < 6:
                micros = micros * 10 + digit
            elif digit != 0:
                return BAD, np.int64(0)
            places += 1
            at += 1
        if places == 0:
            return BAD, np.int64(0)
    for _ in range(places, 6):
        micros *= 10
    needed = fraction
    if fraction == AS_NEEDED:
        needed = 0 if micros == 0 else 3 if micros % 1000 == 0 else 6
    if places != needed:
        state = SPELLED_OTHERWISE
    value = days * MICROSECONDS_A_DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    if not has_zone:
        return (state, value) if at == end else (BAD, np.int64(0))
    if at + 1 == end and data[at] == _Z:
        return state, value
    if at + 6 != end or data[at + 3] != _COLON or (data[at] != _PLUS and data[at] != _MINUS):
        return BAD, np.int64(0)
    hours, minutes = _number_at(data, at + 1, 2), _number_at(data, at + 4, 2)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return BAD, np.int64(0)
    offset = (hours * 60 + minutes) * 60_000_000
    return SPELLED_OTHERWISE, value + (offset if data[at] == _MINUS else -offset)


_READ = types.void(
    types.int64,
    types.int64,
    types.int64,
    types.int64,
    read_only(types.uint8),
    read_only(types.int64),
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    writable(types.uint64),
    writable(types.uint64),
    writable(types.uint8),
    writable(types.int32),
)


@njit(_READ, nogil=True, cache=True)
def read_fields(kind, digits, fraction, separator, data, start, length, flags, column, low, high, valid, issue):
    """Read a column that is no string: each value's bits to ``low``, a decimal's upper ones to ``high``."""
    scratch = np.empty(DOUBLE_ROOM, np.uint8)
    for row in range(start.shape[0]):
        valid[row] = 0
        low[row] = 0
        high[row] = 0
        size = np.int64(length[row])
        if size < 0:
            continue
        at = start[row]
        end = at + size
        trimmed = False
        while at < end and data[at] == _SPACE:
            at += 1
            trimmed = True
        while end > at and data[end - 1] == _SPACE:
            end -= 1
            trimmed = True
        state = BAD
        if at < end and not flags[row] & op.ESCAPED:
            if kind in (_INT, _LONG):
                state, number = _whole_number(data, at, end)
                if kind == _INT and (number > 2**31 - 1 or number < -(2**31)):
                    state = BAD
                low[row] = np.uint64(number)
            elif kind == _DECIMAL:
                state, low[row], high[row] = _decimal(data, at, end, digits, fraction)
            elif kind == _DOUBLE:
                state, value = _double(data, at, end, scratch)
                low[row] = bits_of_double(value)
            elif kind == _BOOLEAN:
                state, number = _boolean(data, at, end)
                low[row] = np.uint64(number)
            elif kind == _DATE:
                is_date, number = _date(data, at, end)
                state = EXACT if is_date and end - at == 10 else BAD
                low[row] = np.uint64(number)
            else:
                state, number = _time(data, at, end, separator, fraction, kind == _TIMESTAMPTZ)
                low[row] = np.uint64(number)
        valid[row] = state != BAD
        if (state != EXACT or trimmed) and issue[row] == 0:
            code = op.NOT_OF_TYPE if state == BAD else op.SPELLING
            issue[row] = np.int32(code | (column << op.CODE_BITS))
