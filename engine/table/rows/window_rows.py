"""Rows sorted into bucketed windows, and windows put back into offset order: Arrow tables, whatever their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.parquet.row_counts import ROW_GROUP_ROWS


def row_groups_of(window: pa.Table, columns: Sequence[str], count: int) -> Iterator[pa.Table]:
    """A window's rows (in offset order) as ``count`` row groups: sorted by ``columns``, nulls last, cut evenly, and
    each cut put back into offset order.

    Memory: the window twice, its rows' new places, and one row group.
    """
    if count <= 1:
        yield window
        return
    # Of chunks each would be looked for in all of them; no string column passes 2 GiB here (WINDOW_BYTES).
    window = window.combine_chunks()
    keys = [(name, "ascending", "at_end") for name in columns]
    order = pc.sort_indices(window.select(list(columns)), sort_keys=keys).to_numpy()
    for bucket in np.array_split(order, count):
        yield window.take(pa.array(np.sort(bucket)))


def in_offset_order(groups: Iterable[pa.Table], starts: Sequence[int], offset_column: str) -> Iterator[pa.Table]:
    """The rows of a file's row groups, which come in file order, in offset order, up to ROW_GROUP_ROWS at a time.

    ``starts`` is ``FileFooter.window_starts``: the first row group of each window, and the end. Those of a window have
    the same types; a column that one lacks is null in it. Memory: a window twice, and a row group.
    """
    coming = iter(groups)
    for first, end in pairwise(starts):
        window = [next(coming) for _ in range(first, end)]
        if len(window) == 1:
            yield window[0]
            continue
        rows = pa.concat_tables(window, promote_options="default").combine_chunks()
        window.clear()
        order = np.argsort(rows.column(offset_column).to_numpy(), kind="stable")
        for at in range(0, len(order), ROW_GROUP_ROWS):
            yield rows.take(pa.array(order[at : at + ROW_GROUP_ROWS]))
