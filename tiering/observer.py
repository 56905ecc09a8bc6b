"""Brings together what the log directories, the broker, the spool and the tables say, one state an attended partition.

Which partitions these are, and what can be missed how long, is told in docs/tiering.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import FloebergError
from engine.fault_points import FaultPoint, reach
from engine.kafka_log.offset_index import position_before
from engine.topic_partition import TopicIdPartition
from tiering.attention import Attention, may_rest
from tiering.broker_watch import BrokerWatch
from tiering.observation import PartitionLog, PartitionState
from tiering.open_segment import OpenSegment, look_at
from tiering.partition_record import PartitionRecords
from tiering.planner import RangePlan, Waiting, WaitingReason
from tiering.spool import LogDirClaims, Spool
from tiering.tiered_topics import TieredTopics
from tiering.tiering_limits import TieringLimits
from tiering.watcher import LogObservation, LogWatcher
from topics.topic_rule import TopicRule, rule_of

_LOOKS_WITHIN_FRESHNESS = 4
"""Looks at an active segment within the time that its records may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """``states`` of the attended partitions; ``gone`` are here no more. ``known``: the ids of the attended topics that
    the broker has; ``problems`` concern no one partition. ``at_risk_bytes`` of ready segments that have no link, though
    they should."""

    states: tuple[PartitionState, ...]
    gone: frozenset[TopicIdPartition]
    known: frozenset[str]
    cluster_id: str
    problems: tuple[FloebergError, ...]
    at_risk_bytes: Mapping[TopicIdPartition, int] = field(default_factory=dict)


