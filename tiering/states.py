"""Brings together what the log directories, the broker, the spool and the tables say, one state a partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import FloebergError
from engine.fault_points import FaultPoint, reach
from engine.table.commit.writer import TableWriter
from engine.topic_partition import TopicIdPartition
from tiering.broker_watch import BrokerWatch
from tiering.cycle_report import PartitionReport
from tiering.log_dir_claim import LogDirClaims
from tiering.observation import PartitionLog, PartitionState, partitions_worth_asking
from tiering.partition_record import PartitionRecord
from tiering.planner import PlannedLink, plan_spool
from tiering.range_work import aborted_transactions
from tiering.spool import Spool
from tiering.tiered_topic import TieredTopic
from tiering.tiering_limits import TieringLimits
from tiering.topic_rule import TopicRule, rule_of
from tiering.watcher import LogObservation, LogWatcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """``failures``: partitions that can't be worked on now, with the reason; ``problems`` concern no one partition."""

    states: tuple[PartitionState, ...]
    logs: Mapping[TopicIdPartition, PartitionLog]
    views: Mapping[TopicIdPartition, PartitionView]
    node_ids: frozenset[int]
    problems: tuple[FloebergError, ...]
    failures: Mapping[TopicIdPartition, FloebergError]
    at_risk_bytes: Mapping[TopicIdPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldUp:
    """The partitions that are not worked on now, with what is wrong: until an operator looks, or for a while."""

    stopped: Mapping[TopicIdPartition, str]
    failing: Mapping[TopicIdPartition, str]


class StateObserver:
    """Keeps everything that makes observing cheap: the watcher's caches, the spool's list, the tables' last states."""

    def __init__(
        self,
        *,
        broker: Broker,
        log_dirs: Sequence[Path],
        writer: TableWriter,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: TieringLimits,
    ) -> None:
        self._watcher = LogWatcher(log_dirs, clock)
        self._broker = BrokerWatch(broker, clock=clock, limits=limits)
        self._spool = Spool(log_dirs)
        self._claims = LogDirClaims(log_dirs)
        self._spool_problems: tuple[FloebergError, ...] | None = None
        self._writer = writer
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits
        self._topics: dict[str, TieredTopic] = {}
        self._led_here: dict[TopicIdPartition, bool] = {}
        self._cluster_id = ""

    @property
    def spool_bytes(self) -> int:
        return self._spool.size_bytes

    def topic_of(self, partition: TopicIdPartition) -> TieredTopic:
        return self._topics[partition.topic_id]

    def log_start(self, topic_id: str, partition: int) -> int | None:
        """The broker's log start offset as last seen; None when it never was."""
        topic = self._topics.get(topic_id)
        if topic is None:
            return None
        who = TopicIdPartition(topic=topic.topic, topic_id=topic_id, partition=partition)
        view = self._broker.last_answered(who)
        return None if view is None else view.log_start_offset

    def topic_name(self, topic_id: str) -> str | None:
        """The name of a topic id that lies here; None for others."""
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.topic

    def observe(self, held_up: HeldUp, *, relink: Collection[TopicIdPartition]) -> Observed:
        """Look at everything. ``relink``: partitions whose links are made anew, as their segments may be repaired.

        Raises Unavailable when the broker does not answer, Invalid when it is not the log directories' own.
        """
        rivals = tuple(self._claims.rivals())
        if self._spool_problems is None:
            self._spool_problems = self._spool.read(is_shared=bool(rivals))
        seen = self._watcher.observe()
        self._cluster_id = self._broker.cluster_id(seen.cluster_ids)
        logs = {who: log for who, log in seen.logs.items() if rule_of(who.topic, self._rules) is not None}
        self._relink(logs, relink)
        lost = {who: error for who, error in seen.failures.items() if rule_of(who.topic, self._rules) is not None}
        partitions = sorted(logs.keys() | lost.keys() | self._spool.partitions())
        self._broker.forget(lambda who: who not in logs and who not in lost)
        leaders = self._broker.leaders(sorted({who.topic for who in partitions}))
        failures = {**self._open_tables(partitions, leaders, seen), **lost}
        observed = Observed(
            states=(),
            logs=logs,
            views=leaders,
            node_ids=seen.node_ids,
            problems=(*seen.problems, *self._spool_problems, *rivals),
            failures=failures,
            at_risk_bytes={},
        )
        observed = self.again(observed, held_up)
        views = self._broker.with_offsets(
            leaders,
            worth_asking=partitions_worth_asking(observed.states),
            led_here=lambda view: view.leader_id in seen.node_ids,
        )
        return observed if views is leaders else self.again(replace(observed, views=views), held_up)

    def again(self, observed: Observed, held_up: HeldUp) -> Observed:
        """The same observation with states made of what tables, spool and views say now."""
        native = self._broker.is_native(sorted({who.topic for who in observed.views}))
        partitions = sorted(observed.logs.keys() | observed.failures.keys() | self._spool.partitions())
        states = tuple(
            self._state(who, observed, native=native.get(who.topic, False), held_up=held_up)
            for who in partitions
            if who.topic_id in self._topics
        )
        return replace(observed, states=states)

    def hold(self, observed: Observed) -> Observed:
        """Bring the spool up to date: let go of what is committed, link what is ready."""
        plan = plan_spool(observed.states, self._limits)
        if plan.unlinks:
            reach(FaultPoint.SPOOL_ABOUT_TO_LET_GO)
        self._spool.unlink(plan.unlinks)
        problems = list(observed.problems)
        at_risk = dict(plan.at_risk)
        failures = dict(observed.failures)
        for link in plan.links:
            try:
                self._link(link, observed.logs[link.partition])
            except FloebergError as error:
                at_risk[link.partition] = at_risk.get(link.partition, 0) + link.segment.size_bytes
                if str(error) not in map(str, problems):
                    problems.append(error)
        if not plan.links and not plan.unlinks:
            return replace(observed, at_risk_bytes=at_risk)
        states = tuple(replace(state, spooled=self._spool.held(state.partition)) for state in observed.states)
        return replace(observed, states=states, at_risk_bytes=at_risk, problems=tuple(problems), failures=failures)

    def ensure_tables(
        self, partitions: Collection[TopicIdPartition], observed: Observed
    ) -> dict[TopicIdPartition, FloebergError]:
        """See that the topics of ``partitions`` have tables, and those that get theirs before their first record; the
        partitions of those that can't be had, and why."""
        partitions = {*partitions, *self._wanting_columns(observed)}
        known = {who.topic_id for who in observed.views}
        failures: dict[TopicIdPartition, FloebergError] = {}
        for topic_id in sorted({who.topic_id for who in partitions}):
            try:
                topic = self._topics[topic_id]
                topic.ensure(self._cluster_id, is_gone=topic_id not in known)
                if topic.wants_newest:
                    topic.add_newest()
            except FloebergError as error:
                failures |= {who: error for who in partitions if who.topic_id == topic_id}
        return failures

    def forget_lost_links(self, partition: TopicIdPartition) -> None:
        """Drop links whose file somebody removed: the segment is looked for in the log directory again."""
        self._spool.unlink([spooled for spooled in self._spool.held(partition) if not spooled.path.exists()])

    def report_of(self, state: PartitionState, record: PartitionRecord) -> PartitionReport:
        """The partition as it is after the cycle's commits."""
        who = state.partition
        topic = self._topics[who.topic_id]
        entry = topic.ledger(who.partition)
        view = self._broker.last_answered(who)
        end = None if entry is None else entry.end
        since_ms = self._broker.untiered_since_ms(who, end or 0)
        segments = () if state.log is None else state.log.segments
        closed = () if end is None or state.log is None else state.log.closed()
        tiered = [segment for segment in closed if segment.range.end <= (end or 0)]
        local_bytes = sum(segment.size_bytes for segment in segments)
        return PartitionReport(
            partition=who,
            table=None if topic.table is None else ".".join(topic.table.identifier),
            native=state.native,
            leads_here=state.is_leader,
            tiered_start=None if entry is None else entry.start,
            tiered_end=end,
            stable_end=None if view is None else view.last_stable_offset,
            high_watermark=None if view is None else view.high_watermark,
            log_start=None if view is None else view.log_start_offset,
            closed_end=tiered[-1].range.end if tiered else None,
            lag_ms=0 if since_ms is None else self._clock.monotonic_ms() - since_ms,
            lag_bytes=local_bytes - sum(segment.size_bytes for segment in tiered),
            local_log_bytes=local_bytes,
            spool_bytes=sum(spooled.size_bytes for spooled in state.spooled),
            at_risk_bytes=record.at_risk_bytes,
            waiting=record.waiting,
            problem=record.problem,
            records=record.records,
            raw_rows=record.raw_rows,
            undecodable_rows=record.undecodable_rows,
            skipped=tuple(record.skipped),
            skipped_offsets=record.skipped_offsets,
            refusals=record.refusals,
            last_refusal=record.last_refusal,
        )

    def _state(self, who: TopicIdPartition, observed: Observed, *, native: bool, held_up: HeldUp) -> PartitionState:
        topic = self._topics[who.topic_id]
        entry = topic.ledger(who.partition)
        view = observed.views.get(who)
        end = None if entry is None else entry.end
        return PartitionState(
            partition=who,
            log=observed.logs.get(who),
            spooled=self._spool.held(who),
            view=view,
            is_leader=view is not None and view.leader_id in observed.node_ids,
            tiered_end=end,
            tiered_epoch=-1 if entry is None else entry.epoch,
            native=native,
            freshness_ms=topic.rule.freshness_ms,
            untiered_since_ms=self._broker.untiered_since_ms(who, end or 0),
            stopped=held_up.stopped.get(who),
            failing=held_up.failing.get(who),
        )

    def _open_tables(
        self,
        partitions: Sequence[TopicIdPartition],
        leaders: Mapping[TopicIdPartition, PartitionView],
        seen: LogObservation,
    ) -> dict[TopicIdPartition, FloebergError]:
        """Tables whose state may be old are read again: where leadership came here, somebody else committed before."""
        for gone in self._topics.keys() - {who.topic_id for who in partitions}:
            del self._topics[gone]
        for who in partitions:
            topic = self._topic(who)
            if topic is None:
                continue
            leads_here = who in leaders and leaders[who].leader_id in seen.node_ids
            if leads_here and not self._led_here.get(who, False):
                topic.mark_stale()
            else:
                # Another daemon commits where it leads; other programs change a table at any time.
                topic.mark_stale_when_old()
            self._led_here[who] = leads_here
        errors: dict[str, FloebergError] = {}
        known = {who.topic_id for who in leaders}
        for topic_id, topic in self._topics.items():
            try:
                topic.open()
                # Of a topic that the broker has no more, what the spool holds is kept as its table was made.
                if topic_id in known:
                    topic.check_settings()
            except FloebergError as error:
                errors[topic_id] = error
        return {who: errors[who.topic_id] for who in partitions if who.topic_id in errors}

    def _topic(self, who: TopicIdPartition) -> TieredTopic | None:
        topic = self._topics.get(who.topic_id)
        if topic is None:
            rule = rule_of(who.topic, self._rules)
            if rule is None:
                return None
            topic = TieredTopic(
                topic=who.topic,
                topic_id=who.topic_id,
                rule=rule,
                writer=self._writer,
                clock=self._clock,
                limits=self._limits,
            )
            self._topics[who.topic_id] = topic
        return topic

    def _wanting_columns(self, observed: Observed) -> set[TopicIdPartition]:
        led = (state.partition for state in observed.states if state.is_leader)
        return {who for who in led if who not in observed.failures and self._topics[who.topic_id].wants_newest}

    def _link(self, link: PlannedLink, log: PartitionLog) -> None:
        self._spool.link(
            link.segment.path,
            log_dir=link.log_dir,
            partition=link.partition,
            segment_range=link.segment.range,
            leader_epoch=link.leader_epoch,
            aborted=aborted_transactions(log, link.segment.range),
        )

    def _relink(self, logs: Mapping[TopicIdPartition, PartitionLog], partitions: Collection[TopicIdPartition]) -> None:
        """Let go of links whose segments Kafka still has: they are linked again, as they are now."""
        for who in partitions:
            log = logs.get(who)
            present = set() if log is None else {segment.range for segment in log.closed()}
            self._spool.unlink([spooled for spooled in self._spool.held(who) if spooled.range in present])
