"""What to link and what to tier next: pure functions of partition states and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.broker import NO_LEADER
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tiering.observation import ClosedSegment, PartitionState
from tiering.spool import SpooledSegment
from tiering.tiering_limits import TieringLimits

_LEAST_SHARE = 1 / 32
"""Of a task: what a range costs however small it is."""


class Waiting(StrEnum):
    """Why a partition has nothing to do, or not all of it, in this cycle."""

    NOTHING_NEW = "everything that is stable is tiered"
    FRESHNESS = "the newest records wait for freshness_ms"
    NOTHING_CLOSED = 'nothing closed beyond what is tiered; the topic\'s freshness_ms is "closed"'
    NO_ANSWER = "the leader gave no offsets"
    NO_LEADER = "the partition has no leader"
    LEADER_ELSEWHERE = "another broker leads the partition"
    UNKNOWN_TOPIC = "the broker does not know this topic id"
    OPEN_TRANSACTION = "an open transaction holds the last stable offset"
    NOT_REPLICATED = "the segment is not yet replicated"
    NEWER_OWNER = "the ledger has a newer leader epoch"
    OTHER_EPOCH = "the log directory is not of the leader epoch that the offsets are of"
    NOT_LOCAL = "offsets that come next are neither in the log directory nor deleted"
    STOPPED = "stopped until an operator looks at it"
    RETRY = "failed several times in a row and is tried again later"
    FORMAT = "the topic's first values don't tell their format yet"
    LIMIT = "its turn comes in a later cycle"
    UNDER_WAY = "its ranges are being worked on"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    """``offset`` is where the partition waits; ``detail`` adds what the kind doesn't say."""

    kind: Waiting
    offset: int | None = None
    detail: str | None = None

    def __str__(self) -> str:
        where = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.kind.value}{where}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """One segment's share of the next commit.

    ``path`` holds ``range`` whole; the reader may begin at ``position``, so that ``size_bytes`` are read, what was
    appended since among them. ``spooled`` is set when that is the spool's link. ``skipped``, when set, ends where
    ``range`` starts: offsets that Kafka deleted before they could be tiered. ``closed`` is False for the stable prefix
    of the active segment, whose file grows while it is read.
    """

    partition: TopicIdPartition
    range: OffsetRange
    path: Path
    size_bytes: int
    leader_epoch: int
    closed: bool
    position: int = 0
    spooled: SpooledSegment | None = None
    skipped: OffsetRange | None = None

    def is_large(self, limits: TieringLimits) -> bool:
        """It takes so long that others should not wait for it."""
        return self.size_bytes >= limits.small_range_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What a partition has ready, limits apart; ``share``: what the first range takes of ``max_tasks_per_cycle``."""

    partition: TopicIdPartition
    ranges: tuple[PlannedRange, ...] = ()
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePlan:
    """``ranges``: consecutive within each partition, in the order they must be committed."""

    ranges: tuple[PlannedRange, ...]
    waiting: dict[TopicIdPartition, WaitingReason]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLink:
    """A ready segment to hold against the broker's own retention."""

    partition: TopicIdPartition
    log_dir: Path
    segment: ClosedSegment
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolPlan:
    """``at_risk``: bytes of ready segments, by partition, that the spool's bound leaves to Kafka's retention."""

    links: tuple[PlannedLink, ...]
    unlinks: tuple[SpooledSegment, ...]
    at_risk: dict[TopicIdPartition, int]


def plan_spool(states: Iterable[PartitionState], limits: TieringLimits) -> SpoolPlan:
    """Drop what is committed, hold what is ready: the oldest first, for that is what Kafka deletes next."""
    unlinks: list[SpooledSegment] = []
    wanted: list[PlannedLink] = []
    held_bytes = 0
    for state in states:
        kept = [spooled for spooled in state.spooled if not _is_committed(spooled, state)]
        unlinks.extend(spooled for spooled in state.spooled if _is_committed(spooled, state))
        held_bytes += sum(spooled.size_bytes for spooled in kept)
        if state.native or state.log is None or state.view is None:
            continue
        linked = {spooled.range for spooled in kept}
        wanted.extend(
            PlannedLink(
                partition=state.partition,
                log_dir=state.log.log_dir,
                segment=segment,
                leader_epoch=state.view.leader_epoch,
            )
            for segment in state.ready()
            if segment.range not in linked
        )
    wanted.sort(key=lambda link: (link.segment.modified_ms, link.partition, link.segment.range))
    links: list[PlannedLink] = []
    at_risk: dict[TopicIdPartition, int] = {}
    for link in wanted:
        # A later segment must not take the room an earlier one of its partition did not get.
        if link.partition not in at_risk and held_bytes + link.segment.size_bytes <= limits.spool_max_bytes:
            links.append(link)
            held_bytes += link.segment.size_bytes
        else:
            at_risk[link.partition] = at_risk.get(link.partition, 0) + link.segment.size_bytes
    return SpoolPlan(links=tuple(links), unlinks=tuple(unlinks), at_risk=at_risk)


def _is_committed(spooled: SpooledSegment, state: PartitionState) -> bool:
    return state.tiered_end is not None and spooled.range.end <= state.tiered_end


