"""A partition's report, made of what a cycle knows of it."""

from __future__ import annotations

from engine.broker import PartitionView
from tiering.cycle_report import PartitionReport
from tiering.observation import PartitionState
from tiering.partition_record import PartitionRecord
from tiering.tiered_topic import TieredTopic
from topics.partition_status import PartitionStatus


def report_partition(
    state: PartitionState, record: PartitionRecord, topic: TieredTopic, *, view: PartitionView | None, lag_ms: int
) -> PartitionReport:
    """The partition as it is after the cycle's commits; ``view`` is the broker's last answer, if there was one."""
    who, entry = state.partition, topic.ledger(state.partition.partition)
    end = 0 if entry is None else entry.end
    segments, closed = ((), ()) if state.log is None else (state.log.segments, state.log.closed())
    tiered = [segment for segment in closed if entry is not None and segment.range.end <= end]
    status = PartitionStatus(
        topic=who.topic,
        partition=who.partition,
        table=None if topic.table is None else ".".join(topic.table.identifier),
        native=state.native,
        leader_here=state.is_leader,
        tiered_start=None if entry is None else entry.start,
        tiered_end=None if entry is None else end,
        stable_end=None if view is None else view.last_stable_offset,
        log_start=None if view is None else view.log_start_offset,
        lag_ms=lag_ms,
        waiting=None if record.waiting is None else str(record.waiting),
        waiting_kind=None if record.waiting is None else record.waiting.kind.name.lower(),
        problem=None if record.problem is None else str(record.problem),
        problem_kind=None if record.problem is None else record.problem.kind,
        spool_bytes=sum(spooled.size_bytes for spooled in state.spooled),
        at_risk_bytes=record.at_risk_bytes,
        local_log_bytes=sum(segment.size_bytes for segment in segments),
        rows=record.records,
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
    )
