"""Which of many byte strings are not UTF-8."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.kernels.types import read_only, strided, writable
from engine.kernels.utf8 import is_utf8
from engine.records.records import ByteSpans

_FIND = types.int64(read_only(types.uint8), strided(types.int64), strided(types.int32), writable(types.uint8))


@njit(_FIND, nogil=True, cache=True)
def _find_invalid(data, start, length, invalid):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    base = data.ctypes.data
    for row in range(start.shape[0]):
        size = np.int64(length[row])
        invalid[row] = 0
        begin = start[row]
        inside = begin >= 0 and begin + size <= data.shape[0]
        if size > 0 and not (inside and is_utf8(base + begin, base + begin + size)):
            invalid[row] = 1
            count += 1
    return count


def rows_not_utf8(values: ByteSpans) -> NDArray[np.bool_]:
    """bool[n]: which strings are not valid UTF-8 (nulls and empty ones are)."""
    invalid = np.empty(len(values), np.uint8)
    _find_invalid(np.ascontiguousarray(values.data), values.start, values.length, invalid)
    return invalid.view(np.bool_)