def plan_ranges(
    states: Sequence[PartitionState], limits: TieringLimits, *, now_ms: int, small_only: bool = False
) -> RangePlan:
    """The ranges of this cycle: one a partition in turn, until a limit is met, so that none starves another.

    ``now_ms`` is monotonic, as ``untiered_since_ms`` is. ``small_only``: large ranges wait.
    """
    waiting: dict[TopicIdPartition, WaitingReason] = {}
    queues: list[list[PlannedRange]] = []
    for state in states:
        ranges, reason = _plan_partition(state, now_ms=now_ms)
        if ranges and state.has_table:
            queues.append(ranges)
        elif ranges and state.failure is None:
            kind = Waiting.LIMIT if state.undecided is None else Waiting.FORMAT
            reason = WaitingReason(kind=kind, offset=ranges[0].range.start, detail=state.undecided)
        if reason is not None:
            waiting[state.partition] = reason
    chosen: list[PlannedRange] = []
    size_bytes, tasks = 0, 0.0
    for turn in range(max(map(len, queues), default=0)):
        for queue in queues:
            if turn >= len(queue) or queue[turn].partition in _limited(waiting):
                continue
            planned = queue[turn]
            share = _share_of_task(planned, limits)
            fits = (
                not (small_only and planned.is_large(limits))
                and tasks + share <= limits.max_tasks_per_cycle
                and (not chosen or size_bytes + planned.size_bytes <= limits.max_bytes_per_cycle)
            )
            if fits:
                chosen.append(planned)
                size_bytes += planned.size_bytes
                tasks += share
            else:
                waiting[planned.partition] = WaitingReason(kind=Waiting.LIMIT, offset=planned.range.start)
    return RangePlan(ranges=tuple(chosen), waiting=waiting)


def partitions_with_work(
    states: Iterable[PartitionState], limits: TieringLimits, *, now_ms: int
) -> Iterator[PartitionWork]:
    """Of those that a plan has ranges for, limits apart and as far as their tables can be had, found one by one."""
    for state in states:
        if state.failure is None:
            ranges, _ = _plan_partition(state, now_ms=now_ms)
            if ranges:
                share = _share_of_task(ranges[0], limits)
                yield PartitionWork(partition=state.partition, ranges=tuple(ranges), share=share)


def _share_of_task(planned: PlannedRange, limits: TieringLimits) -> float:
    """What a range takes of ``max_tasks_per_cycle``."""
    if planned.is_large(limits):
        return 1
    return max(planned.size_bytes / limits.small_range_bytes, _LEAST_SHARE)


def _limited(waiting: dict[TopicIdPartition, WaitingReason]) -> set[TopicIdPartition]:
    return {partition for partition, reason in waiting.items() if reason.kind is Waiting.LIMIT}


def _plan_partition(state: PartitionState, *, now_ms: int) -> tuple[list[PlannedRange], WaitingReason | None]:
    blocked = _blocked(state)
    if blocked is not None:
        return [], blocked
    walk = _Walk(state)
    reason = walk.take_closed()
    if reason is None:
        if state.prefix_due_ms is not None and state.prefix_due_ms <= now_ms:
            walk.take_stable_prefix()
        reason = _wait_beyond(state, walk.position)
    return walk.ranges, reason


def _blocked(state: PartitionState) -> WaitingReason | None:
    """What keeps a partition from any work at all."""
    if state.under_way:
        return WaitingReason(kind=Waiting.UNDER_WAY, offset=state.tiered_end)
    if state.stopped is not None:
        return WaitingReason(kind=Waiting.STOPPED, offset=state.tiered_end, detail=state.stopped)
    if state.failing is not None:
        return WaitingReason(kind=Waiting.RETRY, offset=state.tiered_end, detail=state.failing)
    view = state.view
    if view is None:
        # Spooled segments were stable when they were linked, and stay so whatever became of the topic.
        return None if state.spooled else WaitingReason(kind=Waiting.UNKNOWN_TOPIC)
    if view.leader_id == NO_LEADER:
        return WaitingReason(kind=Waiting.NO_LEADER)
    if not state.is_leader:
        return WaitingReason(kind=Waiting.LEADER_ELSEWHERE, detail=f"node {view.leader_id}")
    if not view.is_answered:
        something_closed = state.log is not None and (state.log.closed_end or 0) > (state.tiered_end or 0)
        nothing = Waiting.NOTHING_CLOSED if state.freshness_ms is None else Waiting.NOTHING_NEW
        return WaitingReason(kind=Waiting.NO_ANSWER if something_closed else nothing)
    if view.leader_epoch < state.tiered_epoch:
        detail = f"epoch {state.tiered_epoch} committed, this broker leads in {view.leader_epoch}"
        return WaitingReason(kind=Waiting.NEWER_OWNER, detail=detail)
    if state.log is not None and not state.is_of_answered_epoch:
        detail = f"epoch {state.log.leader_epoch} here, {view.leader_epoch} in the leader's answer"
        return WaitingReason(kind=Waiting.OTHER_EPOCH, detail=detail)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    range: OffsetRange
    path: Path
    size_bytes: int
    spooled: SpooledSegment | None


