"""The grid of offsets that index entries and batch boundaries share, so that a sequential reader starts on an entry.

Entries are the multiples of a power of two, chosen for each row group so that 24 to 48 KiB of records lie between two.
It takes nothing but footers, gives the same grid after any restart, and the grids before and after compaction nest:
where the step differs, the entries of the coarser one are entries of the finer one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.reading.file_index import OpenFile
from engine.table.foreign.adopted_rows import AdoptedFile

LARGEST_INTERVAL_BYTES = 48 << 10
"""Between an index entry and the offset that was asked for lies at most about this much that is sent for nothing."""

LARGEST_STEP = 1 << 20
"""Where a range is nearly empty, entries cost less than a search through what little is there."""


def grid_steps(opened: OpenFile) -> NDArray[np.int64]:
    """The power of two between two entries in each row group: int64[groups]."""
    summaries = opened.summaries
    # What a row group weighs encoded tells how its records compare with the file's mean.
    weight = summaries.total_bytes / max(1, int(summaries.total_bytes.sum()))
    batch_bytes = weight * opened.record_bytes * opened.file.record_count
    ranges = [opened.group_range(group) for group in range(len(summaries))]
    offset_count = np.array([part.offset_count for part in ranges], np.float64)
    offsets_between = LARGEST_INTERVAL_BYTES * offset_count / np.maximum(batch_bytes, 1)
    exponent = np.floor(np.log2(np.clip(offsets_between, 1, LARGEST_STEP)))
    return np.left_shift(np.int64(1), exponent.astype(np.int64))


def grid_offsets(opened: OpenFile | AdoptedFile, wanted: OffsetRange) -> NDArray[np.int64]:
    """The entries of a file inside ``wanted``, rising: int64 offsets."""
    if isinstance(opened, AdoptedFile):
        return _even_grid(opened, wanted)
    steps = grid_steps(opened)
    parts = [np.empty(0, np.int64)]
    for group, step in enumerate(steps.tolist()):
        part = opened.group_range(group).intersection(wanted)
        if part is not None:
            first = -(-part.start // step) * step
            parts.append(np.arange(first, part.end, step, dtype=np.int64))
    return np.concatenate(parts)


def _even_grid(adopted: AdoptedFile, wanted: OffsetRange) -> NDArray[np.int64]:
    """One step for a whole adopted range: how its records lie in files says nothing of their sizes by offset."""
    file = adopted.file
    offsets_between = LARGEST_INTERVAL_BYTES * file.range.offset_count / max(file.size_bytes, 1)
    step = 1 << int(np.floor(np.log2(np.clip(offsets_between, 1, LARGEST_STEP))))
    part = file.range.intersection(wanted)
    if part is None:
        return np.empty(0, np.int64)
    return np.arange(-(-part.start // step) * step, part.end, step, dtype=np.int64)
