"""What a cycle saw, did and left undone: plain values, for logs, status and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import FloebergError
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tiering.planner import WaitingReason
from topics.partition_status import PartitionStatus
from topics.topic_schemas import LedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition at the end of the last cycle that attended to it: ``status`` is what people are shown, the rest
    what the daemon acts on.

    ``closed_end``: where the last closed segment ends that is in the log directory and wholly in the table.
    ``untiered_since_ms`` (monotonic): since when its oldest stable record waits, so that its lag can be told later;
    ``behind_since_ms`` since when, or from when on, it should have been in the table.
    """

    partition: TopicIdPartition
    status: PartitionStatus
    waiting: WaitingReason | None
    problem: FloebergError | None
    closed_end: int | None
    untiered_since_ms: int | None = None
    behind_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """``durations_ms`` by step (observe, rewrite, verify, commit, whole); ``problems`` that concern no one partition.

    ``partitions``: of all that are here; ``attended``: those among them that this cycle made again, every one with a
    problem included. ``committed`` ranges by partition; ``value_bytes`` of the records in them; ``more`` is True when
    work was left for a next cycle at once, ``is_behind`` also when it was left for the work beside the cycles to end;
    ``busy_since_ms`` (monotonic) since when the workers have been at a job
    beside the cycles, None for at none; ``led`` the topics with partitions that are led here, by topic id.
    """

    started_ms: int
    durations_ms: Mapping[str, float]
    cluster_id: str | None = None
    commits: int = 0
    files: int = 0
    records: int = 0
    value_bytes: int = 0
    committed: Mapping[TopicIdPartition, tuple[OffsetRange, ...]] = field(default_factory=dict)
    partitions: tuple[PartitionReport, ...] = ()
    attended: tuple[PartitionReport, ...] = ()
    problems: tuple[FloebergError, ...] = ()
    spool_bytes: int = 0
    led: Mapping[str, LedTopic] = field(default_factory=dict)
    more: bool = False
    is_behind: bool = False
    busy_since_ms: int | None = None

    @property
    def is_good(self) -> bool:
        """Nothing is wrong anywhere; waiting is not wrong."""
        return not self.problems and all(
            partition.problem is None and not partition.status.at_risk_bytes for partition in self.partitions
        )
