"""A Floeberg daemon of the simulation: every part of ours is the real one, in this process and without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_loop import CompactionLoop
from compaction.merge_limits import MergeLimits
from compaction.topic_merge import MergeTurn
from engine.broker import Broker
from engine.clock import Clock
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader, LogReaderLimits
from engine.reading.read_ahead import ReadAheadLimits
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileDescription
from engine.table.history_limits import HistoryLimits
from engine.table.merge.merge_files import Merged, MergeTask, merge_files
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from floeberg.tables.erasure import Eraser
from floeberg.tables.topic_tables import TopicTables
from latest.latest_limits import LatestLimits
from latest.latest_loop import LatestLoop
from latest.topic_latest import LatestTurn
from retention.erasure_report import ErasureReport
from retention.horizon_limits import HorizonLimits
from retention.horizon_loop import HorizonLoop
from retention.sweep_limits import SweepLimits
from retention.table_sweep import SweepTurn, TableSweep
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.tiered_log import TieredLog
from tests.simulation.catalog import SimulatedCatalog
from tests.simulation.cluster import Node
from tests.simulation.forgotten import Forgotten
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.rewrite import Rewritten
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

NAMESPACE = "kafka"
INDEX_FOLDER = "latest"
"""Of the data directory: the index of keys."""


Damages = Callable[[FileDescription], FileDescription]


class FaultyWorkers(InProcessWorkers):
    """The real work of one process; ``damage`` gets each file between write and verification, and may hurt it."""

    def __init__(self, damage: Damages) -> None:
        self._damage = damage

    def run(self, work: Callable[[Any], Any], tasks: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        for key, answer in super().run(work, tasks):
            if isinstance(answer, Rewritten) and answer.file is not None:
                yield key, replace(answer, file=self._damage(answer.file))
            elif isinstance(answer, Merged):
                yield key, replace(answer, new=tuple(map(self._damage, answer.new)))
            else:
                yield key, answer


SHORT_HISTORY = HistoryLimits(max_age_ms=1, min_snapshots=1, max_snapshots=1)
LONG_HISTORY = HistoryLimits(min_snapshots=3, max_snapshots=6)


class SimulatedDaemon:
    """One process from its start to its end: whatever it keeps in memory goes with it."""

    def __init__(
        self,
        *,
        node: Node,
        broker: Broker,
        clock: Clock,
        catalog: SimulatedCatalog,
        rules: Sequence[TopicRule],
        limits: TieringLimits,
        merge_limits: MergeLimits,
        damage: Damages,
        data_dir: Path,
        latest_rows: int,
        history: HistoryLimits,
    ) -> None:
        self.node = node
        self.is_dead = False
        self.writer = TableWriter(catalog, clock, namespace=NAMESPACE, history=history)
        self.verifier = Verifier()
        workers = FaultyWorkers(damage)
        self.loop = TieringLoop(
            broker=broker,
            log_dirs=[node.log_dir],
            writer=self.writer,
            verifier=self.verifier,
            workers=workers,
            rules=rules,
            clock=clock,
            limits=limits,
        )
        self.compaction = CompactionLoop(
            writer=self.writer,
            workers=workers,
            verifier=self.verifier,
            clock=clock,
            limits=CompactionLimits(merge=merge_limits, cores=1),
        )
        self.horizons = HorizonLoop(
            writer=self.writer, rules=rules, clock=clock, limits=HorizonLimits(move_interval_ms=0)
        )
        self.latest = LatestLoop(
            writer=self.writer,
            directory=data_dir / INDEX_FOLDER,
            configs_of=broker.topic_configs,
            clock=clock,
            limits=LatestLimits(fold_rows=latest_rows, look_interval_ms=0, policy_interval_ms=0, retry_ms=0),
        )
        self.loop.on_cycle(lambda report: self.latest.note_topics(report.led))
        self.loop.on_cycle(lambda report: self.compaction.note_topics(report.led, may_work=True))
        self.loop.on_cycle(lambda report: self.horizons.note_topics(report.led, report.partitions))
        self._reader = LogReader(
            file_index=FileIndex(), limits=LogReaderLimits(read_ahead=ReadAheadLimits(prefetches=0))
        )
        self._catalog, self._clock, self._data_dir, self._damage, self._history = (
            catalog,
            clock,
            data_dir,
            damage,
            history,
        )
        self._sweeps: dict[tuple[str, bool], TableSweep] = {}
        self.store = AuxiliaryStore()
        self.door = TieredLog(
            tables=TopicTables(catalog, NAMESPACE),
            reader=self._reader,
            verifier=self.verifier,
            tiering=self.loop,
            store=self.store,
            clock=clock,
        )

    def cycle(self) -> CycleReport:
        return self.loop.cycle()

    def compact(self) -> MergeTurn:
        """Of one topic. What is led here is known after a cycle."""
        self._look()
        return self.compaction.turn().merge

    def move_horizons(self) -> int:
        """Of all topics that are led here: how many tables' horizons moved."""
        self._look()
        return self.horizons.turn()

    def _look(self) -> None:
        if self.loop.report is None:
            self.cycle()

    def bring_latest_on(self) -> list[LatestTurn]:
        """A step of each topic that has a table of its newest records."""
        self._look()
        return self.latest.round()

    def erase(self, topic_id: str, forgotten: Forgotten) -> ErasureReport | None:
        """As the command does it, in a process that knows nothing of before; None where there is no table.

        Raises FloebergError.
        """
        table = TopicTables(self._catalog, NAMESPACE).load(topic_id)
        if table is None:
            return None
        writer = TableWriter(self._catalog, self._clock, namespace=NAMESPACE, history=self._history)
        eraser = Eraser(catalog=self._catalog, writer=writer, clock=self._clock)

        def damaged(task: MergeTask) -> Merged:
            written = merge_files(task)
            return replace(written, new=tuple(map(self._damage, written.new)))

        with mock.patch("retention.erasure.merge_files", damaged):
            return eraser.erase(table, forgotten.condition(table), keys=forgotten.keys)

    def sweep(self) -> list[SweepTurn]:
        """Two looks at each table's files, with a grace of no length: what the first sees unnamed, the second removes.

        Raises FloebergError.
        """
        turns = []
        for table in TopicTables(self._catalog, NAMESPACE).all():
            turns += [self._sweep_of(table).turn() for _ in "12"]
            if turns[-1].latest is not None:
                turns += [self._sweep_of(table, is_latest=True).turn() for _ in "12"]
        return turns

    def _sweep_of(self, table: TopicTable, *, is_latest: bool = False) -> TableSweep:
        key = table.topic_id, is_latest
        if key not in self._sweeps:
            self._sweeps[key] = TableSweep(
                topic=table.topic,
                topic_id=table.topic_id,
                catalog=self._catalog,
                namespace=NAMESPACE,
                writer=self.writer,
                clock=self._clock,
                limits=SweepLimits(grace_ms=0),
                folder=self._data_dir,
                in_use=self._reader.open_files,
                is_latest=is_latest,
            )
        return self._sweeps[key]

    def close(self) -> None:
        self._reader.close()
        self.latest.close()
