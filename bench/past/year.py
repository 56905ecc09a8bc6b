"""A year of one partition at five seconds of freshness, with all loops: what a table is on its days, and what it costs.

The long run is a model of sizes and counts with the program's own planner of merges, its own ``to_merge`` of manifests
and its own choice of snapshots. What a state costs is measured: on a table with as many files, manifests and snapshots.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from bench.past.history import MovedClock, figures_of
from bench.past.year_plot import DayState, year_plot
from compaction.planner import MergeGroup
from engine.table.catalog.access import embedded_catalog_properties, open_catalog, warehouse_of
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.session import EXPIRY_INTERVAL_MS
from engine.table.commit.writer import TableWriter
from engine.table.history import expired
from engine.table.history_limits import HistoryLimits
from engine.table.live_files import LiveFiles
from engine.table.loading import TableLoader
from engine.table.sealed_snapshot import FULL_ENTRIES, to_merge
from tests.compaction.simulated_partition import SimulatedPartition
from tests.engine.table.table_examples import append_of, empty_append, ensure_table

FRESHNESS_SECONDS = 5
DAY_SECONDS = 24 * 3600
PARQUET_SHARE = 0.5
"""Of the bytes in Kafka, what their columns take."""

_TIMED_COMMITS = 20
_TURN_SLICES = 6
"""Compaction looks every half minute."""


@dataclass(slots=True)
class SimulatedManifests:
    """The live entries of each manifest, newest first, as ``SealedProducer`` leaves them."""

    lists: list[set[str]] = field(default_factory=list)
    written_entries: int = 0
    _of: dict[str, set[str]] = field(default_factory=dict)

    def commit(self, added: Sequence[str], removed: Sequence[str]) -> None:
        touched = {id(self._of.pop(path)) for path in removed}
        live = [held for held in self.lists if held]
        untouched = [held for held in live if id(held) not in touched]
        merged = {id(untouched[at]) for at in to_merge([len(held) for held in untouched])}
        again = touched | merged
        kept = [held for held in live if id(held) not in again]
        gone = set(removed)
        left = sorted(path for held in live if id(held) in again for path in held - gone)
        for at in range(0, len(left), FULL_ENTRIES):
            kept.insert(0, self._made(left[at : at + FULL_ENTRIES]))
        self.lists = [self._made(added), *kept] if added else kept

    def _made(self, paths: Sequence[str]) -> set[str]:
        made = set(paths)
        self._of.update(dict.fromkeys(paths, made))
        self.written_entries += len(made)
        return made


@dataclass(slots=True)
class SimulatedTable(SimulatedPartition):
    """``keep_days``: files that are older leave the table; 0: none does."""

    keep_days: int = 0
    manifests: SimulatedManifests = field(default_factory=SimulatedManifests)
    commits: int = 0
    second: int = 0
    _live: deque[tuple[int, str]] = field(default_factory=deque)

    def append(self, payload_bytes: int) -> None:
        super(SimulatedTable, self).append(payload_bytes)
        self._commit([self.files[-1].path], [])

    def _merge(self, group: MergeGroup) -> None:
        super(SimulatedTable, self)._merge(group)
        self._commit([f"{group.range.start}-{group.range.end}"], [file.path for file in group.files])

    def _leave_done(self) -> None:
        before = list(self.files)
        super(SimulatedTable, self)._leave_done()
        self._live.extend((self.second, file.path) for file in before[: len(before) - len(self.files)])
        oldest = self.second - self.keep_days * DAY_SECONDS
        while self.keep_days and self._live and self._live[0][0] < oldest:
            self.done -= 1
            self._commit([], [self._live.popleft()[1]])

    def _commit(self, added: Sequence[str], removed: Sequence[str]) -> None:
        self.commits += 1
        self.manifests.commit(added, removed)


def year_of(bytes_a_second: int, *, days: Sequence[int], keep_days: int) -> Iterator[DayState]:
    """The states at the end of ``days``, rising."""
    table = SimulatedTable(keep_days=keep_days)
    payload = int(bytes_a_second * FRESHNESS_SECONDS * PARQUET_SHARE)
    for day in range(1, max(days) + 1):
        for index in range(DAY_SECONDS // FRESHNESS_SECONDS):
            table.second = (day - 1) * DAY_SECONDS + index * FRESHNESS_SECONDS
            table.append(payload)
            if index % _TURN_SLICES == _TURN_SLICES - 1:
                table.compact()
        if day in days:
            entries = tuple(len(held) for held in reversed(table.manifests.lists) if held)
            files = table.done + len(table.files)
            assert sum(entries) == files, "each file is listed once"
            yield DayState(
                day=day, commits=table.commits, files=files, entries=entries, snapshots=_snapshots_after(table.commits)
            )


def _snapshots_after(commits: int) -> int:
    """How many a table keeps after so many commits, five seconds apart: what was before its last day is forgotten."""
    limits, interval_ms = HistoryLimits(), FRESHNESS_SECONDS * 1000
    kept: list[Snapshot] = []
    for number in range(max(1, commits - DAY_SECONDS // FRESHNESS_SECONDS), commits + 1):
        now_ms = number * interval_ms
        kept.append(
            Snapshot(
                snapshot_id=number,
                parent_snapshot_id=number - 1,
                sequence_number=number,
                timestamp_ms=now_ms,
                manifest_list="list",
            )
        )
        if now_ms % EXPIRY_INTERVAL_MS == 0:
            main = {"main": SnapshotRef(snapshot_id=number, snapshot_ref_type=SnapshotRefType.BRANCH)}
            gone = set(expired(kept, main, limits, now_ms))
            kept = [snapshot for snapshot in kept if snapshot.snapshot_id not in gone]
    return len(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """What a state costs: CPU of a commit, of a process that has just started until it has listed the files, and of
    pyiceberg's planning of a scan; the size of metadata.json; what the listed table takes in memory."""

    commit_ms: float
    first_fetch_ms: float
    plan_ms: float
    metadata_kib: float
    memory_kib: float


