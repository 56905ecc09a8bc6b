"""The kernels that write the values of one CSV column as text: the one spelling that the parser calls exact."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.csv.calendar_kernels import FIRST_DAY, LAST_DAY, MICROSECONDS_A_DAY, date_of_days
from engine.formats.csv.dialect import AS_NEEDED, CsvKind
from engine.kernels.bits import bits_of_double, double_of_bits
from engine.kernels.doubles import shortest_digits
from engine.kernels.types import read_only, writable

_ZERO, _MINUS, _PLUS, _POINT, _COLON, _Z, _E = 0x30, 0x2D, 0x2B, 0x2E, 0x3A, 0x5A, 0x65
_TEN = np.uint64(10)
_BILLION = np.uint64(1_000_000_000)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SIGN_BIT = np.uint64(63)

DOUBLE_ROOM = 32
FIELD_ROOM = 48
"""Bytes that any field but a string fits in: a decimal has 38 digits, a zero before its point, a point and a sign."""

# As Python's repr: beyond these powers of ten a double has an exponent.
_LEAST_PLAIN, _MOST_PLAIN = -4, 16

_INT, _LONG, _DOUBLE, _BOOLEAN = int(CsvKind.INT), int(CsvKind.LONG), int(CsvKind.DOUBLE), int(CsvKind.BOOLEAN)
_DECIMAL, _DATE, _TIMESTAMPTZ = int(CsvKind.DECIMAL), int(CsvKind.DATE), int(CsvKind.TIMESTAMPTZ)


@njit(nogil=True, cache=True)
def _digit(value):
    """The last digit of an unsigned number, as a byte."""
    return np.uint8(np.int64(value % _TEN) + _ZERO)


@njit(nogil=True, cache=True)
def _write_digits(value, least, out, at):
    """An unsigned number in at least so many digits: behind its last one."""
    count = 1
    rest = value // _TEN
    while rest != 0:
        rest //= _TEN
        count += 1
    count = max(count, least)
    for index in range(at + count - 1, at - 1, -1):
        out[index] = _digit(value)
        value //= _TEN
    return at + count


@njit(nogil=True, cache=True)
def _write_word(out, at, first, second, third):
    out[at] = first
    out[at + 1] = second
    out[at + 2] = third
    return at + 3


@njit(nogil=True, cache=True)
def write_double(value, out, at):
    """As Python's ``repr``: the shortest digits that read as this double. Behind its last byte."""
    if np.isnan(value):
        return _write_word(out, at, 0x6E, 0x61, 0x6E)
    if bits_of_double(value) >> _SIGN_BIT:
        out[at] = _MINUS
        at += 1
        value = -value
    if np.isinf(value):
        return _write_word(out, at, 0x69, 0x6E, 0x66)
    if value == 0:
        return _write_word(out, at, _ZERO, _POINT, _ZERO)
    digits, power = shortest_digits(value)
    begin = at
    at = _write_digits(digits, 1, out, at)
    count = at - begin
    point = count + power
    if _LEAST_PLAIN < point <= _MOST_PLAIN:
        return _with_point(out, begin, count, point)
    if count > 1:
        for index in range(at, begin + 1, -1):
            out[index] = out[index - 1]
        out[begin + 1] = _POINT
        at += 1
    exponent = point - 1
    out[at] = _E
    out[at + 1] = _MINUS if exponent < 0 else _PLUS
    return _write_digits(np.uint64(abs(exponent)), 2, out, at + 2)


@njit(nogil=True, cache=True)
def _with_point(out, begin, count, point):
    """Put a point behind the digit ``point`` of the ``count`` that begin at ``begin``, zeros where there are none."""
    if point <= 0:
        zeros = 2 - point
        for index in range(begin + count - 1, begin - 1, -1):
            out[index + zeros] = out[index]
        for index in range(begin, begin + zeros):
            out[index] = _ZERO
        out[begin + 1] = _POINT
        return begin + zeros + count
    if point >= count:
        for index in range(begin + count, begin + point):
            out[index] = _ZERO
        out[begin + point] = _POINT
        out[begin + point + 1] = _ZERO
        return begin + point + 2
    for index in range(begin + count, begin + point, -1):
        out[index] = out[index - 1]
    out[begin + point] = _POINT
    return begin + count + 1


