"""Numbers and booleans out of the text of a CSV field: the value, and whether the text is its own spelling."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.csv.format_kernels import write_double
from engine.kernels.doubles import nearest_double

_ZERO, _NINE, _MINUS, _PLUS, _POINT = 0x30, 0x39, 0x2D, 0x2B, 0x2E
_TEN = np.uint64(10)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MOST_DIGITS_OF_DOUBLE = 19
_MOST_EXPONENT = 100_000

BAD, SPELLED_OTHERWISE, EXACT = 0, 1, 2


@njit(nogil=True, cache=True)
def is_digit(byte):
    return _ZERO <= byte <= _NINE


@njit(nogil=True, cache=True)
def read_whole_number(data, at, end):
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
        if not is_digit(data[index]):
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
def read_decimal(data, at, end, digits, scale):
    """(how it was read, low and high 64 bits of the number without its point)."""
    low = np.uint64(0)
    high = np.uint64(0)
    state = EXACT
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        if not negative:
            state = SPELLED_OTHERWISE
        at += 1
    if at == end or not is_digit(data[at]) or data[end - 1] == _POINT:
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
        if not is_digit(byte):
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
def read_double(data, begin, end, scratch):
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
        elif is_digit(byte):
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
                if not is_digit(data[at]):
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
def read_boolean(data, at, end):
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