class _Walk:
    """Goes from the ledger's end over everything that is ready, segment by segment."""

    def __init__(self, state: PartitionState) -> None:
        self.ranges: list[PlannedRange] = []
        self._state = state
        self._log_start = 0 if state.view is None else state.view.log_start_offset
        self._sources = _sources(state)
        self.position = self._first_position()

    def _first_position(self) -> int:
        if self._state.tiered_end is not None:
            return self._state.tiered_end
        # The first commit of a partition begins where the topic's history does: nothing was promised before it.
        starts = [source.range.start for source in self._sources if source.spooled is not None]
        if self._state.log is not None or not starts:
            # Earlier segments may have no link: the spool was full, or somebody deleted it just now.
            starts.append(max(self._log_start, self._local_start()))
        return min(starts)

    def _local_start(self) -> int:
        log = self._state.log
        return log.segments[0].base_offset if log is not None and log.segments else 0

    def take_closed(self) -> WaitingReason | None:
        """Plan every ready segment in order; the reason to stop at a hole, or None at the end of what is ready."""
        for source in self._sources:
            if source.range.end <= self.position:
                continue
            start = max(source.range.start, self.position)
            if source.spooled is None:
                # What lies below the log start was deleted on purpose, even where the file still has it.
                start = max(start, self._log_start)
                if start >= source.range.end:
                    continue
            if start > self.position and start > self._log_start:
                hole = f"{OffsetRange(start=self.position, end=start)} with a log start of {self._log_start}"
                return WaitingReason(kind=Waiting.NOT_LOCAL, offset=self.position, detail=hole)
            self._append(source, OffsetRange(start=start, end=source.range.end), closed=True)
        return None

    def take_stable_prefix(self) -> None:
        """Plan the stable records of the active segment."""
        log, view = self._state.log, self._state.view
        if log is None or view is None or not log.segments:
            return
        start, active = max(self.position, self._log_start), log.segments[-1]
        if not active.base_offset <= start < view.last_stable_offset:
            return
        source = _Source(
            range=OffsetRange(start=active.base_offset, end=view.last_stable_offset),
            path=active.log_path,
            size_bytes=self._state.active_bytes,
            spooled=None,
        )
        self._append(source, OffsetRange(start=start, end=view.last_stable_offset), closed=False)

    def _append(self, source: _Source, planned: OffsetRange, *, closed: bool) -> None:
        skipped = None
        if planned.start > self.position:
            skipped = OffsetRange(start=self.position, end=planned.start)
        state, view = self._state, self._state.view
        holds_end = source.range.start < (state.tiered_end or 0) < source.range.end
        # A position beyond the file was looked up in another one, from before a cleaning or after it.
        position = state.tiered_position if holds_end and state.tiered_position < source.size_bytes else 0
        spooled_epoch = -1 if source.spooled is None else source.spooled.leader_epoch
        self.ranges.append(
            PlannedRange(
                partition=state.partition,
                range=planned,
                path=source.path,
                position=position,
                size_bytes=source.size_bytes - position,
                leader_epoch=spooled_epoch if view is None else view.leader_epoch,
                closed=closed,
                spooled=source.spooled,
                skipped=skipped,
            )
        )
        self.position = planned.end


def _sources(state: PartitionState) -> list[_Source]:
    """Everything ready, rising; where the spool and the log have the same segment, the spool's link can't vanish."""
    sources = {
        segment.range: _Source(range=segment.range, path=segment.path, size_bytes=segment.size_bytes, spooled=None)
        for segment in state.ready()
    }
    for spooled in state.spooled:
        sources[spooled.range] = _Source(
            range=spooled.range, path=spooled.path, size_bytes=spooled.size_bytes, spooled=spooled
        )
    return sorted(sources.values(), key=lambda source: (source.range.start, source.range.end, source.spooled is None))


def _wait_beyond(state: PartitionState, position: int) -> WaitingReason:
    """Why what lies beyond the planned ranges is not planned."""
    log, view = state.log, state.view
    if log is None or view is None or (log.closed_end or 0) <= position:
        return _nothing_closed_beyond(state, position)
    if view.last_stable_offset < view.high_watermark:
        return WaitingReason(kind=Waiting.OPEN_TRANSACTION, offset=view.last_stable_offset)
    return WaitingReason(kind=Waiting.NOT_REPLICATED, offset=view.high_watermark)


def _nothing_closed_beyond(state: PartitionState, position: int) -> WaitingReason:
    """What the active segment's records wait for."""
    view = state.view
    if state.freshness_ms is None:
        return WaitingReason(kind=Waiting.NOTHING_CLOSED, offset=position)
    if view is not None and max(position, view.log_start_offset) < view.last_stable_offset:
        return WaitingReason(kind=Waiting.FRESHNESS, offset=position)
    if view is not None and view.last_stable_offset < view.high_watermark:
        return WaitingReason(kind=Waiting.OPEN_TRANSACTION, offset=view.last_stable_offset)
    return WaitingReason(kind=Waiting.NOTHING_NEW, offset=position)
