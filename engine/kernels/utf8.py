"""The kernel that tells valid UTF-8 from other bytes, by the same rule as Arrow and Python (RFC 3629)."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.kernels.inner import inner
from engine.kernels.memory import load_u8, load_u64


@inner
def is_utf8(start, end):
    """Whether the bytes between two addresses are UTF-8: no surrogate, no overlong form, nothing over U+10FFFF."""
    at = start
    while at < end:
        # Most text is ASCII, which eight bytes at once tell.
        while end - at >= 8 and load_u64(at) & np.uint64(0x8080808080808080) == 0:
            at += 8
        if at == end:
            break
        lead = load_u8(at)
        if lead < 0x80:
            at += 1
            continue
        low = np.uint8(0x80)
        high = np.uint8(0xBF)
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = np.uint8(0xA0)
            elif lead == 0xED:
                high = np.uint8(0x9F)
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = np.uint8(0x90)
            elif lead == 0xF4:
                high = np.uint8(0x8F)
        else:
            return False
        if at + more >= end or load_u8(at + 1) < low or load_u8(at + 1) > high:
            return False
        for index in range(2, more + 1):
            if load_u8(at + index) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True
