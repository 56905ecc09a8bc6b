"""A year of one partition at five seconds of freshness, with all loops and without: what a table is, what it costs.

The long run is a model of sizes and counts with the program's own planner of merges, its own ``to_merge`` of manifests
and its own choice of snapshots. What a state costs is measured: on a table with as many files, manifests and snapshots.
Beside it, a table without compaction and expiry grows by real commits, for as long as their cost allows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from bench.past.history import FOR_EVER, MovedClock, figures_of
from bench.past.year_plot import DayCost, year_plot
from compaction.planner import MergeGroup
from engine.table.catalog.access import embedded_catalog_properties, open_catalog, warehouse_of
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

TIMED_COMMITS = 20
_TURN_SLICES = 6
"""Compaction looks every half minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayState:
    """What a table is at the end of a day: ``entries`` of each manifest, oldest first."""

    day: int
    commits: int
    files: int
    entries: tuple[int, ...]
    snapshots: int


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


class MeasuredTable:
    """A real table, with a commit each five seconds by its writer's clock."""

    def __init__(self, folder: Path, limits: HistoryLimits) -> None:
        self._folder = folder
        self._clock = MovedClock()
        self._properties = embedded_catalog_properties(folder)
        self._writer = TableWriter(open_catalog(self._properties), self._clock, history=limits)
        self._table = ensure_table(self._writer)
        self._end = self._files = 0

    def commit(self, files: int) -> float:
        """One with so many files; its CPU in ms."""
        start, self._end = self._end, self._end + max(1, files)
        appends = [append_of(self._table, at, at + 1) for at in range(start, start + files)]
        self._files += files
        self._clock.ahead_ms += FRESHNESS_SECONDS * 1000
        before = time.process_time()
        self._writer.commit(self._table, appends or [empty_append(start, self._end)])
        return (time.process_time() - before) * 1000

    def cost(self, days: float) -> DayCost:
        """After ``TIMED_COMMITS`` more of one file each."""
        spent_ms = [self.commit(1) for _ in range(TIMED_COMMITS)]
        figures = figures_of(self._folder, self._files)
        return DayCost(
            days=days,
            files=self._files,
            manifests=int(figures["manifests"][0]),
            snapshots=int(figures["snapshots"][0]),
            commit_ms=statistics.median(spent_ms),
            first_fetch_ms=figures["first_fetch_cpu_ms"][0],
            plan_ms=statistics.median(figures["plan_cpu_ms"]),
            metadata_kib=figures["metadata_kib"][0],
            memory_kib=self._memory_bytes() / 1024,
        )

    def _memory_bytes(self) -> int:
        tracemalloc.start()
        catalog = open_catalog(self._properties)
        view = TableLoader(lambda: warehouse_of(catalog)).view(catalog.load_table(self._table.identifier))
        kept = LiveFiles(tables=1, snapshots=1)
        kept.of(view, 0)
        memory_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return memory_bytes


def cost_of(folder: Path, state: DayState) -> DayCost:
    """By a table that is made with the state's manifests, then with commits without files as it has snapshots. The
    commits that are timed come on top."""
    made = MeasuredTable(folder, HistoryLimits())
    for count in state.entries:
        made.commit(count)
    for _ in range(state.snapshots - len(state.entries)):
        made.commit(0)
    return replace(made.cost(state.day), files=state.files)


def without_loops(folder: Path, commits: Sequence[int]) -> Iterator[DayCost]:
    """After each of so many real commits, rising, with neither compaction nor expiry. Manifests are merged with each
    commit all the same."""
    made, done = MeasuredTable(folder, FOR_EVER), 0
    for number in commits:
        for _ in range(done, number - TIMED_COMMITS):
            made.commit(1)
        done = number
        yield made.cost(number * FRESHNESS_SECONDS / DAY_SECONDS)


def main() -> None:
    """``python -m bench.past.year docs/a-year.svg``: the plot, and the lines of a table on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plot", type=Path)
    parser.add_argument("--bytes-a-second", type=int, default=100 << 10)
    parser.add_argument("--keep-days", type=int, default=7)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 2, 3, 7, 14, 30, 60, 90, 120, 180, 240, 300, 365])
    parser.add_argument("--commits-without-loops", type=int, nargs="+", default=[30, 100, 300, 1_000, 3_000])
    given = parser.parse_args()
    loops_on, loops_off = [], []
    for state in year_of(given.bytes_a_second, days=given.days, keep_days=given.keep_days):
        with tempfile.TemporaryDirectory() as folder:
            loops_on.append(cost_of(Path(folder), state))
        print(state.commits, loops_on[-1])
    with tempfile.TemporaryDirectory() as folder:
        for cost in without_loops(Path(folder), given.commits_without_loops):
            loops_off.append(cost)
            print("without loops", cost)
    given.plot.write_text(year_plot(loops_on, loops_off))


if __name__ == "__main__":
    main()