class StateObserver:
    """Keeps what makes observing cheap: the watcher's caches, what the broker said, whom to attend to."""

    def __init__(
        self,
        *,
        broker: Broker,
        log_dirs: Sequence[Path],
        spool: Spool,
        topics: TieredTopics,
        records: PartitionRecords,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: TieringLimits,
    ) -> None:
        self._watcher = LogWatcher(log_dirs, clock)
        self._broker = BrokerWatch(broker, clock=clock, limits=limits)
        self._attention = Attention()
        self._here: dict[str, set[TopicIdPartition]] = {}
        self._ours: dict[str, bool] = {}
        self._spool = spool
        self._claims = LogDirClaims(log_dirs)
        self._spool_problems: tuple[FloebergError, ...] | None = None
        self._topics = topics
        self._records = records
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits

    def last_answered(self, partition: TopicIdPartition) -> PartitionView | None:
        """The broker's offsets of a partition as they last were."""
        return self._broker.last_answered(partition)

    def untiered_since_ms(self, partition: TopicIdPartition, tiered_end: int) -> int | None:
        """Since when (monotonic) the oldest stable record beyond ``tiered_end`` waits; None while there is none."""
        return self._broker.untiered_since_ms(partition, tiered_end)

    def open_segment(self, state: PartitionState) -> OpenSegment | None:
        """The active segment of a partition as it is now; None where there is none, or it is empty."""
        if state.log is None or not state.log.segments:
            return None
        return look_at(state.log.segments[-1].log_path, self._broker.segment_bounds(state.partition.topic))

    def observe(self, under_way: Collection[TopicIdPartition] = ()) -> Observed:
        """Look at what changed. ``under_way``: partitions that stay known until the work on them has ended.

        Raises Unavailable when the broker does not answer, Invalid when it is not the log directories' own; what was to
        be attended then is in the next cycle."""
        rivals = tuple(self._claims.rivals())
        if self._spool_problems is None:
            self._spool_problems = self._spool.read(is_shared=bool(rivals))
            self._wake(self._spool.partitions())
        seen = self._watcher.observe()
        self._wake_for(seen)
        reach(FaultPoint.LOGS_SEEN)
        cluster_id = self._broker.cluster_id(seen.cluster_ids)
        self._broker.begin_cycle(self._topic_names)
        self._wake(who for who in self._broker.take_moved() if who in self._here.get(who.topic_id, ()))
        attended, gone = self._attended(seen, under_way)
        states, known = self._states(attended, seen, under_way)
        return Observed(
            states=states,
            gone=gone,
            known=known,
            cluster_id=cluster_id,
            problems=(*seen.problems, *self._spool_problems, *rivals),
        )

    def settle(self, states: Sequence[PartitionState], plan: RangePlan) -> None:
        """After a cycle: which of the attended partitions may be left alone until something changes, or until when."""
        planned = {planned.partition for planned in plan.ranges}
        for state in states:
            who = state.partition
            self._watcher.look_every(who, self._look_interval_ms(state))
            has_problem = self._records.of(who).problem is not None
            if who in planned or not may_rest(state, plan.waiting.get(who), has_problem=has_problem):
                continue
            self._attention.rest(who)
            for due_ms in self._times_of(state, plan.waiting.get(who)):
                self._attention.wake_at(who, due_ms)

    def with_table(self, state: PartitionState) -> PartitionState:
        """The state now that its table was seen to, with what the ledger says now."""
        return replace(state, has_table=True, **self._ledger(state.partition, state.log))

    def _wake(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Attend to those that a rule matches."""
        for who in partitions:
            if who.topic not in self._ours:
                self._ours[who.topic] = rule_of(who.topic, self._rules) is not None
            if self._ours[who.topic]:
                self._here.setdefault(who.topic_id, set()).add(who)
                self._attention.wake(who)

    def _wake_for(self, seen: LogObservation) -> None:
        self._wake(seen.changed | seen.failures.keys() | seen.grown.keys())
        for who, unchanged_ms in seen.grown.items():
            self._broker.note_growth(who, unchanged_ms)
        turn = self._topics.take_turn()
        told_of = self._topics.take_new_tables() | ({turn} if turn is not None else set())
        self._wake(who for topic_id in told_of for who in self._here.get(topic_id, ()))

    def _topic_names(self) -> frozenset[str]:
        return frozenset(who.topic for partitions in self._here.values() for who in partitions)

    def _attended(
        self, seen: LogObservation, under_way: Collection[TopicIdPartition]
    ) -> tuple[list[TopicIdPartition], frozenset[TopicIdPartition]]:
        """Whose state is made again, in order; and who is here no more, which is forgotten."""
        attended: list[TopicIdPartition] = []
        gone: set[TopicIdPartition] = set()
        for who in self._attention.take(self._clock.monotonic_ms()):
            if who in seen.logs or who in seen.failures or who in under_way or self._spool.held(who):
                attended.append(who)
                continue
            gone.add(who)
            self._attention.forget(who)
            self._broker.forget(who)
            self._here[who.topic_id].discard(who)
            is_last = not self._here[who.topic_id]
            self._records.forget(who, is_last=is_last)
            self._topics.forget(who, is_last=is_last)
            if is_last:
                del self._here[who.topic_id]
        return attended, frozenset(gone)

    def _states(
        self, attended: Sequence[TopicIdPartition], seen: LogObservation, under_way: Collection[TopicIdPartition]
    ) -> tuple[tuple[PartitionState, ...], frozenset[str]]:
        """States with the offsets of now; and the topic ids that the broker has now."""
        names = {who.topic for who in attended}
        leaders = self._broker.leaders(names)
        led_here = {who for who in attended if _leads(leaders.get(who), seen)}
        failures, concerned = self._topics.open(attended, led_here=led_here, known={who.topic_id for who in leaders})
        for topic_id in concerned:
            self._wake(tuple(self._here[topic_id]))
        failures |= seen.failures
        native = self._broker.is_native(sorted({who.topic for who in leaders}))
        asked = {who: self._watcher.looked_at_ms(who) for who in attended if who in led_here}
        views = self._broker.with_offsets(names, asked)
        states = tuple(
            PartitionState(
                partition=who,
                log=seen.logs.get(who),
                spooled=self._spool.held(who),
                view=views.get(who),
                is_leader=_leads(views.get(who), seen),
                native=native.get(who.topic, False),
                failure=failures.get(who),
                has_table=False,
                under_way=who in under_way,
                **self._remembered(who, seen.logs.get(who)),
            )
            for who in attended
        )
        return states, frozenset(who.topic_id for who in views)

    def _look_interval_ms(self, state: PartitionState) -> int | None:
        if not state.is_leader or state.log is None:
            return None
        lag_ms = self._limits.lag_interval_ms
        return lag_ms if state.freshness_ms is None else min(lag_ms, state.freshness_ms // _LOOKS_WITHIN_FRESHNESS)

    def _times_of(self, state: PartitionState, waiting: WaitingReason | None) -> Iterator[int]:
        """When a partition is attended though nothing changes (monotonic)."""
        if waiting is not None and waiting.kind is Waiting.FORMAT:
            # What is due can't be done: what may end the wait is a source that answers, or patience.
            yield self._clock.monotonic_ms() + self._limits.lag_interval_ms
        elif state.prefix_due_ms is not None:
            yield state.prefix_due_ms
        if not state.is_leader:
            return
        if state.view is None or not state.view.is_answered:
            yield self._clock.monotonic_ms() + self._limits.lag_interval_ms
        again_ms = self._broker.asks_again_ms(state.partition)
        if again_ms is not None:
            yield again_ms
        newest_ms = self._topics.of(state.partition).wants_newest_at_ms
        if newest_ms is not None:
            yield newest_ms

    def _ledger(self, who: TopicIdPartition, log: PartitionLog | None) -> dict[str, Any]:
        entry = self._topics.of(who).ledger(who.partition)
        end, epoch = (None, -1) if entry is None else (entry.end, entry.epoch)
        since_ms = self._broker.untiered_since_ms(who, end or 0)
        found = {"tiered_end": end, "tiered_epoch": epoch, "untiered_since_ms": since_ms}
        return found if log is None or since_ms is None else found | _bytes_beyond(log, end)

    def _remembered(self, who: TopicIdPartition, log: PartitionLog | None) -> dict[str, Any]:
        """What tables, settings and earlier cycles say of a partition."""
        record = self._records.of(who)
        is_failing = record.waits_for_retry(self._clock.monotonic_ms())
        return {
            **self._ledger(who, log),
            "freshness_ms": self._topics.of(who).rule.freshness_ms,
            "stopped": None if record.stopped is None else str(record.stopped),
            "failing": str(record.problem) if is_failing else None,
            "seen_ms_per_mib": record.seen_ms_per_mib,
        }


def _bytes_beyond(log: PartitionLog, tiered_end: int | None) -> dict[str, int]:
    """Where the records begin that wait, and how much there is of the active segment, which grows."""
    position = 0
    segment = None if tiered_end is None else log.segment_with(tiered_end)
    if segment is not None and tiered_end is not None and tiered_end > segment.base_offset:
        position = position_before(segment, tiered_end)
    try:
        active_bytes = log.segments[-1].log_path.stat().st_size if log.segments else 0
    except OSError:
        active_bytes = 0
    return {"tiered_position": position, "active_bytes": active_bytes}


def _leads(view: PartitionView | None, seen: LogObservation) -> bool:
    return view is not None and view.leader_id in seen.node_ids
