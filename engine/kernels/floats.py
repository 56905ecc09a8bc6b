"""A float's bits as those of the double of the same value, and back: by bits, for a processor makes every NaN quiet.

Source: IEEE 754, binary32 (8 bits of exponent, biased by 127, 23 of fraction) and binary64 (11, by 1023, and 52):
exponents differ by 896, and fractions by 29 bits.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.kernels.inner import inner


@inner
def double_of_float(bits):
    sign = (bits & 0x80000000) << 32
    exponent = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    if exponent == 0:
        if fraction == 0:
            return sign
        # A subnormal float is a normal double: its leading one is shifted to where it need not be written.
        exponent = np.int64(1)
        while fraction < 0x800000:
            fraction <<= 1
            exponent -= 1
        fraction &= 0x7FFFFF
    wide = np.int64(0x7FF) if exponent == 0xFF else exponent + 896
    return sign | (wide << 52) | (fraction << 29)


@inner
def float_of_double(bits):
    """(a float's bits, whether the double is equal to one)."""
    sign = (bits >> 32) & 0x80000000
    exponent = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        return sign | 0x7F800000 | (fraction >> 29), fraction & 0x1FFFFFFF == 0
    if exponent == 0:
        return sign, fraction == 0
    exponent -= 896
    if exponent > 0:
        return sign | (exponent << 23) | (fraction >> 29), exponent < 255 and fraction & 0x1FFFFFFF == 0
    # A subnormal float, whose leading one is written out; nothing that is shifted out may be set.
    fraction |= np.int64(1) << 52
    shift = 30 - exponent
    if shift > 52:
        return sign, False
    return sign | (fraction >> shift), fraction & ((np.int64(1) << shift) - 1) == 0