@njit(nogil=True, cache=True)
def _write_decimal(low, high, scale, out, at):
    if high >> _SIGN_BIT:
        out[at] = _MINUS
        at += 1
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    # The digits go to the far end of the field first, nine by nine from the lowest on.
    end = at + FIELD_ROOM - 1
    first = end
    while low != 0 or high != 0:
        left = high >> _HALF
        a = left // _BILLION
        left = ((left % _BILLION) << _HALF) | (high & _LOW_HALF)
        b = left // _BILLION
        left = ((left % _BILLION) << _HALF) | (low >> _HALF)
        c = left // _BILLION
        left = ((left % _BILLION) << _HALF) | (low & _LOW_HALF)
        d = left // _BILLION
        left = left % _BILLION
        high = (a << _HALF) | b
        low = (c << _HALF) | d
        for _ in range(9):
            if left == 0 and low == 0 and high == 0:
                break
            first -= 1
            out[first] = _digit(left)
            left //= _TEN
    while end - first <= scale:
        first -= 1
        out[first] = _ZERO
    for index in range(first, end):
        if index == end - scale:
            out[at] = _POINT
            at += 1
        out[at] = out[index]
        at += 1
    return at


@njit(nogil=True, cache=True)
def _write_date(days, out, at):
    year, month, day = date_of_days(days)
    at = _write_digits(np.uint64(year), 4, out, at)
    out[at] = _MINUS
    at = _write_digits(np.uint64(month), 2, out, at + 1)
    out[at] = _MINUS
    return _write_digits(np.uint64(day), 2, out, at + 1)


@njit(nogil=True, cache=True)
def _write_time(value, separator, fraction, has_zone, out, at):
    at = _write_date(value // MICROSECONDS_A_DAY, out, at)
    out[at] = separator
    rest = value % MICROSECONDS_A_DAY
    micros = rest % 1_000_000
    seconds = rest // 1_000_000
    at = _write_digits(np.uint64(seconds // 3600), 2, out, at + 1)
    out[at] = _COLON
    at = _write_digits(np.uint64(seconds // 60 % 60), 2, out, at + 1)
    out[at] = _COLON
    at = _write_digits(np.uint64(seconds % 60), 2, out, at + 1)
    places = fraction
    if fraction == AS_NEEDED:
        places = 0 if micros == 0 else 3 if micros % 1000 == 0 else 6
    if places > 0:
        out[at] = _POINT
        for _ in range(places, 6):
            micros //= 10
        at = _write_digits(np.uint64(micros), places, out, at + 1)
    if has_zone:
        out[at] = _Z
        at += 1
    return at


_WRITE = types.int64(
    types.int64,
    types.int64,
    types.int64,
    read_only(types.uint64),
    read_only(types.uint64),
    read_only(types.uint8),
    writable(types.uint8),
    writable(types.int64),
    writable(types.int32),
)


@njit(_WRITE, nogil=True, cache=True)
def write_fields(kind, fraction, separator, low, high, valid, out, start, length):
    """Write a column that is no string: the first row whose value has no text here, or -1. ``out`` has FIELD_ROOM
    bytes a row; rows that are not ``valid`` are null."""
    at = np.int64(0)
    for row in range(low.shape[0]):
        start[row] = at
        length[row] = -1
        if not valid[row]:
            continue
        begin = at
        number = np.int64(low[row])
        if kind in (_INT, _LONG):
            if number < 0:
                out[at] = _MINUS
                at = _write_digits(np.uint64(0) - low[row], 1, out, at + 1)
            else:
                at = _write_digits(low[row], 1, out, at)
        elif kind == _DOUBLE:
            at = write_double(double_of_bits(low[row]), out, at)
        elif kind == _DECIMAL:
            at = _write_decimal(low[row], high[row], fraction, out, at)
        elif kind == _BOOLEAN:
            text = (0x66, 0x61, 0x6C, 0x73, 0x65) if number == 0 else (0x74, 0x72, 0x75, 0x65, 0)
            size = 5 if number == 0 else 4
            for index in range(size):
                out[at + index] = text[index]
            at += size
        else:
            days = number if kind == _DATE else number // MICROSECONDS_A_DAY
            if days < FIRST_DAY or days > LAST_DAY:
                return np.int64(row)
            if kind == _DATE:
                at = _write_date(number, out, at)
            else:
                at = _write_time(number, separator, fraction, kind == _TIMESTAMPTZ, out, at)
        length[row] = np.int32(at - begin)
    return np.int64(-1)
