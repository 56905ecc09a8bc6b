"""What encode kernels of all formats share: the codes by which they stop, and the buffer that grows until all fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.kernels.memory import load_u8

Words: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]

NO_ROOM, NULL_FOUND, NO_SYMBOL, BAD_OFFSETS, BAD_INDEX, NOT_REPRESENTABLE, NO_COLUMN = -1, -2, -3, -4, -5, -6, -7

ENCODE_PROBLEM = {
    NULL_FOUND: "it is null, which its schema does not allow",
    NO_SYMBOL: "it holds a text that is no symbol of the enum",
    BAD_OFFSETS: "its offsets leave its data",
    BAD_INDEX: "it points outside of its dictionary",
    NOT_REPRESENTABLE: "it holds a value that its schema's type does not have",
    NO_COLUMN: "a value was read from it that no column holds",
}

# What a row is expected to take before any was written; a wrong guess costs one copy of what was written.
FIRST_GUESS_BYTES = 256


@njit(nogil=True, cache=True, forceinline=True)
def is_set(address, bit):  # type: ignore[no-untyped-def]
    return (load_u8(address + (bit >> 3)) >> np.uint8(bit & 7)) & 1 == 1


def encode_all(
    encode: Callable[[int, Bytes, Words, Words], int],
    describe: Callable[[int, int], str],
    *,
    row_count: int,
    room: int,
    out: Bytes,
    used: int,
) -> tuple[Bytes, Words]:
    """Run a kernel until all rows are written after the ``used`` bytes of ``out``, enlarging it where it is full.

    ``encode(done, out, ends, trouble)`` goes on at row ``done`` and returns how many are done then; ``trouble`` is
    (step, code). ``describe(row, step)`` names the place of what can't be encoded; ``room`` bytes are free when a
    kernel begins an operation. Returns (the buffer, perhaps a larger one; where each row's bytes lie,
    int64[row_count + 1]). Raises Corrupt for what decoding can't have made.
    """
    ends = np.empty(row_count + 1, np.int64)
    ends[0] = used
    trouble = np.zeros(2, np.int64)
    out = _enlarged(out, used, used + FIRST_GUESS_BYTES * row_count + room)
    done = 0
    while (done := encode(done, out, ends, trouble)) < row_count:
        step, code = trouble.tolist()
        if code != NO_ROOM:
            raise Corrupt(f"{describe(done, step)}: {ENCODE_PROBLEM[code]}")
        written = int(ends[done])
        expected = (written - used) * row_count // max(1, done)
        out = _enlarged(out, written, max(2 * len(out), used + expected + expected // 8))
    return out, ends


def _enlarged(out: Bytes, used: int, size_bytes: int) -> Bytes:
    if size_bytes <= len(out):
        return out
    larger = np.empty(size_bytes, np.uint8)
    larger[:used] = out[:used]
    return larger
