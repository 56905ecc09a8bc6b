"""Brings together what the log directories, the broker, the spool and the tables say, one state a partition.

The broker is asked as rarely as that can be: leaders each cycle, offsets where they decide something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import FloebergError, Invalid
from engine.fault_points import FaultPoint, reach
from engine.kafka_log.offset_index import position_before
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog, PartitionState, partitions_worth_asking
from tiering.partition_record import PartitionRecords
from tiering.spool import LogDirClaims, Spool
from tiering.tiered_topics import TieredTopics
from tiering.tiering_limits import TieringLimits
from tiering.watcher import LogObservation, LogWatcher
from topics.topic_rule import TopicRule, rule_of

_SAMPLES = 256
"""Offsets remembered a partition: when they are more, every second one goes, and the lag gets coarser with its age."""

_REMOTE_STORAGE = "remote.storage.enable"
_COPY_DISABLED = "remote.log.copy.disable"


class StableHistory:
    """One partition's last stable offsets over time. Times are monotonic milliseconds, so that no wait is negative."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, now_ms: int, stable_offset: int) -> None:
        """Remember what the leader said just now. Offsets that did not rise add nothing."""
        if self._samples and stable_offset <= self._samples[-1][1]:
            return
        self._samples.append((now_ms, stable_offset))
        if len(self._samples) > _SAMPLES:
            kept = [sample for index, sample in enumerate(self._samples) if index % 2 == 0]
            self._samples = deque([*kept[:-1], self._samples[-1]])

    def untiered_since_ms(self, tiered_end: int) -> int | None:
        """When a stable offset beyond ``tiered_end`` was first seen; None while there is none."""
        while self._samples and self._samples[0][1] <= tiered_end:
            self._samples.popleft()
        return self._samples[0][0] if self._samples else None


class BrokerWatch:
    """What is known of the cluster, and how old it is. Every method may raise Unavailable."""

    def __init__(self, broker: Broker, *, clock: Clock, limits: TieringLimits) -> None:
        self._broker = broker
        self._clock = clock
        self._limits = limits
        self._cluster_id: str | None = None
        self._native: dict[str, bool] = {}
        self._configs_at_ms: int | None = None
        self._all_asked_at_ms: int | None = None
        self._last_answered: dict[TopicIdPartition, PartitionView] = {}
        self._stable: dict[TopicIdPartition, StableHistory] = {}

    def cluster_id(self, seen_in_log_dirs: Collection[str]) -> str:
        """The cluster's id. Raises Invalid when the log directories are another cluster's."""
        if self._cluster_id is None:
            self._cluster_id = self._broker.cluster_id()
        strangers = sorted(set(seen_in_log_dirs) - {self._cluster_id})
        if strangers:
            raise Invalid(
                f"the log directories belong to the cluster {strangers[0]}, the broker to {self._cluster_id}",
                next_step="make [broker] bootstrap and log_dirs those of one broker.",
            )
        return self._cluster_id

    def leaders(self, topics: Collection[str]) -> Mapping[TopicIdPartition, PartitionView]:
        """Who leads which partition, in one request."""
        return self._broker.partitions(topics, offsets_of=()) if topics else {}

    def with_offsets(
        self,
        leaders: Mapping[TopicIdPartition, PartitionView],
        *,
        worth_asking: Collection[TopicIdPartition],
        led_here: Callable[[PartitionView], bool],
    ) -> Mapping[TopicIdPartition, PartitionView]:
        """``leaders`` with offsets for what is worth asking, and now and then for all that is led here.

        A topic that was deleted or created again in between is not in the answer under its old id.
        """
        asked = set(worth_asking)
        now_ms = self._clock.monotonic_ms()
        if self._all_asked_at_ms is None or now_ms - self._all_asked_at_ms >= self._limits.lag_interval_ms:
            self._all_asked_at_ms = now_ms
            asked = {partition for partition, view in leaders.items() if led_here(view)}
        if not asked:
            return leaders
        topics = {partition.topic for partition in asked}
        answered = self._broker.partitions(topics, offsets_of=asked)
        for partition, view in answered.items():
            if view.is_answered:
                self._last_answered[partition] = view
                history = self._stable.setdefault(partition, StableHistory())
                history.note(now_ms, view.last_stable_offset)
        others = {partition: view for partition, view in leaders.items() if partition.topic not in topics}
        return {**others, **answered}

    def is_native(self, topics: Collection[str]) -> Mapping[str, bool]:
        """Which topics keep their segments until they are told that these are tiered (KIP-405)."""
        now_ms = self._clock.monotonic_ms()
        is_old = self._configs_at_ms is None or now_ms - self._configs_at_ms >= self._limits.config_interval_ms
        if is_old or any(topic not in self._native for topic in topics):
            configs = self._broker.topic_configs(topics)
            self._native = {topic: _waits_for_copies(configs.get(topic, {})) for topic in topics}
            self._configs_at_ms = now_ms
        return self._native

    def last_answered(self, partition: TopicIdPartition) -> PartitionView | None:
        """The offsets as they last were, for what is shown and for the log door; never for a plan."""
        return self._last_answered.get(partition)

    def untiered_since_ms(self, partition: TopicIdPartition, tiered_end: int) -> int | None:
        """Since when (monotonic) stable records beyond ``tiered_end`` wait; None when none does.

        Counted from when this process first saw them: a record's own timestamp may say anything.
        """
        history = self._stable.get(partition)
        return None if history is None else history.untiered_since_ms(tiered_end)

    def forget(self, gone: Callable[[TopicIdPartition], bool]) -> None:
        """Drop what is remembered of partitions that are gone."""
        for memory in (self._last_answered, self._stable):
            for partition in [partition for partition in memory if gone(partition)]:
                del memory[partition]


def _waits_for_copies(config: Mapping[str, str]) -> bool:
    """The broker keeps each segment until its copy is confirmed; not where copying is turned off (KIP-950), which
    leaves tiered storage readable and gives local segments to the topic's own retention."""
    return config.get(_REMOTE_STORAGE) == "true" and config.get(_COPY_DISABLED) != "true"


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
        reach(FaultPoint.LOGS_SEEN)
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
                    **self._remembered(who, logs.get(who)),
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
        return replace(state, has_table=True, **self._ledger(state.partition, state.log))

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
