"""One cycle of tiering: observe, hold, prepare tables, plan, then rewrite, verify and commit, and report.

A cycle makes one commit a table, and one more for a table where some partitions have little to do and others much, or
failed the last time (docs/tiering.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import structlog

from engine.clock import Clock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.offset_range import OffsetRange
from engine.table.commit.range_append import CommitResult
from engine.table.ledger import Outcome
from engine.topic_partition import TopicIdPartition
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.kept_reports import KeptReports
from tiering.observation import PartitionState
from tiering.observer import Observed, StateObserver
from tiering.partition_record import PartitionRecords, report_partition
from tiering.planner import PartitionWork, PlannedRange, RangePlan, Waiting, partitions_with_work, plan_ranges
from tiering.range_work import RangeWork, ReadyAppend, WorkDone, first_records
from tiering.segment_hold import SegmentHold
from tiering.tiered_topics import TieredTopics
from tiering.tiering_limits import TieringLimits
from tiering.work_beside import WorkBeside

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleParts:
    """What every cycle of a loop works with; each keeps what it knows from one to the next."""

    observer: StateObserver
    topics: TieredTopics
    hold: SegmentHold
    work: RangeWork
    records: PartitionRecords
    reports: KeptReports
    clock: Clock
    limits: TieringLimits
    beside: WorkBeside | None = None
    """Where large ranges are worked on; None for in the cycle itself."""


@dataclass(frozen=True, slots=True)
class _Batch:
    ranges: Sequence[PlannedRange]
    is_quick: bool = False
    is_suspect: bool = False


class Cycle:
    """Made for one cycle, for the loop's thread. ``run`` goes through the phases, each a method, in their order."""

    def __init__(
        self, parts: CycleParts, *, on_planned: Callable[[Sequence[PartitionReport]], None] | None = None
    ) -> None:
        """``on_planned`` is told of the partitions as they were found, before any work."""
        self._parts = parts
        self._on_planned = on_planned
        self._started_ms, self._began_ms = parts.clock.now_ms(), parts.clock.monotonic_ms()
        self._durations_ms: dict[str, float] = {}
        self._added: list[ReadyAppend] = []
        self._commits = 0
        self._has_landed = False

    def run(self) -> CycleReport:
        """Raises FloebergError only where no partition can be worked on: the broker is away, or is another one."""
        due = self._parts.records.resume_due()
        observed = self._parts.hold.update(self.observe(), due)
        self.land()
        observed = self.prepare(observed)
        plan = self.plan(observed)
        self._durations_ms["observe"] = self._elapsed_ms
        if self._on_planned is not None:
            self._on_planned(tuple(map(self._report_of, observed.states)))
        beside = self._parts.beside
        may_begin = beside is None or not beside.partitions
        for batch in self._batches(plan.ranges):
            if beside is None or batch.is_quick:
                self.commit(self.rewrite(batch))
            elif may_begin:
                partitions = frozenset(planned.partition for planned in batch.ranges)
                beside.begin(self._parts.work.steps(batch.ranges, suspect=batch.is_suspect), partitions)
        return self.report(observed, plan)

    def land(self) -> None:
        """Commit what was worked on beside the cycles and has ended."""
        for done in () if self._parts.beside is None else self._parts.beside.take():
            self.commit(self._taken(done))
            self._has_landed = True

    def observe(self) -> Observed:
        observed = self._parts.observer.observe(self._under_way)
        for state in observed.states:
            # A damaged table, or one that somebody else broke, is nothing that the next look overcomes.
            if isinstance(state.failure, Corrupt):
                self._fail(state.partition, state.failure)
            elif state.failure is not None:
                self._parts.records.show(state.partition, state.failure)
        return observed

    def prepare(self, observed: Observed) -> Observed:
        """See that what can be planned has tables, which somebody else may have made and filled."""
        topics, limits = self._parts.topics, self._parts.limits
        columns_first = [
            PartitionWork(partition=state.partition)
            for state in observed.states
            if state.is_leader and state.failure is None and topics.of(state.partition).wants_newest
        ]
        now_ms = self._parts.clock.monotonic_ms()
        done = topics.prepare(
            chain(columns_first, partitions_with_work(observed.states, limits, now_ms=now_ms)),
            most_tasks=limits.max_tasks_per_cycle,
            cluster_id=observed.cluster_id,
            known=observed.known,
            read=first_records,
        )
        for partition, error in done.failures.items():
            self._fail(partition, error)

        def seen_to(state: PartitionState) -> PartitionState:
            topic_id = state.partition.topic_id
            if state.partition in done.failures:
                return replace(state, failure=done.failures[state.partition])
            if topic_id in done.ready:
                return self._parts.observer.with_table(state)
            return replace(state, undecided=done.undecided.get(topic_id))

        return replace(observed, states=tuple(map(seen_to, observed.states)))

    def plan(self, observed: Observed) -> RangePlan:
        plan = plan_ranges(
            observed.states,
            self._parts.limits,
            now_ms=self._parts.clock.monotonic_ms(),
            small_only=bool(self._under_way),
        )
        self._parts.records.note_plan(observed.states, plan, observed.at_risk_bytes)
        return plan

    def rewrite(self, batch: _Batch) -> Sequence[ReadyAppend]:
        """Rewrite and verify: what can be committed."""
        return self._taken(self._parts.work.run(batch.ranges, suspect=batch.is_suspect))

    def _taken(self, work: WorkDone) -> Sequence[ReadyAppend]:
        for partition, error in work.failures.items():
            self._fail(partition, error)
        self._count_durations(work.durations_ms)
        return work.ready

    def commit(self, ready: Sequence[ReadyAppend]) -> None:
        """One commit a table."""
        began_ms = self._parts.clock.monotonic_ms()
        if ready:
            reach(FaultPoint.RANGES_VERIFIED)
        by_topic: dict[str, list[ReadyAppend]] = {}
        for item in ready:
            by_topic.setdefault(item.planned.partition.topic_id, []).append(item)
        for items in by_topic.values():
            topic = self._parts.topics.of(items[0].planned.partition)
            settings = next((item.settings for item in items if item.settings is not None), None)
            try:
                result = topic.commit([item.append for item in items], settings)
            except FloebergError as error:
                for item in items:
                    self._fail(item.planned.partition, error)
            else:
                reach(FaultPoint.LOOP_TOLD)
                self._record(items, result)
        self._count_durations({"commit": self._parts.clock.monotonic_ms() - began_ms})

    def report(self, observed: Observed, plan: RangePlan) -> CycleReport:
        # Work that was refused or failed waits for the pause; work that was left for its size does not.
        is_limited = any(reason.kind is Waiting.LIMIT for reason in plan.waiting.values())
        more = (is_limited or self._has_landed) and self._commits > 0
        committed: dict[TopicIdPartition, tuple[OffsetRange, ...]] = {}
        for item in self._added:
            committed[item.planned.partition] = (*committed.get(item.planned.partition, ()), item.planned.range)
        attended, kept = tuple(map(self._report_of, observed.states)), self._parts.reports
        kept.note(observed.states, attended, observed.gone)
        self._parts.observer.settle(observed.states, plan)
        return CycleReport(
            started_ms=self._started_ms,
            cluster_id=observed.cluster_id,
            durations_ms={**self._durations_ms, "whole": self._elapsed_ms},
            commits=self._commits,
            files=sum(item.append.file is not None for item in self._added),
            records=sum(item.append.digest.record_count for item in self._added),
            value_bytes=sum(item.value_bytes for item in self._added),
            committed=committed,
            partitions=kept.partitions,
            attended=attended,
            problems=observed.problems,
            spool_bytes=self._parts.hold.spool.size_bytes,
            led=kept.led,
            more=more,
            is_behind=more or (is_limited and bool(self._under_way)),
            busy_since_ms=None if self._parts.beside is None else self._parts.beside.busy_since_ms,
        )

    def _batches(self, ranges: Sequence[PlannedRange]) -> list[_Batch]:
        """Each is committed before the next is begun, or goes on beside the cycles. Partitions with a little to do come
        first: fresh records must not wait for a gigabyte. Those that failed the last time come last, so that no healthy
        partition waits for them: what they do may kill a worker, or take until a time-out."""
        suspects = {planned.partition for planned in ranges if self._parts.records.of(planned.partition).failures}
        large = {planned.partition for planned in ranges if planned.is_large(self._parts.limits)} - suspects
        quick = {planned.partition for planned in ranges} - large - suspects
        batches = [
            _Batch(
                [planned for planned in ranges if planned.partition in members],
                is_quick=members is quick,
                is_suspect=members is suspects,
            )
            for members in (quick, large, suspects)
        ]
        return [batch for batch in batches if batch.ranges]

    def _record(self, items: Sequence[ReadyAppend], result: CommitResult) -> None:
        outcomes = {id(entry.append): entry.outcome for entry in result.results}
        added = [item for item in items if outcomes[id(item.append)] is Outcome.COMMITTED]
        for item in items:
            self._settle(item, outcomes[id(item.append)])
        self._added += added
        self._commits += bool(added)
        if added:
            _log.info(
                "committed",
                topic=result.table.topic,
                ranges=len(added),
                records=sum(item.append.digest.record_count for item in added),
                snapshot=result.table.snapshot_id,
            )

    def _settle(self, item: ReadyAppend, outcome: Outcome) -> None:
        planned = item.planned
        if outcome is Outcome.COMMITTED:
            self._parts.records.committed(item)
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
            self._parts.hold.forget_lost(planned.partition)
            self._parts.records.refused(planned.partition, _refused(planned, outcome))

    def _fail(self, partition: TopicIdPartition, error: FloebergError) -> None:
        self._parts.hold.forget_lost(partition)
        self._parts.records.fail(partition, error)

    def _count_durations(self, durations_ms: dict[str, float]) -> None:
        for step, duration_ms in durations_ms.items():
            self._durations_ms[step] = self._durations_ms.get(step, 0) + duration_ms

    @property
    def _under_way(self) -> frozenset[TopicIdPartition]:
        return frozenset() if self._parts.beside is None else self._parts.beside.partitions

    @property
    def _elapsed_ms(self) -> int:
        return self._parts.clock.monotonic_ms() - self._began_ms

    def _report_of(self, state: PartitionState) -> PartitionReport:
        observer, topic = self._parts.observer, self._parts.topics.of(state.partition)
        entry, record = topic.ledger(state.partition.partition), self._parts.records.of(state.partition)
        untiered_since_ms = observer.untiered_since_ms(state.partition, 0 if entry is None else entry.end)
        waits_for_end = record.waiting is not None and record.waiting.kind is Waiting.NOTHING_CLOSED
        return report_partition(
            state,
            record,
            topic,
            view=observer.last_answered(state.partition),
            untiered_since_ms=untiered_since_ms,
            open_segment=observer.open_segment(state) if waits_for_end and untiered_since_ms is not None else None,
            now_ms=self._parts.clock.monotonic_ms(),
        )


def _refused(planned: PlannedRange, outcome: Outcome) -> Unavailable:
    return Unavailable(
        f"the table refused {planned.range} in epoch {planned.leader_epoch}: {outcome.value}; it is read again and the "
        "range planned again",
        topic=planned.partition.topic,
        partition=planned.partition.partition,
        offset=planned.range.start,
    )
