"""Kafka's on-disk index formats, as the broker wants them from tiered storage.

Offset index: entries of int32 relative offset, int32 position. Time index: entries of int64 timestamp (ms), int32
relative offset. Big-endian, rising, nothing else in the file (Kafka's OffsetIndex and TimeIndex). Positions are
relative offsets here, see docs/log_door.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFFSET_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp_ms", ">i8"), ("relative_offset", ">i4")])
_MAX_RELATIVE_OFFSET = 2**31 - 1


def offset_index_bytes(grid: NDArray[np.int64]) -> bytes:
    """``grid``: strictly rising relative offsets, int64[n], each above 0 and below 2^31."""
    assert _rises(grid, strictly=True), "the grid of an offset index rises"
    assert not len(grid) or (grid[0] > 0 and grid[-1] <= _MAX_RELATIVE_OFFSET), "a segment spans at most 2^31 offsets"
    entries = np.empty(len(grid), OFFSET_ENTRY)
    entries["relative_offset"] = grid
    entries["position"] = grid
    return entries.tobytes()


def time_index_bytes(timestamp_ms: NDArray[np.int64], relative_offset: NDArray[np.int64]) -> bytes:
    """``timestamp_ms`` int64[n] strictly rising, ``relative_offset`` int64[n] not falling: no record before an entry's
    offset has its timestamp or a later one."""
    assert _rises(timestamp_ms, strictly=True), "the timestamps of a time index rise"
    assert _rises(relative_offset, strictly=False), "the offsets of a time index rise"
    entries = np.empty(len(timestamp_ms), TIME_ENTRY)
    entries["timestamp_ms"] = timestamp_ms
    entries["relative_offset"] = relative_offset
    return entries.tobytes()


def _rises(values: NDArray[np.int64], *, strictly: bool) -> bool:
    return bool(np.all(values[1:] > values[:-1]) if strictly else np.all(values[1:] >= values[:-1]))
