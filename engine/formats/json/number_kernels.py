"""Numbers of JSON text, and doubles spelled as the writers of JSON spell them.

Every writer spells the shortest digits that read as the same double; they differ in where they begin to use an
exponent and in how they write it: the traits.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.json.operations import (
    ENDS_EARLY,
    EXPONENT_AT_MINUS_4,
    EXPONENT_AT_MINUS_5,
    EXPONENT_AT_MINUS_6,
    EXPONENT_FROM_7,
    EXPONENT_FROM_16,
    EXPONENT_FROM_21,
    EXPONENT_FROM_MINUS_7,
    EXPONENT_PLUS,
    EXPONENT_POINT_ZERO,
    EXPONENT_TWO_DIGITS,
    NOT_JSON,
    NUMBER_RANGE,
    ODD_NUMBER,
    POINT_ZERO,
    UPPER_EXPONENT,
)
from engine.formats.json.string_kernels import BAD, note_no, note_yes
from engine.kernels.bits import bits_of_double
from engine.kernels.doubles import nearest_double, shortest_digits
from engine.kernels.inner import inner
from engine.kernels.memory import load_u8, store_u8

MINUS, PLUS, POINT, ZERO, NINE = 45, 43, 46, 48, 57
# No double's plain spelling is longer: a sign, 324 zeros, 17 digits.
LONGEST_NUMBER = 400
MOST_DIGITS = 19
LARGEST_EXPONENT = 100_000


@inner
def end_of_number(base, at, end):
    """By the grammar of RFC 8259: (position behind the number or BAD, whether it is an integer's; or the issue)."""
    if at < end and load_u8(base + at) == MINUS:
        at += 1
    if at >= end:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    byte = load_u8(base + at)
    if byte < ZERO or byte > NINE:
        return np.int64(BAD), np.int64(NOT_JSON)
    at += 1
    while byte != ZERO and at < end and ZERO <= load_u8(base + at) <= NINE:
        at += 1
    integer = np.int64(1)
    if at < end and load_u8(base + at) == POINT:
        integer = np.int64(0)
        begin = at + 1
        at = begin
        while at < end and ZERO <= load_u8(base + at) <= NINE:
            at += 1
        if at == begin:
            return np.int64(BAD), np.int64(NOT_JSON if at < end else ENDS_EARLY)
    if at < end and (load_u8(base + at) | 32) == 101:
        integer = np.int64(0)
        at += 1
        if at < end and load_u8(base + at) in (PLUS, MINUS):
            at += 1
        begin = at
        while at < end and ZERO <= load_u8(base + at) <= NINE:
            at += 1
        if at == begin:
            return np.int64(BAD), np.int64(NOT_JSON if at < end else ENDS_EARLY)
    return at, integer


@inner
def integer_of(base, at, stop):
    """(value, whether it is within 64 bits)."""
    negative = load_u8(base + at) == MINUS
    if negative:
        at += 1
    size = stop - at
    if size > MOST_DIGITS:
        return np.int64(0), False
    total = np.uint64(0)
    for index in range(size):
        total = total * np.uint64(10) + np.uint64(load_u8(base + at + index) - np.uint8(ZERO))
    if negative:
        return -np.int64(total), total <= np.uint64(1 << 63)
    return np.int64(total), total < np.uint64(1 << 63)


@inner
def double_of(base, at, stop, report, scratch):
    """A number's double: (value, issue). What its spelling shows is noted; ``scratch`` has LONGEST_NUMBER bytes."""
    begin = at
    negative = load_u8(base + at) == MINUS
    at += negative
    digits, count, power = np.uint64(0), np.int64(0), np.int64(0)
    pointed = False
    while at < stop:
        byte = load_u8(base + at)
        if byte == POINT:
            pointed = True
        elif byte < ZERO or byte > NINE:
            break
        elif count < MOST_DIGITS:
            digits = digits * np.uint64(10) + np.uint64(byte - np.uint8(ZERO))
            count += digits != 0
            power -= pointed
        else:
            power += not pointed
        at += 1
    mark = at
    exponent = np.int64(0)
    if at < stop:
        at += 1
        down = load_u8(base + at) == MINUS
        if load_u8(base + at) in (PLUS, MINUS):
            at += 1
        while at < stop:
            if exponent < LARGEST_EXPONENT:
                exponent = exponent * 10 + np.int64(load_u8(base + at)) - ZERO
            at += 1
        exponent = -exponent if down else exponent
    value = nearest_double(digits, power + exponent)
    if value == np.inf:
        return 0.0, np.int64(NUMBER_RANGE)
    value = -value if negative else value
    traits = note_spelling(base, mark, stop, pointed, value, report)
    size = write_double(scratch, value, traits)
    if size != stop - begin:
        return value, np.int64(ODD_NUMBER)
    for index in range(size):
        if load_u8(scratch + index) != load_u8(base + begin + index):
            return value, np.int64(ODD_NUMBER)
    return value, np.int64(0)


@inner
def digits_of(value):
    """(digits uint64, how many, the exponent of the first) of a finite double's size."""
    if value == 0.0:
        return np.uint64(0), np.int64(1), np.int64(0)
    digits, power = shortest_digits(abs(value))
    count = np.int64(1)
    rest = digits
    while rest >= np.uint64(10):
        rest //= np.uint64(10)
        count += 1
    return digits, count, power + count - 1


@inner
def exponent_trait(exponent):
    """The trait that decides whether a number of this size has an exponent; 0: it never has."""
    if exponent >= 21:
        return np.int64(EXPONENT_FROM_21)
    if exponent >= 16:
        return np.int64(EXPONENT_FROM_16)
    if exponent >= 7:
        return np.int64(EXPONENT_FROM_7)
    if exponent >= -3:
        return np.int64(0)
    if exponent == -4:
        return np.int64(EXPONENT_AT_MINUS_4)
    if exponent == -5:
        return np.int64(EXPONENT_AT_MINUS_5)
    return np.int64(EXPONENT_AT_MINUS_6 if exponent == -6 else EXPONENT_FROM_MINUS_7)


@inner
def note_spelling(base, mark, stop, pointed, value, report):
    """Notes what a double's spelling shows, its exponent being ``mark <= position < stop``; returns the traits shown.

    A spelling that is none of ours shows something too; whoever spells it again sees the difference.
    """
    _, count, exponent = digits_of(value)
    shown = np.int64(0)
    relevant = exponent_trait(exponent)
    if mark < stop:
        shown |= relevant
        relevant |= UPPER_EXPONENT
        if load_u8(base + mark) == 69:
            shown |= UPPER_EXPONENT
        if exponent > 0:
            relevant |= EXPONENT_PLUS
            if load_u8(base + mark + 1) == PLUS:
                shown |= EXPONENT_PLUS
        if -10 < exponent < 10:
            relevant |= EXPONENT_TWO_DIGITS
            if stop > mark + 2 and load_u8(base + stop - 2) == ZERO:
                shown |= EXPONENT_TWO_DIGITS
        if count == 1:
            relevant |= EXPONENT_POINT_ZERO
            if pointed:
                shown |= EXPONENT_POINT_ZERO
    elif exponent >= count - 1:
        relevant |= POINT_ZERO
        if pointed:
            shown |= POINT_ZERO
    note_yes(report, shown)
    note_no(report, relevant & ~shown)
    return shown


@inner
def write_unsigned(to, value):
    """Decimal digits at an address: the address behind them."""
    count = np.int64(1)
    rest = value
    while rest >= np.uint64(10):
        rest //= np.uint64(10)
        count += 1
    for index in range(count):
        quotient = value // np.uint64(10)
        store_u8(to + count - 1 - index, np.uint8(np.uint64(ZERO) + value - quotient * np.uint64(10)))
        value = quotient
    return to + count


@inner
def write_integer(to, value):
    if value < 0:
        store_u8(to, np.uint8(MINUS))
        return write_unsigned(to + 1, np.uint64(-value))
    return write_unsigned(to, np.uint64(value))


@inner
def write_zeros(to, count):
    for index in range(count):
        store_u8(to + index, np.uint8(ZERO))
    return to + count


@inner
def write_pointed(to, digits, count, whole):
    """``digits`` with a point behind the first ``whole`` of them: the address behind."""
    stop = write_unsigned(to, digits)
    for index in range(count - whole):
        store_u8(stop - index, load_u8(stop - index - 1))
    store_u8(to + whole, np.uint8(POINT))
    return stop + 1


@inner
def write_double(begin, value, traits):
    """A finite double as the traits say, at most LONGEST_NUMBER bytes at an address: how many."""
    to = begin
    if bits_of_double(value) >> np.uint64(63):
        store_u8(to, np.uint8(MINUS))
        to += 1
    digits, count, exponent = digits_of(value)
    if exponent_trait(exponent) & traits:
        return write_exponent(to, digits, count, exponent, traits) - begin
    if exponent >= count - 1:
        to = write_zeros(write_unsigned(to, digits), exponent - count + 1)
        if traits & POINT_ZERO:
            store_u8(to, np.uint8(POINT))
            store_u8(to + 1, np.uint8(ZERO))
            to += 2
    elif exponent >= 0:
        to = write_pointed(to, digits, count, exponent + 1)
    else:
        store_u8(to, np.uint8(ZERO))
        store_u8(to + 1, np.uint8(POINT))
        to = write_unsigned(write_zeros(to + 2, -exponent - 1), digits)
    return to - begin


@inner
def write_exponent(to, digits, count, exponent, traits):
    if count > 1:
        to = write_pointed(to, digits, count, np.int64(1))
    else:
        to = write_unsigned(to, digits)
        if traits & EXPONENT_POINT_ZERO:
            store_u8(to, np.uint8(POINT))
            store_u8(to + 1, np.uint8(ZERO))
            to += 2
    store_u8(to, np.uint8(69 if traits & UPPER_EXPONENT else 101))
    to += 1
    if exponent < 0:
        store_u8(to, np.uint8(MINUS))
        to += 1
    elif traits & EXPONENT_PLUS:
        store_u8(to, np.uint8(PLUS))
        to += 1
    size = abs(exponent)
    if size < 10 and traits & EXPONENT_TWO_DIGITS:
        store_u8(to, np.uint8(ZERO))
        to += 1
    return write_unsigned(to, np.uint64(size))
