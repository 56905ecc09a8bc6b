"""The loops of tiering, compaction and retention, wired as the daemon does, taking turns in the test's own thread."""

from __future__ import annotations

from collections.abc import Callable

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_loop import CompactionLoop
from compaction.merge_limits import MergeLimits
from compaction.repair_limits import RepairLimits
from compaction.topic_repair import RepairTurn
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from retention.horizon_limits import HorizonLimits
from retention.horizon_loop import HorizonLoop
from tests.tiering.tiering_world import TieringWorld
from tiering.cycle_report import CycleReport
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers


class RepairingDaemon:
    """Starts with nothing in memory."""

    def __init__(
        self,
        world: TieringWorld,
        rules: tuple[TopicRule, ...],
        *,
        limits: TieringLimits | None = None,
        repair_limits: RepairLimits | None = None,
        merge_limits: MergeLimits | None = None,
        writer: TableWriter | None = None,
        on_gain: Callable[[int], None] = lambda _: None,
    ) -> None:
        writer = writer or world.writer()
        self.loop = world.loop(rules=rules, limits=limits, writer=writer)
        self.compaction = CompactionLoop(
            writer=writer,
            workers=InProcessWorkers(),
            verifier=Verifier(),
            clock=world.clock,
            limits=CompactionLimits(
                merge=merge_limits or MergeLimits(), repair=repair_limits or RepairLimits(), cpu_share=1.0
            ),
            on_gain=on_gain,
        )
        self.horizons = HorizonLoop(
            writer=writer, rules=rules, clock=world.clock, limits=HorizonLimits(move_interval_ms=0)
        )
        self.loop.on_cycle(lambda report: self.compaction.note_topics(report.led, may_work=not report.is_behind))
        self.loop.on_cycle(lambda report: self.horizons.note_topics(report.led, report.partitions))

    def cycle(self) -> tuple[CycleReport, RepairTurn]:
        """A cycle of tiering, and what repair does after it."""
        report = self.loop.cycle()
        return report, self.compaction.turn().repair

    def repaired_files(self) -> int:
        """As ``cycle``; the files that were replaced."""
        return self.cycle()[1].replaced
