"""Follows a backlog of closed segments from one cycle to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from engine.topic_partition import TopicIdPartition
from serving.status.daemon_status import BacklogStatus
from tiering.cycle_report import PartitionReport

LEAST_SEGMENTS = 2
"""One that has just been closed is no backlog."""

_log = structlog.get_logger(__name__)


class BacklogWatch:
    """For one thread at a time. Times are monotonic."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._before_bytes = 0
        self._last_bytes = 0
        self._done_segments = 0
        self._left: dict[TopicIdPartition, int] = {}
        self._noted: Sequence[PartitionReport] | None = None
        self.status: BacklogStatus | None = None
        """As of the last cycle; None while there is no backlog."""

    def note(
        self,
        partitions: Sequence[PartitionReport],
        committed: Mapping[TopicIdPartition, Sequence[object]],
        *,
        began_ms: int,
        now_ms: int,
    ) -> None:
        """What a cycle found that ``began_ms``, and the ranges that it committed; none where it has only looked."""
        if partitions is self._noted and not committed and self._since_ms is None:
            return  # as most cycles over quiet partitions find them
        self._noted = partitions
        left = {report.partition: report.status.ready_segments for report in partitions if report.status.ready_segments}
        total_bytes = sum(report.status.log_bytes for report in partitions)
        left_segments = sum(left.values())
        if self._since_ms is None and left_segments >= LEAST_SEGMENTS:
            self._since_ms, self._before_bytes, self._done_segments = began_ms, self._last_bytes, 0
        if self._since_ms is not None:
            done = (min(len(ranges), self._left.get(who, len(ranges))) for who, ranges in committed.items())
            self._done_segments += sum(done)
            self.status = self._progress(partitions, left_segments, total_bytes - self._before_bytes, now_ms)
        if self.status is not None and not left_segments:
            self._tell_end(self.status)
            self._since_ms = self.status = None
        self._left, self._last_bytes = left, total_bytes

    def _progress(
        self, partitions: Sequence[PartitionReport], left_segments: int, done_bytes: int, now_ms: int
    ) -> BacklogStatus:
        assert self._since_ms is not None, "a backlog that is worked off has begun"
        elapsed_ms = max(1, now_ms - self._since_ms)
        left_bytes = sum(report.status.ready_bytes for report in partitions)
        per_second = done_bytes * 1000 // elapsed_ms
        return BacklogStatus(
            done_segments=self._done_segments,
            left_segments=left_segments,
            done_bytes=done_bytes,
            left_bytes=left_bytes,
            elapsed_ms=elapsed_ms,
            bytes_per_second=per_second or None,
            left_ms=left_bytes * 1000 // per_second if per_second else None,
        )

    def _tell_end(self, worked_off: BacklogStatus) -> None:
        _log.info(
            "backlog_worked_off",
            segments=worked_off.done_segments,
            mib=round(worked_off.done_bytes / (1 << 20), 1),
            seconds=round(worked_off.elapsed_ms / 1000, 1),
        )
