"""What the loop remembers of one partition between cycles, and says of it; nothing outlives the process, or has to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from engine.broker import PartitionView
from engine.clock import Clock
from engine.errors import Corrupt, FloebergError
from engine.topic_partition import TopicIdPartition
from tiering.cycle_report import PartitionReport
from tiering.observation import PartitionState
from tiering.open_segment import OpenSegment
from tiering.planner import PlannedRange, RangePlan, Waiting, WaitingReason
from tiering.range_work import ReadyAppend
from tiering.tiered_topics import TieredTopic
from tiering.tiering_limits import TieringLimits
from topics.partition_status import PartitionStatus
from topics.topic_totals import TopicTotals

_NOTHING_LEFT = frozenset(
    {
        Waiting.NOTHING_NEW,
        Waiting.NOTHING_CLOSED,
        Waiting.LEADER_ELSEWHERE,
        Waiting.NEWER_OWNER,
        Waiting.UNKNOWN_TOPIC,
        Waiting.OPEN_TRANSACTION,
        Waiting.NOT_REPLICATED,
    }
)
"""Reasons why a partition has nothing to do now that could go wrong."""

_TELLING_BYTES = 4 << 20
"""Fewer say nothing of what a MiB takes: what a commit costs is most of it."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class PartitionRecord:
    """``stopped`` while an operator must look; nothing is tried before ``retry_at_ms`` (monotonic) has come.

    ``closed_since_ms`` (monotonic): since when closed segments have waited. ``begun_ms`` (monotonic) and
    ``begun_bytes``: of the ranges that were planned last; ``seen_ms_per_mib``: what a MiB of the last large ones took
    until the commit. ``failures`` in a row; the other counters count since the start.
    """

    problem: FloebergError | None = None
    stopped: Corrupt | None = None
    failures: int = 0
    retry_at_ms: int = 0
    waiting: WaitingReason | None = None
    closed_since_ms: int | None = None
    begun_ms: int = 0
    begun_bytes: int = 0
    seen_ms_per_mib: float = 0.0
    at_risk_bytes: int = 0
    records: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    raw_rows: int = 0
    undecodable_rows: int = 0
    skipped_offsets: int = 0
    refusals: int = 0
    last_refusal: str | None = None

    def fail(self, error: FloebergError, *, now_ms: int, limits: TieringLimits) -> None:
        """Corrupt bytes stop the partition for a while; anything else is tried in the next two cycles, then less often.

        A partition that fails every time must not take its share of every cycle from the others.
        """
        self.problem = error
        self.failures += 1
        if isinstance(error, Corrupt):
            self.stopped = error
            self.retry_at_ms = now_ms + limits.stopped_retry_ms
        elif self.failures > 2:
            self.retry_at_ms = now_ms + limits.pauses.wait_ms(self.failures - 3)

    def refused(self, error: FloebergError) -> None:
        """Note that the table did not take a range: still shown when the problem is over and the culprit unknown."""
        self.refusals += 1
        self.last_refusal = str(error)

    def is_due(self, now_ms: int) -> bool:
        """True once a stopped partition may be looked at again."""
        return self.stopped is not None and now_ms >= self.retry_at_ms

    def waits_for_retry(self, now_ms: int) -> bool:
        """True while a partition that failed several times in a row is left alone, though nothing has stopped it."""
        return self.stopped is None and self.problem is not None and now_ms < self.retry_at_ms

    def resume(self) -> None:
        """Look at the partition again; the problem stays shown until a commit proves it gone."""
        self.stopped = None

    def recover(self) -> None:
        """What was wrong is over: a commit went through, or nothing is left to do here."""
        self.problem = None
        self.stopped = None
        self.failures = 0
        self.retry_at_ms = 0

    def note_closed(self, is_waiting: bool, *, now_ms: int) -> None:
        """Whether closed segments wait."""
        since_ms = now_ms if self.closed_since_ms is None else self.closed_since_ms
        self.closed_since_ms = since_ms if is_waiting else None

    def begin(self, ranges: Sequence[PlannedRange], *, now_ms: int) -> None:
        """Note that work on ranges of the partition begins."""
        self.begun_ms, self.begun_bytes = now_ms, sum(item.size_bytes for item in ranges)

    def succeed(self, ready: ReadyAppend, *, now_ms: int) -> None:
        """Count a committed range."""
        self.recover()
        tells = self.begun_bytes >= _TELLING_BYTES
        self.seen_ms_per_mib = (now_ms - self.begun_ms) / (self.begun_bytes / (1 << 20)) if tells else 0.0
        self.records += ready.append.digest.record_count
        self.log_bytes += ready.log_bytes
        file = ready.append.file
        if file is not None:
            self.file_bytes += file.description.size_bytes
            self.raw_rows += file.description.raw_rows
            self.undecodable_rows += file.description.error_rows
        if ready.append.skipped is not None:
            self.skipped_offsets += ready.append.skipped.offset_count


