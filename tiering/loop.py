"""The tiering loop: observe, plan, act, record; one commit a table a cycle, and one more for partitions that
failed before (docs/tiering.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from engine.broker import Broker
from engine.clock import Clock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.offset_range import OffsetRange
from engine.table.commit.range_append import Outcome
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.idle_repair import IdleRepair
from tiering.observation import PartitionState
from tiering.partition_record import PartitionRecord
from tiering.planner import PlannedRange, RangePlan, Waiting, plan_ranges
from tiering.range_work import RangeWork, ReadyAppend
from tiering.rewriter import Rewriter
from tiering.states import HeldUp, Observed, StateObserver
from tiering.tiered_topic import TieredTopic
from tiering.tiering_limits import TieringLimits
from tiering.topic_repair import RepairTurn
from tiering.topic_rule import TopicRule

_LONGEST_BACKOFF_MS = 30_000
"""Between cycles that fail as a whole (broker or catalog away); a hurry ends the wait all the same."""

_NOTHING_LEFT = frozenset(
    {
        Waiting.NOTHING_CLOSED,
        Waiting.LEADER_ELSEWHERE,
        Waiting.NEWER_OWNER,
        Waiting.UNKNOWN_TOPIC,
        Waiting.OPEN_TRANSACTION,
        Waiting.NOT_REPLICATED,
    }
)
"""Reasons why a partition has nothing to do now that could go wrong."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Committed:
    """What the commits of one cycle added, and how long its steps took."""

    commits: int = 0
    files: int = 0
    records: int = 0
    value_bytes: int = 0
    ranges: dict[TopicIdPartition, list[OffsetRange]]
    durations_ms: dict[str, float]


