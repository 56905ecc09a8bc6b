"""What a table's history costs with the number of its commits: once with compaction, and once without.

Tiering and compaction are the daemon's, in process, on a log directory that is written here; the broker's wire is not
there. Their clock is moved on by the freshness for each slice, so that compaction looks as seldom as it would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from bench.measurement import Measurement, ratio
from bench.tiering.order_topic import write_schema_folder
from compaction.merge_limits import MergeLimits
from engine.kafka_log.compression import Compression
from engine.records.records import ByteSpans
from engine.schemas.folder import SchemaFolder
from engine.table.commit.range_append import CommitResult
from engine.table.commit.writer import TableWriter
from floeberg.demo.sample_orders import sample_order_blocks
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule

COMMITS = (100, 500, 2_000)
ORDERS_A_SLICE = 512
TARGET_BYTES = 4 << 20
"""Some hundred slices: a few hundred of them go through both tiers, as a topic's 256 MiB would in hours or days."""

_FRESHNESS_MS = 5_000
_LAST_COMMITS = 50
_PLANS = 3
_TITLES = {"on": "with compaction", "off": "without compaction"}
_FIGURES = {
    "files": ("live files", "files"),
    "manifests": ("manifests", "manifests"),
    "metadata_kib": ("metadata.json", "KiB"),
    "commit_cpu_ms": (f"a commit, of the last {_LAST_COMMITS}", "CPU-ms"),
    "plan_cpu_ms": ("planning a scan of all", "CPU-ms"),
}


class _TimedWriter(TableWriter):
    """The daemon's writer, with a clock around the appends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.commit_cpu_ms: list[float] = []

    def commit(self, *arguments: Any, **options: Any) -> CommitResult:
        before = time.process_time()
        result = super().commit(*arguments, **options)
        self.commit_cpu_ms.append((time.process_time() - before) * 1000)
        return result


class _World(TieringWorld):
    def writer(self) -> _TimedWriter:
        return _TimedWriter(self.catalog, self.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """``figures`` by number of commits; ``amplification`` by compaction's own totals, None where nothing was merged;
    ``most_files`` that were live at once."""

    figures: Mapping[int, Mapping[str, tuple[float, ...]]]
    amplification: float | None
    merges: int
    most_files: int


def measure(folder: Path, *, commits: Sequence[int] = COMMITS, say: Callable[[str], None]) -> list[Measurement]:
    """The figures of both tables after each of ``commits``, their ratios after the last; write amplification."""
    runs = {}
    for name, title in _TITLES.items():
        say(f"compaction: {max(commits):,} slices, {title}")
        runs[name] = _run(folder / name, frozenset(commits), with_compaction=name == "on")
    found = {one.key: one for name, run in runs.items() for one in _figures(name, run)}
    return [*found.values(), *_ratios(found, max(commits)), *_of_compaction(runs["on"])]


def _run(folder: Path, commits: Collection[int], *, with_compaction: bool) -> _Run:
    world = _World(folder)
    (partition,) = world.broker.create_topic("orders")
    source = SchemaFolder(write_schema_folder(folder / "schemas"))
    rule = TopicRule(pattern="orders", value_format="avro", schema_source=source, freshness_ms=_FRESHNESS_MS)
    writer = world.writer()
    daemon = RepairingDaemon(world, (rule,), merge_limits=MergeLimits(target_file_bytes=TARGET_BYTES), writer=writer)
    figures, most_files = {}, 0
    for number, (keys, values) in enumerate(_slices(max(commits)), 1):
        world.broker.append(partition, values, keys=keys.to_list(), compression=Compression.ZSTD)
        daemon.loop.cycle()
        world.clock.ahead_ms += _FRESHNESS_MS
        report = daemon.loop.cycle()
        assert report.is_good, "the partition must be well"
        assert len(writer.commit_cpu_ms) == number, "each slice is a commit"
        while with_compaction and daemon.compaction.turn().goes_on:
            pass
        loaded = world.catalog.load_table("kafka.orders")
        most_files = max(most_files, _live_files(loaded))
        if number in commits:
            figures[number] = _figures_of(loaded, writer)
    totals = daemon.compaction.report().totals
    assert not totals.failures, "nothing fails here"
    return _Run(figures=figures, amplification=totals.write_amplification, merges=totals.merges, most_files=most_files)


def _slices(wanted: int) -> Iterator[tuple[ByteSpans, ByteSpans]]:
    """Keys and values; a block of orders is a whole number of slices."""
    for block in sample_order_blocks(wanted * ORDERS_A_SLICE):
        for at in range(0, len(block), ORDERS_A_SLICE):
            part = slice(at, at + ORDERS_A_SLICE)
            yield block.key.select(part), block.value.select(part)


def _live_files(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "there was a commit"
    assert snapshot.summary is not None, "each snapshot has one"
    return int(snapshot.summary["total-data-files"] or 0)


def _figures_of(table: Table, writer: _TimedWriter) -> dict[str, tuple[float, ...]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "there was a commit"
    return {
        "files": (_live_files(table),),
        "manifests": (len(snapshot.manifests(table.io)),),
        "metadata_kib": (len(table.io.new_input(table.metadata_location)) / 1024,),
        "commit_cpu_ms": tuple(writer.commit_cpu_ms[-_LAST_COMMITS:]),
        "plan_cpu_ms": tuple(_plan_cpu_ms(table) for _ in range(_PLANS)),
    }


def _plan_cpu_ms(table: Table) -> float:
    """By a reader that begins with the table's metadata."""
    before = time.process_time()
    planned = sum(1 for _ in table.scan().plan_files())
    spent_ms = (time.process_time() - before) * 1000
    assert planned == _live_files(table), "a scan of all reads every file"
    return spent_ms


def _figures(name: str, run: _Run) -> list[Measurement]:
    return [
        Measurement(
            key=f"compaction.growth_{name}_{figure}_{commits}",
            title=f"After {commits:,} slices {_TITLES[name]}: {title}",
            unit=unit,
            samples=taken[figure],
            higher_is_better=False,
        )
        for commits, taken in run.figures.items()
        for figure, (title, unit) in _FIGURES.items()
    ]


def _ratios(found: Mapping[str, Measurement], commits: int) -> list[Measurement]:
    goals = {"files": "≥ 1", "plan_cpu_ms": "≥ 1", "commit_cpu_ms": None}
    return [
        ratio(
            f"compaction.growth_{figure}_times",
            f"After the last slice, without compaction over with it: {_FIGURES[figure][0]}",
            found[f"compaction.growth_off_{figure}_{commits}"],
            found[f"compaction.growth_on_{figure}_{commits}"],
            goal=goal,
        )
        for figure, goal in goals.items()
    ]


def _of_compaction(run: _Run) -> list[Measurement]:
    assert run.amplification is not None, "slices were seen"
    found = {
        "write_amplification": ("all bytes written by bytes first written", "times", run.amplification, "≤ 3"),
        "most_files": ("most live files at once", "files", float(run.most_files), None),
        "merges": ("merges", "merges", float(run.merges), None),
    }
    return [
        Measurement(
            key=f"compaction.{key}",
            title=f"Compaction of {max(run.figures):,} slices: {title}",
            unit=unit,
            samples=(value,),
            higher_is_better=False,
            goal=goal,
        )
        for key, (title, unit, value, goal) in found.items()
    ]
