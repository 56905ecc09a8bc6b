"""What can be read of each partition in a table's snapshot: listed, sorted and grouped once a snapshot."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.table.adopted_range import AdoptedRange
from engine.table.manifests import ManifestReader, TableFile, by_partition, first_overlap, live_ranges
from engine.table.stream_branch import StreamList
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of one partition in offset order, adopted ranges and what only the stream has among them."""

    files: tuple[TableFile, ...] = ()

    def overlapping(self, wanted: OffsetRange) -> tuple[TableFile, ...]:
        """The files that cover some offset of ``wanted``, in order. Raises Corrupt where two cover the same offset."""
        first = bisect_right(self.files, wanted.start, key=lambda file: file.range.end)
        end = bisect_right(self.files, wanted.end - 1, key=lambda file: file.range.start)
        found = self.files[first:end]
        doubled = first_overlap(found)
        if doubled is not None:
            one, other = doubled
            raise Corrupt(
                f"two files cover the same offsets: {one.path} and this one",
                partition=other.partition,
                offset=other.range.start,
                file=other.path,
                next_step="run floeberg fsck on the topic",
            )
        return found


_Listing: TypeAlias = tuple[str, int, StreamList | None, tuple[tuple[int, tuple[AdoptedRange, ...]], ...]]
"""What a list of files depends on: the table's location, its snapshot, the stream's own, and what is adopted."""


class LiveFiles:
    """The files of tables by partition, out of manifests that are each read once. Safe to use from several threads:
    one of them reads a snapshot's, the others wait for it; a snapshot that is known is looked up without waiting.
    """

    def __init__(self, *, tables: int, snapshots: int) -> None:
        """``tables`` whose manifests are kept; ``snapshots`` whose lists of files are, over all tables."""
        self._readers: BoundedCache[str, _TableReader] = BoundedCache(capacity=tables)
        self._snapshots: BoundedCache[_Listing, Mapping[int, PartitionFiles]] = BoundedCache(capacity=snapshots)

    def of(self, table: TopicTable, partition: int) -> PartitionFiles:
        """What holds a partition's records in the table's snapshot: our files that are whole, and adopted ranges.

        Raises Corrupt, Unavailable.
        """
        if table.snapshot_id is None:
            return PartitionFiles()
        # A commit that makes no snapshot can adopt what another program's did; another program can change the branch.
        key = (table.location, table.snapshot_id, table.stream, tuple(table.adopted.items()))
        found = self._snapshots.get_or_make(key, partial(self._listed, table))
        return found.get(partition, PartitionFiles())

    def _listed(self, table: TopicTable) -> Mapping[int, PartitionFiles]:
        reader = self._readers.get_or_make(table.location, _TableReader)
        with reader.lock:
            files = reader.manifests.files(table)
        grouped = by_partition(live_ranges(table, files))
        return {number: PartitionFiles(files=held) for number, held in grouped.items()}


class _TableReader:
    """One table's manifests and the lock that lets one thread read them."""

    def __init__(self) -> None:
        self.manifests = ManifestReader()
        self.lock = threading.Lock()