class TieringLoop:
    """Drives one broker's partitions into their tables. ``cycle`` is for one thread; the rest for any.

    ``rules`` choose topics, first match first. What was committed is announced to ``listeners`` after each commit,
    from the loop's thread.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        log_dirs: Sequence[Path],
        writer: TableWriter,
        verifier: Verifier,
        rewriter: Rewriter,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: TieringLimits | None = None,
    ) -> None:
        self._clock = clock
        self._limits = limits or TieringLimits()
        self._observer = StateObserver(
            broker=broker, log_dirs=log_dirs, writer=writer, rules=rules, clock=clock, limits=self._limits
        )
        self._work = RangeWork(rewriter, verifier, clock)
        self._repair = IdleRepair(rewriter=rewriter, verifier=verifier, clock=clock, limits=self._limits)
        self._records: dict[TopicIdPartition, PartitionRecord] = {}
        self._listeners: list[Callable[[CycleReport], None]] = []
        self._wake = threading.Event()
        self._report: CycleReport | None = None
        self._known_problems: frozenset[str] = frozenset()

    @property
    def report(self) -> CycleReport | None:
        """The last cycle's report; None before the first has ended."""
        return self._report

    def on_cycle(self, listener: Callable[[CycleReport], None]) -> None:
        """Call ``listener`` after every cycle, commits and failures included."""
        self._listeners.append(listener)

    def hurry(self) -> None:
        """Somebody waits: begin the next cycle at once. Returns at once."""
        self._wake.set()

    def log_start(self, topic_id: str, partition: int) -> int | None:
        """The broker's log start offset as it was last seen; None when it never was."""
        return self._observer.log_start(topic_id, partition)

    def topic_of(self, topic_id: str) -> str | None:
        """The name of a topic id as it was last seen in the log directories; None when it never was."""
        return self._observer.topic_name(topic_id)

    def run_forever(self, stop: threading.Event) -> None:
        """Cycle until ``stop`` is set; call ``hurry`` behind setting it to end a pause."""
        failures = 0
        while not stop.is_set():
            self._wake.clear()
            report = self._guarded_cycle()
            failed_whole = bool(report.problems) and not report.partitions
            failures = failures + 1 if failed_whole else 0
            if report.more or stop.is_set():
                continue
            pause_ms = min(self._limits.cycle_interval_ms << min(failures, 10), _LONGEST_BACKOFF_MS)
            self._wake.wait(max(pause_ms, self._limits.cycle_interval_ms) / 1000)

    def cycle(self) -> CycleReport:
        """One turn. Raises nothing that a later cycle can overcome: what went wrong is in the report."""
        started_ms, began_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            report = self._cycle(started_ms, began_ms)
        except FloebergError as error:
            whole_ms = self._clock.monotonic_ms() - began_ms
            report = CycleReport(started_ms=started_ms, durations_ms={"whole": whole_ms}, problems=(error,))
        return self._publish(report)

    def _publish(self, report: CycleReport) -> CycleReport:
        self._report = report
        problems = frozenset(map(str, report.problems))
        for problem in sorted(problems - self._known_problems):
            _log.warning("problem", error=problem)
        for problem in sorted(self._known_problems - problems):
            _log.info("problem_over", error=problem)
        self._known_problems = problems
        for listener in self._listeners:
            try:
                listener(report)
            except Exception:  # noqa: BLE001 - the outermost guard of what others do with a report
                _log.exception("listener_failed")
        return report

    def _guarded_cycle(self) -> CycleReport:
        try:
            return self.cycle()
        except Exception as error:  # noqa: BLE001 - the outermost guard of the daemon's loop
            _log.exception("cycle_ended_unforeseen")
            problem = Unavailable(
                f"a cycle ended with an error that is not one of ours: {error!r}",
                next_step="the next cycle tries again; if it stays, report it with the log's stack trace.",
            )
            return self._publish(CycleReport(started_ms=self._clock.now_ms(), durations_ms={}, problems=(problem,)))

    def _cycle(self, started_ms: int, began_ms: int) -> CycleReport:
        observed, plan = self._plan()
        committed = _Committed(ranges={}, durations_ms={"observe": self._clock.monotonic_ms() - began_ms})
        for ranges in self._turns(plan.ranges):
            self._work_on(ranges, observed, committed)
        repaired = RepairTurn() if plan.ranges else self._repair.turn(self._led_here(observed))
        # Work that was refused or failed waits for the pause; work that was left for its size does not.
        is_limited = any(reason.kind is Waiting.LIMIT for reason in plan.waiting.values())
        return CycleReport(
            started_ms=started_ms,
            durations_ms={**committed.durations_ms, "whole": self._clock.monotonic_ms() - began_ms},
            commits=committed.commits,
            files=committed.files,
            records=committed.records,
            value_bytes=committed.value_bytes,
            committed={partition: tuple(ranges) for partition, ranges in committed.ranges.items()},
            partitions=tuple(self._report_of(state) for state in observed.states),
            problems=observed.problems,
            spool_bytes=self._observer.spool_bytes,
            repaired_files=repaired.replaced,
            repaired_records=repaired.gained,
            more=(is_limited and committed.commits > 0) or (repaired.replaced > 0 and repaired.left > 0),
        )

    def _led_here(self, observed: Observed) -> dict[str, tuple[TieredTopic, list[int]]]:
        """The topics with the partitions that this loop's broker leads."""
        led: dict[str, tuple[TieredTopic, list[int]]] = {}
        for state in observed.states:
            if state.is_leader and state.partition not in observed.failures:
                topic = self._observer.topic_of(state.partition)
                led.setdefault(state.partition.topic_id, (topic, []))[1].append(state.partition.partition)
        return led

    def _turns(self, ranges: Sequence[PlannedRange]) -> list[Sequence[PlannedRange]]:
        """Partitions that failed the last time have a turn of their own, the last: what they do may kill a worker, or
        take until a time-out, and no other partition's commit is to wait for that."""
        suspects = {partition for partition, record in self._records.items() if record.failures}
        sound = [planned for planned in ranges if planned.partition not in suspects]
        suspect = [planned for planned in ranges if planned.partition in suspects]
        return [turn for turn in (sound, suspect) if turn]

    def _work_on(self, ranges: Sequence[PlannedRange], observed: Observed, committed: _Committed) -> None:
        work = self._work.run(ranges, logs=observed.logs, topic_of=self._observer.topic_of)
        for partition, error in work.failures.items():
            self._fail(partition, error)
        worked_ms = self._clock.monotonic_ms()
        if work.ready:
            reach(FaultPoint.RANGES_VERIFIED)
            self._commit(work.ready, committed)
        for step, duration_ms in {**work.durations_ms, "commit": self._clock.monotonic_ms() - worked_ms}.items():
            committed.durations_ms[step] = committed.durations_ms.get(step, 0) + duration_ms

    def _plan(self) -> tuple[Observed, RangePlan]:
        """Observe and plan; a plan stands only on tables that exist, which somebody else may have made and filled."""
        now_ms = self._clock.monotonic_ms()
        due = {partition for partition, record in self._records.items() if record.is_due(now_ms)}
        for partition in due:
            self._records[partition].resume()
        observed = self._observer.observe(self._held_up(), relink=due)
        for partition, error in observed.failures.items():
            # A damaged table, or one that somebody else broke, is nothing that the next look overcomes.
            (self._fail if isinstance(error, Corrupt) else self._show)(partition, error)
        observed = self._observer.hold(observed)
        plan = self._planned(observed, observed.failures)
        failures = self._observer.ensure_tables({item.partition for item in plan.ranges}, observed)
        for partition, error in failures.items():
            self._fail(partition, error)
        if plan.ranges:
            observed = self._observer.again(observed, self._held_up())
            plan = self._planned(observed, {**observed.failures, **failures})
            # Where somebody else did the work, other topics come up, whose tables were not asked for: next cycle.
            plan = replace(plan, ranges=tuple(filter(self._has_table, plan.ranges)))
        failures = {**observed.failures, **failures}
        planned = {item.partition for item in plan.ranges}
        for state in observed.states:
            record = self._record(state.partition)
            record.waiting = plan.waiting.get(state.partition)
            record.at_risk_bytes = observed.at_risk_bytes.get(state.partition, 0)
            nothing_left = record.waiting is not None and record.waiting.kind in _NOTHING_LEFT
            if nothing_left and state.partition not in planned and state.partition not in failures:
                # Somebody else did it, or it needs no doing any more: what was wrong must not be shown for ever.
                record.recover()
        self._records = {state.partition: self._record(state.partition) for state in observed.states}
        return observed, plan

    def _has_table(self, item: PlannedRange) -> bool:
        return self._observer.topic_of(item.partition).table is not None

    def _planned(self, observed: Observed, failures: Mapping[TopicIdPartition, FloebergError]) -> RangePlan:
        """The plan without the partitions whose tables can't be had now."""
        now_ms = self._clock.monotonic_ms()
        # Planned apart: what can't be done must take no other's place under the limits.
        sound = plan_ranges(
            [state for state in observed.states if state.partition not in failures], self._limits, now_ms=now_ms
        )
        failing = plan_ranges(
            [state for state in observed.states if state.partition in failures], self._limits, now_ms=now_ms
        )
        return RangePlan(ranges=sound.ranges, waiting={**failing.waiting, **sound.waiting})

    def _commit(self, ready: Sequence[ReadyAppend], committed: _Committed) -> None:
        by_topic: dict[str, list[ReadyAppend]] = {}
        for item in ready:
            by_topic.setdefault(item.planned.partition.topic_id, []).append(item)
        for items in by_topic.values():
            topic = self._observer.topic_of(items[0].planned.partition)
            settings = next((item.settings for item in items if item.settings is not None), None)
            try:
                result = topic.commit([item.append for item in items], settings)
            except FloebergError as error:
                for item in items:
                    self._fail(item.planned.partition, error)
                continue
            reach(FaultPoint.LOOP_TOLD)
            outcomes = {id(entry.append): entry.outcome for entry in result.results}
            added = [item for item in items if outcomes[id(item.append)] is Outcome.COMMITTED]
            for item in items:
                self._settle(item, outcomes[id(item.append)])
            committed.commits += bool(added)
            for item in added:
                committed.files += item.append.file is not None
                committed.records += item.append.digest.record_count
                committed.value_bytes += item.value_bytes
                committed.ranges.setdefault(item.planned.partition, []).append(item.planned.range)
            if added:
                _log.info(
                    "committed",
                    topic=topic.topic,
                    ranges=len(added),
                    records=sum(item.append.digest.record_count for item in added),
                    snapshot=result.table.snapshot_id,
                )

    def _settle(self, item: ReadyAppend, outcome: Outcome) -> None:
        planned = item.planned
        if outcome is Outcome.COMMITTED:
            self._record(planned.partition).succeed(item)
            if planned.skipped is not None:
                _log.warning(
                    "offsets_skipped",
                    topic=planned.partition.topic,
                    partition=planned.partition.partition,
                    start=planned.skipped.start,
                    end=planned.skipped.end,
                    reason="Kafka deleted them before they were tiered",
                )
        elif outcome is not Outcome.ALREADY_THERE:
            refusal = _refused(planned, outcome)
            self._record(planned.partition).refused(refusal)
            self._fail(planned.partition, refusal)

    def _fail(self, partition: TopicIdPartition, error: FloebergError) -> None:
        """Work on a partition failed."""
        error = error.located(partition.topic, partition.partition)
        self._log_problem(partition, error)
        self._observer.forget_lost_links(partition)
        self._record(partition).fail(error, now_ms=self._clock.monotonic_ms(), limits=self._limits)

    def _show(self, partition: TopicIdPartition, error: FloebergError) -> None:
        """A partition can't be worked on in this cycle; that it could not be looked at costs it no later one."""
        error = error.located(partition.topic, partition.partition)
        self._log_problem(partition, error)
        self._record(partition).problem = error

    def _log_problem(self, partition: TopicIdPartition, error: FloebergError) -> None:
        known = self._record(partition).problem
        if known is None or str(known) != str(error):
            _log.warning("partition_failed", topic=partition.topic, partition=partition.partition, error=str(error))

    def _record(self, partition: TopicIdPartition) -> PartitionRecord:
        return self._records.setdefault(partition, PartitionRecord())

    def _held_up(self) -> HeldUp:
        now_ms = self._clock.monotonic_ms()
        records = self._records.items()
        return HeldUp(
            stopped={partition: str(record.stopped) for partition, record in records if record.stopped is not None},
            failing={partition: str(record.problem) for partition, record in records if record.waits_for_retry(now_ms)},
        )

    def _report_of(self, state: PartitionState) -> PartitionReport:
        report = self._observer.report_of(state, self._record(state.partition))
        return replace(report, kept=self._repair.kept(state.partition))


def _refused(planned: PlannedRange, outcome: Outcome) -> Unavailable:
    return Unavailable(
        f"the table refused {planned.range} in epoch {planned.leader_epoch}: {outcome.value}; it is read again and the "
        "range planned anew",
        topic=planned.partition.topic,
        partition=planned.partition.partition,
        offset=planned.range.start,
    )
