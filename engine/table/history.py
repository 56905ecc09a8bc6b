"""What a table keeps of its past: which snapshots a commit lets go. Pure.

Source: the Iceberg table specification, "Snapshot Retention Policy"; Floeberg's own bounds stand in for its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from engine.table.history_limits import HistoryLimits
from engine.table.properties import ERASED_PREFIX

MAY_BE_UNANSWERED_MS = 5 * 60_000
"""A session knows its own unanswered commit by its snapshot's id. It tries for a minute, its last request may be silent
for half of one, and the clocks of two daemons differ by less than the rest."""

MOST_AT_ONCE = 1000
"""Snapshots that one commit lets go: the library compares each with all. A longer history goes with the next ones."""


def expired(
    snapshots: Sequence[Snapshot], refs: Mapping[str, SnapshotRef], limits: HistoryLimits, now_ms: int
) -> tuple[int, ...]:
    """The ids of those that go, oldest first, at most ``MOST_AT_ONCE``.

    It stays what a branch or a tag names; of a branch and its ancestors, what the branch's own rules keep, or
    ``limits`` where it has none, but for those from before an erasure; of what is on no branch, what is not too old;
    and what is so young that who committed it may not know yet.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    kept = {ref.snapshot_id for ref in refs.values()}
    on_branches: set[int] = set()
    for ref in refs.values():
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            is_erased = False
            for place, snapshot in enumerate(lineage(by_id, ref.snapshot_id)):
                on_branches.add(snapshot.snapshot_id)
                if not is_erased and _keeps(ref, limits, place, now_ms - snapshot.timestamp_ms):
                    kept.add(snapshot.snapshot_id)
                is_erased = is_erased or erases(snapshot)
    kept.update(
        snapshot.snapshot_id
        for snapshot in snapshots
        if now_ms - snapshot.timestamp_ms <= MAY_BE_UNANSWERED_MS
        or (snapshot.snapshot_id not in on_branches and now_ms - snapshot.timestamp_ms <= limits.max_age_ms)
    )
    gone = [snapshot for snapshot in snapshots if snapshot.snapshot_id not in kept]
    gone.sort(key=lambda snapshot: snapshot.sequence_number or 0)
    return tuple(snapshot.snapshot_id for snapshot in gone[:MOST_AT_ONCE])


def from_before_erasures(snapshots: Sequence[Snapshot], refs: Mapping[str, SnapshotRef]) -> list[Snapshot]:
    """On the branches, what still has records that were erased after it, and is named by no branch and no tag."""
    named = {ref.snapshot_id for ref in refs.values()}
    return [one for one in before_erasures(snapshots, refs) if one.snapshot_id not in named]


def before_erasures(snapshots: Sequence[Snapshot], refs: Mapping[str, SnapshotRef]) -> list[Snapshot]:
    """On the branches, what still has records that were erased after it, whatever names it."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    found: dict[int, Snapshot] = {}
    for ref in refs.values():
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            line = list(lineage(by_id, ref.snapshot_id))
            newest = next((place for place, snapshot in enumerate(line) if erases(snapshot)), len(line))
            found |= {one.snapshot_id: one for one in line[newest + 1 :]}
    return list(found.values())


def erases(snapshot: Snapshot) -> bool:
    """Whether records were erased by a snapshot: those before it have them still."""
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return any(name.startswith(ERASED_PREFIX) for name in told)


def _keeps(ref: SnapshotRef, limits: HistoryLimits, place: int, age_ms: int) -> bool:
    """Whether a branch keeps its ``place``-th snapshot, 0 the newest."""
    if place < (ref.min_snapshots_to_keep or limits.min_snapshots):
        return True
    if ref.max_snapshot_age_ms is not None:
        return bool(age_ms <= ref.max_snapshot_age_ms)
    return age_ms <= limits.max_age_ms and place < limits.max_snapshots


def lineage(by_id: Mapping[int, Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first, as far as they are there."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen and (snapshot := by_id.get(snapshot_id)) is not None:
        seen.add(snapshot_id)
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id