class PartitionRecords:
    """The records of all partitions, and the log's lines about what goes wrong with them. For the loop's thread."""

    def __init__(self, clock: Clock, limits: TieringLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._records: dict[TopicIdPartition, PartitionRecord] = {}
        self._troubled: set[TopicIdPartition] = set()
        self._totals: dict[str, TopicTotals] = {}

    def of(self, partition: TopicIdPartition) -> PartitionRecord:
        """A partition's record, a new one where it has none."""
        return self._records.setdefault(partition, PartitionRecord())

    @property
    def totals(self) -> Mapping[str, TopicTotals]:
        """By topic, since the start. For any thread."""
        return dict(self._totals)

    def committed(self, ready: ReadyAppend) -> None:
        """The table has a range, by this process's commit."""
        self.of(ready.planned.partition).succeed(ready, now_ms=self._clock.monotonic_ms())
        totals, append = self._totals_of(ready.planned.partition.topic), ready.append
        totals.log_bytes += ready.log_bytes
        if append.file is not None:
            written = append.file.description
            totals.parquet_bytes += written.size_bytes
            totals.raw_rows += written.raw_rows
            totals.undecodable_rows += written.error_rows
            totals.typed_rows += append.digest.record_count - written.raw_rows - written.error_rows
        if append.skipped is not None:
            totals.skipped_offsets += append.skipped.offset_count

    def refused(self, partition: TopicIdPartition, error: FloebergError) -> None:
        """The table did not take a range."""
        self.of(partition).refused(error)
        self._totals_of(partition.topic).refused_ranges += 1
        self.fail(partition, error)

    def resume_due(self) -> set[TopicIdPartition]:
        """Look again at stopped partitions whose time has come; these."""
        now_ms = self._clock.monotonic_ms()
        due = {partition for partition in self._troubled if self.of(partition).is_due(now_ms)}
        for partition in due:
            self._records[partition].resume()
        return due

    def fail(self, partition: TopicIdPartition, error: FloebergError) -> None:
        """Work on a partition failed."""
        error = self._told(partition, error)
        self._troubled.add(partition)
        self.of(partition).fail(error, now_ms=self._clock.monotonic_ms(), limits=self._limits)

    def show(self, partition: TopicIdPartition, error: FloebergError) -> None:
        """Report an error without a backoff: the next cycle looks again."""
        self.of(partition).problem = self._told(partition, error)

    def note_plan(
        self, states: Sequence[PartitionState], plan: RangePlan, at_risk_bytes: Mapping[TopicIdPartition, int]
    ) -> None:
        """Take in what was planned for these states."""
        planned: dict[TopicIdPartition, list[PlannedRange]] = {}
        for item in plan.ranges:
            planned.setdefault(item.partition, []).append(item)
        for state in states:
            record = self.of(state.partition)
            if state.partition in planned:
                record.begin(planned[state.partition], now_ms=self._clock.monotonic_ms())
            record.waiting = plan.waiting.get(state.partition)
            record.note_closed(_closed_beyond(state, state.tiered_end or 0), now_ms=self._clock.monotonic_ms())
            record.at_risk_bytes = at_risk_bytes.get(state.partition, 0)
            nothing_left = record.waiting is not None and record.waiting.kind in _NOTHING_LEFT
            if nothing_left and state.partition not in planned and state.failure is None:
                # Somebody else did it, or it needs no doing any more: what was wrong must not be shown for ever.
                record.recover()
        self._troubled = {partition for partition in self._troubled if self.of(partition).problem is not None}

    def forget(self, partition: TopicIdPartition, *, is_last: bool) -> None:
        """Drop the record of a partition that is gone; ``is_last``: with it its topic."""
        self._records.pop(partition, None)
        self._troubled.discard(partition)
        if is_last:
            self._totals.pop(partition.topic, None)

    def _totals_of(self, topic: str) -> TopicTotals:
        return self._totals.setdefault(topic, TopicTotals())

    def _told(self, partition: TopicIdPartition, error: FloebergError) -> FloebergError:
        error = error.located(partition.topic, partition.partition)
        if str(self.of(partition).problem) != str(error):
            _log.warning("partition_failed", topic=partition.topic, partition=partition.partition, error=str(error))
        return error


def report_partition(
    state: PartitionState,
    record: PartitionRecord,
    topic: TieredTopic,
    *,
    view: PartitionView | None,
    untiered_since_ms: int | None,
    open_segment: OpenSegment | None,
    now_ms: int,
) -> PartitionReport:
    """The partition as it is after the cycle's commits; ``view`` is the broker's last answer, if there was one. Times
    are monotonic."""
    who, entry = state.partition, topic.ledger(state.partition.partition)
    end = 0 if entry is None else entry.end
    segments, closed = ((), ()) if state.log is None else (state.log.segments, state.log.closed())
    behind_since_ms = _behind_since_ms(state, record, untiered_since_ms, end)
    tiered = [segment for segment in closed if entry is not None and segment.range.end <= end]
    ready = [segment for segment in state.ready() if segment.range.end > end]
    status = PartitionStatus(
        topic=who.topic,
        partition=who.partition,
        table=None if topic.table is None else ".".join(topic.table.identifier),
        value_format=None if topic.rule.is_open else topic.rule.value_format,
        native=state.native,
        leader_here=state.is_leader,
        tiered_start=None if entry is None else entry.start,
        tiered_end=None if entry is None else end,
        stable_end=None if view is None else view.last_stable_offset,
        log_start=None if view is None else view.log_start_offset,
        lag_ms=0 if untiered_since_ms is None else now_ms - untiered_since_ms,
        behind_ms=0 if behind_since_ms is None else max(0, now_ms - behind_since_ms),
        ready_segments=len(ready),
        ready_bytes=sum(segment.size_bytes for segment in ready),
        open_bytes=0 if open_segment is None else open_segment.size_bytes,
        open_limit_bytes=None if open_segment is None else open_segment.bounds.size_bytes,
        closes_at_ms=None if open_segment is None else open_segment.closes_at_ms,
        waiting=None if record.waiting is None else str(record.waiting),
        waiting_kind=None if record.waiting is None else record.waiting.kind.name.lower(),
        problem=None if record.problem is None else str(record.problem),
        problem_kind=None if record.problem is None else record.problem.kind,
        spool_bytes=sum(spooled.size_bytes for spooled in state.spooled),
        at_risk_bytes=record.at_risk_bytes,
        local_log_bytes=sum(segment.size_bytes for segment in segments),
        rows=record.records,
        log_bytes=record.log_bytes,
        file_bytes=record.file_bytes,
        raw_rows=record.raw_rows,
        undecodable_rows=record.undecodable_rows,
        skipped_offsets=record.skipped_offsets,
        refusals=record.refusals,
        last_refusal=record.last_refusal,
    )
    return PartitionReport(
        partition=who,
        status=status,
        waiting=record.waiting,
        problem=record.problem,
        closed_end=tiered[-1].range.end if tiered else None,
        untiered_since_ms=untiered_since_ms,
        behind_since_ms=behind_since_ms,
    )


def _behind_since_ms(
    state: PartitionState, record: PartitionRecord, untiered_since_ms: int | None, end: int
) -> int | None:
    """Since when, or from when on, the oldest record beyond ``end`` should be in the table; None where none should."""
    if untiered_since_ms is None or not state.is_leader:
        return None
    if state.freshness_ms is not None:
        return untiered_since_ms + state.freshness_ms
    return record.closed_since_ms if _closed_beyond(state, end) else None


def _closed_beyond(state: PartitionState, end: int) -> bool:
    return state.log is not None and (state.log.closed_end or 0) > end
