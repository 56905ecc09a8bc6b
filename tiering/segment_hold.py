"""Keeps the spool: ready segments are held by hard links until they are committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from engine.errors import FloebergError
from engine.fault_points import FaultPoint, reach
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog, PartitionState
from tiering.observer import Observed
from tiering.planner import PlannedLink, plan_spool
from tiering.range_work import aborted_transactions
from tiering.spool import Spool
from tiering.tiering_limits import TieringLimits


class SegmentHold:
    """For the loop's thread, on the spool that the observer reads."""

    def __init__(self, spool: Spool, limits: TieringLimits) -> None:
        self.spool = spool
        self._limits = limits

    def update(self, observed: Observed, relink: Collection[TopicIdPartition]) -> Observed:
        """Let go of what is committed, link what is ready. ``relink``: partitions whose links are made again where
        Kafka still has the segments, as these may be repaired."""
        self._link_again([state.log for state in observed.states if state.log and state.partition in relink])
        states = self._with_links(observed.states) if relink else observed.states
        plan = plan_spool(states, self._limits)
        if plan.unlinks:
            reach(FaultPoint.SPOOL_ABOUT_TO_LET_GO)
        self.spool.unlink(plan.unlinks)
        problems: dict[str, FloebergError] = {}
        at_risk = dict(plan.at_risk)
        for link in plan.links:
            try:
                self._link(link)
            except FloebergError as error:
                at_risk[link.partition] = at_risk.get(link.partition, 0) + link.segment.size_bytes
                problems.setdefault(str(error), error)
        return replace(
            observed,
            states=self._with_links(states) if plan.links or plan.unlinks else states,
            at_risk_bytes=at_risk,
            problems=(*observed.problems, *problems.values()),
        )

    def forget_lost(self, partition: TopicIdPartition) -> None:
        """Drop links whose file somebody removed: the segment is looked for in the log directory again."""
        self.spool.unlink([spooled for spooled in self.spool.held(partition) if not spooled.path.exists()])

    def _link_again(self, logs: Collection[PartitionLog]) -> None:
        for log in logs:
            held = {spooled.range: spooled.leader_epoch for spooled in self.spool.held(log.partition)}
            for segment in (segment for segment in log.closed() if segment.range in held):
                epoch = held[segment.range]
                link = PlannedLink(partition=log.partition, log_dir=log.log_dir, segment=segment, leader_epoch=epoch)
                # Where that can't be done, what is held stays: it may be all that there is.
                with suppress(FloebergError):
                    self._link(link)

    def _with_links(self, states: Sequence[PartitionState]) -> tuple[PartitionState, ...]:
        return tuple(replace(state, spooled=self.spool.held(state.partition)) for state in states)

    def _link(self, link: PlannedLink) -> None:
        self.spool.link(
            link.segment.path,
            log_dir=link.log_dir,
            partition=link.partition,
            segment_range=link.segment.range,
            leader_epoch=link.leader_epoch,
            aborted=aborted_transactions(link.segment.path, link.segment.range),
        )
