"""Which snapshot of a table was the first to cover an offset: summaries say which ranges each of them added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.table.history import lineage
from engine.table.topic_table import added_ranges

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveringSnapshot:
    """``covered`` the offsets of the partition that the ledger had from the snapshot on. Not ``is_first``: the history
    that is left begins with this snapshot, and an earlier one covered the offset."""

    snapshot_id: int
    made_ms: int
    covered: OffsetRange
    is_first: bool


def covering_snapshot(table: TopicTable, metadata: TableMetadata, *, partition: int, offset: int) -> CoveringSnapshot:
    """Raises Invalid for an offset that the table does not cover, or that no snapshot can show any more."""
    entry = table.ledger.get(partition)
    if entry is None or offset not in range(entry.start, entry.end):
        covered = "nothing" if entry is None else f"offsets {entry.start} to {entry.end - 1}"
        raise Invalid(f"The table covers {covered}, not {offset}", topic=table.topic, partition=partition)
    end, oldest = entry.end, None
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    for snapshot in lineage(by_id, metadata.current_snapshot_id):
        oldest = snapshot
        added = _added(table, snapshot, partition)
        if added is None:
            continue
        if added.start <= offset:
            return CoveringSnapshot(
                snapshot_id=snapshot.snapshot_id,
                made_ms=snapshot.timestamp_ms,
                covered=OffsetRange(start=entry.start, end=added.end),
                is_first=True,
            )
        end = added.start
    if oldest is None:
        raise Invalid("The table has no snapshot", topic=table.topic, partition=partition)
    return CoveringSnapshot(
        snapshot_id=oldest.snapshot_id,
        made_ms=oldest.timestamp_ms,
        covered=OffsetRange(start=entry.start, end=_end_at(table, oldest, partition, end)),
        is_first=False,
    )


def _end_at(table: TopicTable, oldest: Snapshot, partition: int, end: int) -> int:
    """``end`` is where the ranges begin that are known to have been added; the oldest snapshot may have done so."""
    added = _added(table, oldest, partition)
    return end if added is None else added.end


def _added(table: TopicTable, snapshot: Snapshot, partition: int) -> OffsetRange | None:
    """Offsets of the partition that came to be covered by this snapshot, with those that were bridged."""
    ranges = added_ranges([snapshot]).get(partition)
    if not ranges:
        return None
    start = min(one.start for one in ranges)
    bridged = (one.start for one in table.skipped.get(partition, ()) if one.end == start)
    return OffsetRange(start=min(bridged, default=start), end=max(one.end for one in ranges))
