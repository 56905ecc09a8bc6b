"""What a cycle saw, did and left undone: plain values, for logs, status and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import FloebergError
from engine.offset_range import OffsetRange
from engine.table.repair.candidates import KeptRows
from engine.topic_partition import TopicIdPartition
from tiering.planner import WaitingReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition at the end of a cycle. Offsets are None where they are not known.

    ``closed_end``: where the last closed segment ends that is in the log directory and wholly in the table.
    ``lag_ms``: how long the oldest stable record beyond the table has waited, 0 when none does. ``lag_bytes``: of the
    segments that reach beyond the table. ``records``, ``raw_rows``, ``undecodable_rows``, ``skipped`` (the last of
    them), ``skipped_offsets`` and ``refusals`` count since the process started. ``last_refusal``: what the table said
    when it last did not take a range of this daemon's. ``kept``: of all rows in the table, as of the last look at it.
    """

    partition: TopicIdPartition
    table: str | None
    native: bool
    leads_here: bool
    tiered_start: int | None
    tiered_end: int | None
    stable_end: int | None
    high_watermark: int | None
    log_start: int | None
    closed_end: int | None
    lag_ms: int
    lag_bytes: int
    local_log_bytes: int
    spool_bytes: int
    at_risk_bytes: int
    waiting: WaitingReason | None
    problem: FloebergError | None
    records: int
    raw_rows: int
    undecodable_rows: int
    skipped: tuple[OffsetRange, ...]
    skipped_offsets: int
    refusals: int
    last_refusal: str | None
    kept: KeptRows = field(default_factory=KeptRows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """``durations_ms`` by step (observe, rewrite, verify, commit, whole); ``problems`` that concern no one partition.

    ``committed`` ranges by partition; ``value_bytes`` of the records in them; ``more`` is True when work was left for
    a next cycle at once; ``repaired_records`` of earlier ranges that got columns, in ``repaired_files``.
    """

    started_ms: int
    durations_ms: Mapping[str, float]
    commits: int = 0
    files: int = 0
    records: int = 0
    value_bytes: int = 0
    committed: Mapping[TopicIdPartition, tuple[OffsetRange, ...]] = field(default_factory=dict)
    partitions: tuple[PartitionReport, ...] = ()
    problems: tuple[FloebergError, ...] = ()
    spool_bytes: int = 0
    repaired_files: int = 0
    repaired_records: int = 0
    more: bool = False

    @property
    def is_good(self) -> bool:
        """Nothing is wrong anywhere; waiting is not wrong."""
        return not self.problems and all(
            partition.problem is None and not partition.at_risk_bytes for partition in self.partitions
        )
