"""Brings together what the log directories, the broker, the spool and the tables say, one state a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import FloebergError
from engine.topic_partition import TopicIdPartition
from tiering.broker_watch import BrokerWatch
from tiering.log_dir_claim import LogDirClaims
from tiering.observation import PartitionLog, PartitionState, partitions_worth_asking
from tiering.partition_record import PartitionRecords
from tiering.spool import Spool
from tiering.tiered_topics import TieredTopics
from tiering.tiering_limits import TieringLimits
from tiering.watcher import LogObservation, LogWatcher
from topics.topic_rule import TopicRule, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """``known``: the topic ids that the broker has; ``problems`` concern no one partition. ``at_risk_bytes`` of ready
    segments that have no link, though they should."""

    states: tuple[PartitionState, ...]
    known: frozenset[str]
    cluster_id: str
    problems: tuple[FloebergError, ...]
    at_risk_bytes: Mapping[TopicIdPartition, int] = field(default_factory=dict)

    @property
    def logs(self) -> dict[TopicIdPartition, PartitionLog]:
        """The live directories."""
        return {state.partition: state.log for state in self.states if state.log is not None}


class StateObserver:
    """Keeps what makes observing cheap: the watcher's caches, what the broker said, the tables' last states."""

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
        self._spool = spool
        self._claims = LogDirClaims(log_dirs)
        self._spool_problems: tuple[FloebergError, ...] | None = None
        self._topics = topics
        self._records = records
        self._rules = tuple(rules)
        self._clock = clock

    def last_answered(self, partition: TopicIdPartition) -> PartitionView | None:
        """The broker's offsets of a partition as they last were."""
        return self._broker.last_answered(partition)

    def lag_ms(self, partition: TopicIdPartition, tiered_end: int) -> int:
        """How long the oldest stable record beyond ``tiered_end`` has waited; 0 while there is none."""
        since_ms = self._broker.untiered_since_ms(partition, tiered_end)
        return 0 if since_ms is None else self._clock.monotonic_ms() - since_ms

    def observe(self) -> Observed:
        """Look at everything. Raises Unavailable when the broker does not answer, Invalid when it is not the log
        directories' own."""
        rivals = tuple(self._claims.rivals())
        if self._spool_problems is None:
            self._spool_problems = self._spool.read(is_shared=bool(rivals))
        seen = self._watcher.observe()
        cluster_id = self._broker.cluster_id(seen.cluster_ids)
        logs = {who: log for who, log in seen.logs.items() if rule_of(who.topic, self._rules) is not None}
        lost = {who: error for who, error in seen.failures.items() if rule_of(who.topic, self._rules) is not None}
        partitions = sorted(logs.keys() | lost.keys() | self._spool.partitions())
        self._broker.forget(lambda who: who not in logs and who not in lost)
        leaders = self._broker.leaders(sorted({who.topic for who in partitions}))
        led_here = frozenset(who for who in partitions if _leads(leaders.get(who), seen))
        failures = self._topics.open(partitions, led_here=led_here, known={who.topic_id for who in leaders}) | lost
        native = self._broker.is_native(sorted({who.topic for who in leaders}))

        def made(views: Mapping[TopicIdPartition, PartitionView]) -> tuple[PartitionState, ...]:
            return tuple(
                PartitionState(
                    partition=who,
                    log=logs.get(who),
                    spooled=self._spool.held(who),
                    view=views.get(who),
                    is_leader=_leads(views.get(who), seen),
                    native=native.get(who.topic, False),
                    failure=failures.get(who),
                    has_table=False,
                    **self._remembered(who),
                )
                for who in partitions
                if self._topics.get(who.topic_id) is not None
            )

        states = made(leaders)
        views = self._broker.with_offsets(
            leaders,
            worth_asking=partitions_worth_asking(states),
            led_here=lambda view: view.leader_id in seen.node_ids,
        )
        return Observed(
            states=states if views is leaders else made(views),
            known=frozenset(who.topic_id for who in views),
            cluster_id=cluster_id,
            problems=(*seen.problems, *self._spool_problems, *rivals),
        )

    def with_table(self, state: PartitionState) -> PartitionState:
        """The state now that its table was seen to, with what the ledger says now."""
        return replace(state, has_table=True, **self._ledger(state.partition))

    def _ledger(self, who: TopicIdPartition) -> dict[str, Any]:
        entry = self._topics.of(who).ledger(who.partition)
        end, epoch = (None, -1) if entry is None else (entry.end, entry.epoch)
        since_ms = self._broker.untiered_since_ms(who, end or 0)
        return {"tiered_end": end, "tiered_epoch": epoch, "untiered_since_ms": since_ms}

    def _remembered(self, who: TopicIdPartition) -> dict[str, Any]:
        """What tables, settings and earlier cycles say of a partition."""
        record = self._records.of(who)
        is_failing = record.waits_for_retry(self._clock.monotonic_ms())
        return {
            **self._ledger(who),
            "freshness_ms": self._topics.of(who).rule.freshness_ms,
            "stopped": None if record.stopped is None else str(record.stopped),
            "failing": str(record.problem) if is_failing else None,
        }


def _leads(view: PartitionView | None, seen: LogObservation) -> bool:
    return view is not None and view.leader_id in seen.node_ids
