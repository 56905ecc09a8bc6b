"""Keys of a partition's records, put together into the newest offset of each, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.table.latest.keyed_rows import KeyedFiles, StreamFile, newest_of
from latest.planner import units


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """The records of ``range``: each key once, with its newest offset, and whether that is to be shown or a tombstone;
    ``rows`` that were read for it, those without a key too."""

    range: OffsetRange
    keys: list[bytes]
    offsets: NDArray[np.int64]
    is_shown: NDArray[np.bool_]
    rows: int

    @property
    def shown(self) -> NDArray[np.int64]:
        """Offsets, rising."""
        return np.sort(self.offsets[self.is_shown])


def folds(reader: KeyedFiles, files: Sequence[StreamFile], wanted: OffsetRange, most_rows: int) -> Iterator[Fold]:
    """The records of ``wanted``, in offset order a fold after the other, each of about ``most_rows`` or one unit's.

    One fold at least, an empty one where there is no record. Raises Corrupt, Unavailable.
    """
    gathered = _Gathered(wanted.start)
    for settled, unit in units(files, wanted):
        for file in unit:
            gathered.read(reader, file, settled, most_rows)
        gathered.end = settled.end
        if gathered.rows >= most_rows and settled.end < wanted.end:
            yield gathered.fold()
            gathered = _Gathered(settled.end)
    gathered.end = wanted.end
    yield gathered.fold()


class _Gathered:
    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.rows = 0
        self._parts: list[tuple[pa.Array, NDArray[np.int64]]] = []
        self._tombstones: list[NDArray[np.int64]] = []
        self._unreduced = 0

    def read(self, reader: KeyedFiles, file: StreamFile, wanted: OffsetRange, most_rows: int) -> None:
        for rows in reader.rows(file):
            is_wanted = (rows.offset >= wanted.start) & (rows.offset < wanted.end)
            self.rows += int(np.count_nonzero(is_wanted))
            self._tombstones.append(rows.offset[is_wanted & rows.is_tombstone])
            has_key = is_wanted & rows.key.is_valid().to_numpy(zero_copy_only=False)
            self._parts.append((rows.key.filter(pa.array(has_key)), rows.offset[has_key]))
            self._unreduced += int(np.count_nonzero(has_key))
            if self._unreduced >= most_rows:
                self._reduce()

    def _reduce(self) -> None:
        self._parts, self._unreduced = [newest_of(self._parts)], 0

    def fold(self) -> Fold:
        self._reduce()
        ((keys, offsets),) = self._parts
        # RocksDB reads and writes neighbours for less.
        order = pc.sort_indices(keys)
        offsets = offsets[order.to_numpy()]
        tombstones = np.concatenate([np.empty(0, np.int64), *self._tombstones])
        return Fold(
            range=OffsetRange(start=self.start, end=self.end),
            keys=keys.take(order).to_pylist(),
            offsets=offsets,
            is_shown=~np.isin(offsets, tombstones),
            rows=self.rows,
        )
