"""Dates and times out of the text of a CSV field: the value, and whether the text is its own spelling."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.csv.calendar_kernels import MICROSECONDS_A_DAY, days_in_month, days_of_date
from engine.formats.csv.dialect import AS_NEEDED
from engine.formats.csv.number_kernels import BAD, EXACT, SPELLED_OTHERWISE, is_digit

_SPACE, _ZERO, _MINUS, _PLUS, _POINT, _COLON, _T, _Z = 0x20, 0x30, 0x2D, 0x2B, 0x2E, 0x3A, 0x54, 0x5A


@njit(nogil=True, cache=True)
def _number_at(data, at, size):
    """The number that ``size`` digits are, or -1."""
    value = np.int64(0)
    for index in range(at, at + size):
        if not is_digit(data[index]):
            return np.int64(-1)
        value = value * 10 + np.int64(data[index] - _ZERO)
    return value


@njit(nogil=True, cache=True)
def read_date(data, at, end):
    """(whether it begins with a date, days since 1970)."""
    if end - at < 10 or data[at + 4] != _MINUS or data[at + 7] != _MINUS:
        return False, np.int64(0)
    year, month, day = _number_at(data, at, 4), _number_at(data, at + 5, 2), _number_at(data, at + 8, 2)
    if year < 1 or month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
        return False, np.int64(0)
    return True, days_of_date(year, month, day)


@njit(nogil=True, cache=True)
def read_time(data, at, end, separator, fraction, has_zone):
    """(how it was read, microseconds since 1970)."""
    is_date, days = read_date(data, at, end)
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
        while at < end and is_digit(data[at]):
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
