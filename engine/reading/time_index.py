"""The time index of a range of offsets, from the bounds of the table's pages.

Kafka's lookup (TimeIndex.lookup, RemoteLogManager.lookupTimestamp) takes the last entry whose timestamp is <= t and
searches forward from its offset for the first record with a timestamp >= t. So an entry (T, o) is right when no record
before o has a timestamp >= T; timestamps out of order make entries rarer, never wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.parquet.page_index import PageBounds, read_page_bounds
from engine.reading.file_index import OpenFile
from engine.table.columns import MILLISECONDS_KEPT, US_PER_MS, TableLayout

NEVER = np.iinfo(np.int64).max
"""A bound that no timestamp passes: nothing is known of a page's timestamps."""


def latest_by_offset(
    opened: OpenFile, layout: TableLayout, wanted: OffsetRange
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first offset, latest timestamp in ms) of each page of a file that overlaps ``wanted``: int64[n] each, by offset.

    Pages of a window overlap: what comes before one's first offset is in those that begin before it. A page whose
    latest timestamp isn't known has NEVER. Where a file has no page index, row groups stand for pages. One read of the
    page index. Raises Corrupt, Unavailable.
    """
    first = opened.window_of_offset(wanted.start)
    end = max(first, int(np.searchsorted(opened.windows.first_offset, wanted.end, "left")))
    groups = [opened.footer.row_group(index) for index in range(opened.starts[first], opened.starts[end])]
    offsets = read_page_bounds(opened.source, groups, layout.offset)
    timestamps = read_page_bounds(opened.source, groups, layout.timestamp)
    kinds = read_page_bounds(opened.source, groups, layout.timestamp_type)
    first_offset: list[NDArray[np.int64]] = []
    latest_ms: list[NDArray[np.int64]] = []
    for at, group in enumerate(groups):
        offset, timestamp, kind = offsets[at], timestamps[at], kinds[at]
        if offset is not None and timestamp is not None and len(offset.smallest) == len(timestamp.largest):
            first_offset.append(offset.smallest)
            latest_ms.append(_milliseconds(timestamp.largest, kind))
        else:
            chunk = group.chunk_of(layout.timestamp)
            bounds = None if chunk is None else chunk.int_bounds
            latest = np.array([NEVER if bounds is None else bounds[1]], np.int64)
            first_offset.append(np.array(group.int_bounds(layout.offset)[:1], np.int64))
            latest_ms.append(latest if bounds is None else _milliseconds(latest, kind))
    if not groups:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first_offsets = np.concatenate(first_offset)
    by_offset = np.argsort(first_offsets, kind="stable")
    return first_offsets[by_offset], np.concatenate(latest_ms)[by_offset]


def entries(
    first_offset: NDArray[np.int64], latest_ms: NDArray[np.int64], wanted: OffsetRange
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(timestamp_ms, relative offset), both strictly rising: int64[n] each.

    A page gets an entry when the pages before it are all older than some later record: with the smallest timestamp
    that none of them has, one above their latest.
    """
    before = np.maximum.accumulate(latest_ms)
    inside = (first_offset[1:] > wanted.start) & (first_offset[1:] < wanted.end) & (before[:-1] < NEVER)
    timestamp = before[:-1][inside] + 1
    offset = first_offset[1:][inside] - wanted.start
    # Of several pages after the same latest timestamp the last starts the shortest search.
    last = np.append(timestamp[1:] != timestamp[:-1], True)[: len(timestamp)]
    return timestamp[last], offset[last]


def _milliseconds(microseconds: NDArray[np.int64], kind: PageBounds | None) -> NDArray[np.int64]:
    milliseconds = microseconds // US_PER_MS
    if kind is None or len(kind.largest) != len(microseconds):
        return np.full(len(microseconds), NEVER, np.int64)
    # Such a page mixes two units in its bounds.
    return np.where(kind.largest >= MILLISECONDS_KEPT, NEVER, milliseconds)
