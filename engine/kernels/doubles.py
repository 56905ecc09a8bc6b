"""Decimal digits to the nearest double, and a double to the shortest digits that are nearest to it alone.

Sources: W. D. Clinger, "How to read floating point numbers accurately" (1990); D. Lemire, "Number parsing at a gigabyte
per second" (2021); R. Giulietti, "The Schubfach way to render doubles" (2020).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.kernels.bits import bits_of_double, double_of_bits, leading_zeros, multiply_high
from engine.kernels.inner import inner

_LEAST_POWER, _GREATEST_POWER = -342, 308
_LEAST_TEN, _GREATEST_TEN = -292, 324


def _power_of_five(power: int) -> int:
    """The first 128 bits of 5**power: cut off for positive powers, rounded up for negative ones."""
    if power >= 0:
        five: int = 5**power
        shift = five.bit_length() - 128
        return five >> shift if shift > 0 else five << -shift
    five = int(5**-power)
    bits = five.bit_length() + 127
    return (1 << bits) // five + 1


def _power_of_ten(power: int) -> int:
    """The first 128 bits of 10**power, rounded up."""
    if power >= 0:
        ten: int = 10**power
        shift = ten.bit_length() - 128
        return -(-ten >> shift) if shift > 0 else ten << -shift
    ten = int(10**-power)
    bits = ten.bit_length() + 127
    return -(-(1 << bits) // ten)


_MASK = 2**64 - 1
_FIVES = [_power_of_five(power) for power in range(_LEAST_POWER, _GREATEST_POWER + 1)]
_TENS = [_power_of_ten(power) for power in range(_LEAST_TEN, _GREATEST_TEN + 1)]
FIVE_HIGH = np.array([five >> 64 for five in _FIVES], np.uint64)
FIVE_LOW = np.array([five & _MASK for five in _FIVES], np.uint64)
TEN_HIGH = np.array([ten >> 64 for ten in _TENS], np.uint64)
TEN_LOW = np.array([ten & _MASK for ten in _TENS], np.uint64)
EXACT_TEN = np.array([10.0**power for power in range(23)])

HIDDEN = np.uint64(1 << 52)
INFINITE = np.uint64(0x7FF0000000000000)


@inner
def nearest_double(digits, power):
    """The double nearest to ``digits`` * 10**``power``, infinite where it is too large. ``digits`` uint64."""
    if digits < np.uint64(1 << 53) and -22 <= power <= 22:
        if power < 0:
            return np.float64(digits) / EXACT_TEN[-power]
        return np.float64(digits) * EXACT_TEN[power]
    if digits == 0 or power < _LEAST_POWER:
        return 0.0
    if power > _GREATEST_POWER:
        return double_of_bits(INFINITE)
    zeros = leading_zeros(digits)
    shifted = digits << zeros
    high = multiply_high(shifted, FIVE_HIGH[power - _LEAST_POWER])
    low = shifted * FIVE_HIGH[power - _LEAST_POWER]
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = multiply_high(shifted, FIVE_LOW[power - _LEAST_POWER])
        low += more
        if more > low:
            high += np.uint64(1)
    upper = high >> np.uint64(63)
    mantissa = high >> (upper + np.uint64(9))
    exponent = ((np.int64(217706) * power) >> 16) + 63 + np.int64(upper) - np.int64(zeros) + 1023
    if exponent <= 0:
        if 1 - exponent >= 64:
            return 0.0
        mantissa >>= np.uint64(1 - exponent)
        mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
        return double_of_bits(mantissa)
    halfway = low <= np.uint64(1) and -4 <= power <= 23 and mantissa & np.uint64(3) == np.uint64(1)
    if halfway and mantissa << (upper + np.uint64(9)) == high:
        mantissa &= ~np.uint64(1)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= HIDDEN << np.uint64(1):
        mantissa = HIDDEN
        exponent += 1
    if exponent >= 0x7FF:
        return double_of_bits(INFINITE)
    return double_of_bits((mantissa & ~HIDDEN) | (np.uint64(exponent) << np.uint64(52)))


@inner(forceinline=True)
def round_to_odd(high, low, value):
    """The upper 64 bits of a 128-bit factor times a number, its last bit set where anything was cut off."""
    upper = multiply_high(high, value)
    middle = high * value
    carried = middle + multiply_high(low, value)
    if carried < middle:
        upper += np.uint64(1)
    return upper | np.uint64(carried > np.uint64(1))


@inner
def shortest_digits(value):
    """(digits uint64, power): the shortest of the decimals that read as this positive finite double, the nearest of
    those; without zeros at its end."""
    bits = bits_of_double(value)
    fraction = bits & (HIDDEN - np.uint64(1))
    biased = np.int64(bits >> np.uint64(52))
    if biased != 0:
        mantissa = HIDDEN | fraction
        exponent = biased - 1075
        if -53 < exponent <= 0 and mantissa & ((np.uint64(1) << np.uint64(-exponent)) - np.uint64(1)) == 0:
            return without_zeros(mantissa >> np.uint64(-exponent), np.int64(0))
    else:
        mantissa = fraction
        exponent = np.int64(-1074)
    closer = fraction == 0 and biased > 1
    odd = mantissa & np.uint64(1)
    power = (exponent * 1262611 - (524031 if closer else 0)) >> 22
    shift = np.uint64(exponent + ((-power * 1741647) >> 19) + 1)
    high, low = TEN_HIGH[-power - _LEAST_TEN], TEN_LOW[-power - _LEAST_TEN]
    middle = mantissa << np.uint64(2)
    lower = round_to_odd(high, low, (middle - np.uint64(1 if closer else 2)) << shift) + odd
    scaled = round_to_odd(high, low, middle << shift)
    upper = round_to_odd(high, low, (middle + np.uint64(2)) << shift) - odd
    whole = scaled >> np.uint64(2)
    if whole >= np.uint64(10):
        tens = whole // np.uint64(10)
        below = lower <= np.uint64(40) * tens
        above = np.uint64(40) * tens + np.uint64(40) <= upper
        if below != above:
            return without_zeros(tens + np.uint64(above), power + 1)
    below = lower <= whole << np.uint64(2)
    above = (whole << np.uint64(2)) + np.uint64(4) <= upper
    if below != above:
        return without_zeros(whole + np.uint64(above), power)
    half = (whole << np.uint64(2)) + np.uint64(2)
    up = scaled > half or (scaled == half and whole & np.uint64(1) != 0)
    return without_zeros(whole + np.uint64(up), power)


@inner
def without_zeros(digits, power):
    while digits >= np.uint64(10) and digits % np.uint64(10) == 0:
        digits //= np.uint64(10)
        power += 1
    return digits, np.int64(power)
