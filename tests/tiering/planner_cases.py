"""Partitions as the planner sees them, for its tests."""

from __future__ import annotations

from pathlib import Path

from engine.broker import PartitionView
from engine.kafka_log.segment import Segment
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog, PartitionState
from tiering.planner import (
    PlannedRange,
    RangePlan,
    plan_ranges,
)
from tiering.spool import SpooledSegment
from tiering.tiering_limits import TieringLimits

LIMITS = TieringLimits()
LOG_DIR = Path("/logs")
NOW_MS = 1_000_000


def partition(number: int = 0) -> TopicIdPartition:
    return TopicIdPartition(topic="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAA", partition=number)


def segments(*bases: int, size_bytes: int = 100, modified_ms: int = 0) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            base_offset=base,
            log_path=LOG_DIR / f"{base:020d}.log",
            size_bytes=size_bytes,
            modified_ms=modified_ms + base,
        )
        for base in bases
    )


def view(stable: int, *, high: int | None = None, log_start: int = 0, epoch: int = 5) -> PartitionView:
    return PartitionView(
        leader_id=1,
        leader_epoch=epoch,
        log_start_offset=log_start,
        last_stable_offset=stable,
        high_watermark=stable if high is None else high,
    )


def state(
    *bases: int,
    stable: int = 1000,
    high: int | None = None,
    log_start: int = 0,
    number: int = 0,
    spooled: tuple[SpooledSegment, ...] = (),
    tiered_end: int | None = None,
    tiered_epoch: int = -1,
    freshness_ms: int | None = None,
    untiered_since_ms: int | None = None,
    tiered_position: int = 0,
    size_bytes: int = 100,
    log_epoch: int = 5,
) -> PartitionState:
    return PartitionState(
        partition=partition(number),
        log=PartitionLog(
            partition=partition(number),
            log_dir=LOG_DIR,
            segments=segments(*bases, size_bytes=size_bytes),
            leader_epoch=log_epoch,
        ),
        view=view(stable, high=high, log_start=log_start),
        is_leader=True,
        spooled=spooled,
        tiered_end=tiered_end,
        tiered_epoch=tiered_epoch,
        tiered_position=tiered_position,
        freshness_ms=freshness_ms,
        untiered_since_ms=untiered_since_ms,
    )


def link(start: int, end: int, *, number: int = 0, size_bytes: int = 100) -> SpooledSegment:
    return SpooledSegment(
        partition=partition(number),
        range=OffsetRange(start=start, end=end),
        path=Path(f"/spool/{start}-{end}.log"),
        size_bytes=size_bytes,
        leader_epoch=3,
        aborted=(),
    )


def plan(*states: PartitionState, limits: TieringLimits = LIMITS) -> RangePlan:
    return plan_ranges(states, limits, now_ms=NOW_MS)


def ranges(planned: RangePlan) -> list[tuple[int, int]]:
    return [(item.range.start, item.range.end) for item in planned.ranges]


def only(planned: RangePlan) -> PlannedRange:
    (item,) = planned.ranges
    return item
