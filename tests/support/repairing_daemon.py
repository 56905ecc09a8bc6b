"""The loops of tiering and repair, wired as the daemon does, taking turns in the test's own thread."""

from __future__ import annotations

from collections.abc import Callable

from compaction.repair_limits import RepairLimits
from compaction.repair_loop import RepairLoop
from compaction.topic_repair import RepairTurn
from engine.table.proof.verifier import Verifier
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
        on_gain: Callable[[int], None] = lambda _: None,
    ) -> None:
        writer = world.writer()
        self.loop = world.loop(rules=rules, limits=limits, writer=writer)
        self.repair = RepairLoop(
            writer=writer,
            workers=InProcessWorkers(),
            verifier=Verifier(),
            clock=world.clock,
            limits=repair_limits,
            on_gain=on_gain,
        )
        self.loop.on_cycle(lambda report: self.repair.note_topics(report.led, may_work=report.is_idle))

    def cycle(self) -> tuple[CycleReport, RepairTurn]:
        """A cycle of tiering, and what repair does after it."""
        report = self.loop.cycle()
        return report, self.repair.turn()

    def repaired_files(self) -> int:
        """As ``cycle``; the files that were replaced."""
        return self.cycle()[1].replaced