def cost_of(folder: Path, state: DayState) -> DayCost:
    """By a table that is made with the state's manifests, then with commits without files as it has snapshots."""
    clock = MovedClock()
    properties = embedded_catalog_properties(folder)
    writer = TableWriter(open_catalog(properties), clock)
    table, end = ensure_table(writer), 0

    def commit(appends: list[RangeAppend]) -> float:
        clock.ahead_ms += FRESHNESS_SECONDS * 1000
        before = time.process_time()
        writer.commit(table, appends)
        return (time.process_time() - before) * 1000

    for count in state.entries:
        commit([append_of(table, at, at + 1) for at in range(end, end + count)])
        end += count
    for _ in range(state.snapshots - len(state.entries)):
        commit([empty_append(end, end + 1)])
        end += 1
    spent_ms = [commit([append_of(table, at, at + 1)]) for at in range(end, end + _TIMED_COMMITS)]
    figures = figures_of(folder, state.files + _TIMED_COMMITS)
    tracemalloc.start()
    catalog = open_catalog(properties)
    view = TableLoader(lambda: warehouse_of(catalog)).view(catalog.load_table(table.identifier))
    kept = LiveFiles(tables=1, snapshots=1)
    kept.of(view, 0)
    memory_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return DayCost(
        commit_ms=statistics.median(spent_ms),
        first_fetch_ms=figures["first_fetch_cpu_ms"][0],
        plan_ms=statistics.median(figures["plan_cpu_ms"]),
        metadata_kib=figures["metadata_kib"][0],
        memory_kib=memory_bytes / 1024,
    )


def without_loops(day: int) -> DayState:
    """The same with neither compaction nor expiry: manifests are merged with each commit all the same."""
    commits = day * DAY_SECONDS // FRESHNESS_SECONDS
    full, rest = divmod(commits, FULL_ENTRIES)
    return DayState(day=day, commits=commits, files=commits, entries=(*[FULL_ENTRIES] * full, rest), snapshots=commits)


def main() -> None:
    """``python -m bench.past.year docs/a-year.svg``: the plot, and the lines of a table on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plot", type=Path)
    parser.add_argument("--bytes-a-second", type=int, default=100 << 10)
    parser.add_argument("--keep-days", type=int, default=7)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 2, 3, 7, 14, 30, 60, 90, 120, 180, 240, 300, 365])
    given = parser.parse_args()
    states = list(year_of(given.bytes_a_second, days=given.days, keep_days=given.keep_days))
    given.plot.write_text(year_plot(states, [without_loops(day) for day in given.days]))
    for state in states:
        with tempfile.TemporaryDirectory() as folder:
            print(
                state.day, state.commits, state.files, len(state.entries), state.snapshots, cost_of(Path(folder), state)
            )


if __name__ == "__main__":
    main()
