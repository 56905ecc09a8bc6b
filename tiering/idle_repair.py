"""Repair by the loop itself, in cycles that have nothing to tier: a little at a time (docs/repair.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.proof.verifier import Verifier
from engine.table.repair.candidates import KeptRows
from engine.topic_partition import TopicIdPartition
from tiering.rewriter import Rewriter
from tiering.tiered_topic import TieredTopic
from tiering.tiering_limits import TieringLimits
from tiering.topic_repair import RepairTurn, TopicRepair

MOST_LOOKS = 8
"""Tables looked at in one cycle: a look reads what manifests are new, and a daemon may have a thousand tables."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watch:
    """One topic. ``looked_at`` the table's state and the partitions in which nothing was left to do; ``due_ms``
    (monotonic) when its missing schemas are asked for again, or what failed is tried again, None where neither is
    awaited."""

    repair: TopicRepair
    partitions: frozenset[int] = frozenset()
    looked_at: tuple[str, frozenset[int]] | None = None
    due_ms: int | None = None
    is_held_up: bool = False

    def is_due(self, now_ms: int) -> bool:
        table = self.repair.topic.table
        if table is None or table.foreign is not None:
            return False
        if self.due_ms is not None and now_ms >= self.due_ms:
            return True
        return not self.is_held_up and self.looked_at != (table.metadata_location, self.partitions)

    def note(self, turn: RepairTurn | None, now_ms: int, limits: TieringLimits) -> None:
        table = self.repair.topic.table
        assert table is not None, "a table that is not there has no turn"
        # What was replaced is looked at once more, so that what is left is counted.
        is_done = turn is not None and turn.left == 0 and turn.unasked == 0 and turn.replaced == 0
        self.looked_at = (table.metadata_location, self.partitions) if is_done else None
        self.is_held_up = turn is None or turn.is_held_up
        awaits = self.is_held_up or (turn is not None and bool(turn.wanted))
        self.due_ms = now_ms + limits.schema_retry_ms if awaits else None


class IdleRepair:
    """The repairs of one loop, for its thread."""

    def __init__(self, *, rewriter: Rewriter, verifier: Verifier, clock: Clock, limits: TieringLimits) -> None:
        self._rewriter = rewriter
        self._verifier = verifier
        self._clock = clock
        self._limits = limits
        self._watches: dict[str, _Watch] = {}

    def turn(self, led_here: Mapping[str, tuple[TieredTopic, Collection[int]]]) -> RepairTurn:
        """One topic's turn, the first that finds something to try. ``led_here``: by topic id, the partitions whose
        leader's daemon this is; the others' files are their own daemons' to repair."""
        self._watches = {topic_id: self._watch(topic_id, *led) for topic_id, led in led_here.items()}
        now_ms = self._clock.monotonic_ms()
        due = [topic_id for topic_id, watch in self._watches.items() if watch.is_due(now_ms)]
        for topic_id in due[:MOST_LOOKS]:
            found = self._turn_of(self._watches[topic_id])
            if found.tried:
                return found
        return RepairTurn()

    def kept(self, partition: TopicIdPartition) -> KeptRows:
        """Rows of a partition that keep their bytes, as far as they were counted."""
        watch = self._watches.get(partition.topic_id)
        return KeptRows() if watch is None else watch.repair.kept.get(partition.partition, KeptRows())

    def _watch(self, topic_id: str, topic: TieredTopic, partitions: Collection[int]) -> _Watch:
        watch = self._watches.get(topic_id)
        if watch is None or watch.repair.topic is not topic:
            repair = TopicRepair(
                topic, rewriter=self._rewriter, verifier=self._verifier, clock=self._clock, limits=self._limits
            )
            watch = _Watch(repair=repair)
        watch.partitions = frozenset(partitions)
        return watch

    def _turn_of(self, watch: _Watch) -> RepairTurn:
        if watch.due_ms is not None:
            watch.repair.forget_failures()
        turn: RepairTurn | None = None
        try:
            turn = watch.repair.turn(watch.partitions)
        except FloebergError as error:
            _log.warning("repair_put_off", topic=watch.repair.topic.topic, error=str(error))
        watch.note(turn, self._clock.monotonic_ms(), self._limits)
        return turn or RepairTurn()
