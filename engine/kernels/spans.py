"""The kernels over byte spans: gather scattered strings into one buffer, and find those that are not UTF-8."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.kernels.types import read_only, strided, writable
from engine.kernels.utf8 import is_utf8

_GATHER = types.int64(
    read_only(types.uint8), strided(types.int64), strided(types.int32), writable(types.int64), writable(types.uint8)
)


@njit(_GATHER, nogil=True, cache=True)
def _gather(data, start, length, offsets, out):
    at = np.int64(0)
    nulls = np.int64(0)
    for row in range(start.shape[0]):
        offsets[row] = at
        size = np.int64(length[row])
        if size < 0:
            nulls += 1
            continue
        source = start[row]
        for index in range(size):
            out[at + index] = data[source + index]
        at += size
    offsets[start.shape[0]] = at
    return nulls


def gather_spans(
    data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Copy the spans one after another: (offsets int64[n + 1], bytes uint8, how many are null)."""
    total = int(np.maximum(length, 0).sum(dtype=np.int64))
    offsets = np.empty(len(start) + 1, np.int64)
    out = np.empty(total, np.uint8)
    nulls = _gather(np.ascontiguousarray(data), start, length, offsets, out)
    return offsets, out, int(nulls)


_FIND = types.void(read_only(types.uint8), strided(types.int64), strided(types.int32), writable(types.uint8))


@njit(_FIND, nogil=True, cache=True)
def _find_invalid(data, start, length, invalid):
    base = data.ctypes.data
    for row in range(start.shape[0]):
        size = np.int64(length[row])
        invalid[row] = 0
        begin = start[row]
        inside = begin >= 0 and begin + size <= data.shape[0]
        if size > 0 and not (inside and is_utf8(base + begin, base + begin + size)):
            invalid[row] = 1


def spans_not_utf8(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool[n]: which spans are not valid UTF-8 (nulls and empty ones are)."""
    invalid = np.empty(len(start), np.uint8)
    _find_invalid(np.ascontiguousarray(data), start, length, invalid)
    return invalid.view(np.bool_)
