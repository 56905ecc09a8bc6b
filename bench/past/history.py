"""What a table's history costs with the number of its commits: with old snapshots that go, and with all of them kept.

A commit adds one small file, five seconds after the one before by the writer's clock; nothing is compacted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import Table

from bench.measurement import Measurement
from engine.clock import SystemClock
from engine.table.catalog.access import embedded_catalog_properties, open_catalog, warehouse_of
from engine.table.commit.writer import TableWriter
from engine.table.history_limits import HistoryLimits
from engine.table.live_files import LiveFiles
from engine.table.loading import TableLoader
from tests.engine.table.table_examples import append_of, ensure_table

COMMITS = (10, 1_000, 10_000)
MOST_KEPT = 2_000
"""Commits of the table that keeps all: each costs more than the one before."""

_FRESHNESS_MS = 5_000
_RANGE_OFFSETS = 5
_LAST_COMMITS = 50
_PLANS = 3
FOR_EVER = HistoryLimits(max_age_ms=1 << 50, max_snapshots=1 << 30)
_TITLES = {"ends": "old snapshots go", "kept": "all snapshots kept"}
_FIGURES = {
    "commit_cpu_ms": (f"a commit, of the last {_LAST_COMMITS}", "CPU-ms"),
    "metadata_kib": ("metadata.json", "KiB"),
    "snapshots": ("snapshots", "snapshots"),
    "manifests": ("manifests", "manifests"),
    "first_fetch_cpu_ms": ("a new reader loads the table and lists its files", "CPU-ms"),
    "plan_cpu_ms": ("pyiceberg plans a scan of all", "CPU-ms"),
}


class MovedClock(SystemClock):
    """The machine's, and ``ahead_ms``."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def measure(folder: Path, *, commits: Sequence[int] = COMMITS, say: Callable[[str], None]) -> list[Measurement]:
    """The figures of both tables after each of ``commits``; of the one that keeps all, up to ``MOST_KEPT``."""
    found = []
    for name, title in _TITLES.items():
        looks = [number for number in commits if name == "ends" or number <= MOST_KEPT]
        say(f"history: {max(looks):,} commits, {title}")
        grown = _grow(folder / name, looks, HistoryLimits() if name == "ends" else FOR_EVER, say)
        found += [
            Measurement(
                key=f"commits.history_{name}_{figure}_{number}",
                title=f"After {number:,} commits, {title}: {what}",
                unit=unit,
                samples=taken[figure],
                higher_is_better=False,
            )
            for number, taken in grown.items()
            for figure, (what, unit) in _FIGURES.items()
        ]
    return found


def _grow(
    folder: Path, looks: Sequence[int], limits: HistoryLimits, say: Callable[[str], None]
) -> Mapping[int, Mapping[str, tuple[float, ...]]]:
    clock = MovedClock()
    writer = TableWriter(open_catalog(embedded_catalog_properties(folder)), clock, history=limits)
    table = ensure_table(writer)
    spent_ms: list[float] = []
    figures = {}
    for number in range(1, max(looks) + 1):
        clock.ahead_ms += _FRESHNESS_MS
        append = append_of(table, (number - 1) * _RANGE_OFFSETS, number * _RANGE_OFFSETS)
        before = time.process_time()
        writer.commit(table, [append])
        spent_ms.append((time.process_time() - before) * 1000)
        if number in looks:
            figures[number] = {"commit_cpu_ms": tuple(spent_ms[-_LAST_COMMITS:]), **figures_of(folder, number)}
            say(f"{number:,}: {figures[number]['commit_cpu_ms'][-1]:.0f} CPU-ms")
    return figures


def figures_of(folder: Path, files: int) -> dict[str, tuple[float, ...]]:
    """As a process sees the table that has just started."""
    clear_manifest_cache()
    gc.collect()
    before = time.process_time()
    catalog = open_catalog(embedded_catalog_properties(folder))
    table = catalog.load_table("kafka.orders")
    listed = LiveFiles(tables=1, snapshots=1).of(TableLoader(lambda: warehouse_of(catalog)).view(table), 0)
    first_ms = (time.process_time() - before) * 1000
    assert len(listed.files) == files, "each commit has one"
    snapshot = table.current_snapshot()
    assert snapshot is not None, "there was a commit"
    return {
        "metadata_kib": (len(table.io.new_input(table.metadata_location)) / 1024,),
        "snapshots": (float(len(table.metadata.snapshots)),),
        "manifests": (float(len(snapshot.manifests(table.io))),),
        "first_fetch_cpu_ms": (first_ms,),
        "plan_cpu_ms": tuple(_plan_cpu_ms(table, files) for _ in range(_PLANS)),
    }


def _plan_cpu_ms(table: Table, files: int) -> float:
    clear_manifest_cache()
    gc.collect()
    before = time.process_time()
    planned = sum(1 for _ in table.scan().plan_files())
    assert planned == files, "a scan of all reads every file"
    return (time.process_time() - before) * 1000
