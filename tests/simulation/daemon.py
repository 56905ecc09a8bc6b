"""A Floeberg daemon of the simulation: every part of ours is the real one, in this process and without threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.broker import Broker
from engine.clock import Clock
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader, LogReaderLimits
from engine.reading.read_ahead import ReadAheadLimits
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.topic_tables import TopicTables
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.tiered_log import TieredLog
from tests.simulation.catalog import SimulatedCatalog
from tests.simulation.cluster import Node
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.rewrite import Rewritten
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

NAMESPACE = "kafka"


class FaultyWorkers(InterferingWorkers):
    """The real work of one process; ``damage`` gets each file between write and verification, and may hurt it."""

    def __init__(self, damage: Callable[[Rewritten], Rewritten]) -> None:
        self._damage = damage

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        for key, answer in super().rewrite(tasks):
            yield key, self._damage(answer) if isinstance(answer, Rewritten) and answer.file is not None else answer


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
        damage: Callable[[Rewritten], Rewritten],
    ) -> None:
        self.node = node
        self.is_dead = False
        self.writer = TableWriter(catalog, clock, namespace=NAMESPACE)
        self.verifier = Verifier()
        self.loop = TieringLoop(
            broker=broker,
            log_dirs=[node.log_dir],
            writer=self.writer,
            verifier=self.verifier,
            workers=FaultyWorkers(damage),
            rules=rules,
            clock=clock,
            limits=limits,
        )
        self._reader = LogReader(
            file_index=FileIndex(), limits=LogReaderLimits(read_ahead=ReadAheadLimits(prefetches=0))
        )
        self.store = AuxiliaryStore()
        self.door = TieredLog(
            tables=TopicTables(catalog, NAMESPACE),
            reader=self._reader,
            verifier=self.verifier,
            tiering=self.loop,
            store=self.store,
        )

    def cycle(self) -> CycleReport:
        return self.loop.cycle()

    def close(self) -> None:
        self._reader.close()
