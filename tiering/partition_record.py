"""What the loop remembers of one partition between cycles; nothing of it outlives the process, or has to."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import Corrupt, FloebergError
from engine.offset_range import OffsetRange
from tiering.planner import WaitingReason
from tiering.range_work import ReadyAppend

_SKIPPED_KEPT = 100
"""Skipped ranges shown of a partition; the table's own list is complete."""


@dataclass(slots=True, kw_only=True)
class PartitionRecord:
    """``stopped`` while an operator must look, until ``retry_at_ms`` (monotonic) has come; counters since the start."""

    problem: FloebergError | None = None
    stopped: Corrupt | None = None
    retry_at_ms: int = 0
    waiting: WaitingReason | None = None
    at_risk_bytes: int = 0
    led_here: bool = False
    records: int = 0
    raw_rows: int = 0
    undecodable_rows: int = 0
    skipped: list[OffsetRange] = field(default_factory=list)

    def fail(self, error: FloebergError, *, now_ms: int, retry_after_ms: int) -> None:
        """Corrupt bytes stop the partition for a while; anything else is tried again in the next cycle."""
        self.problem = error
        if isinstance(error, Corrupt):
            self.stopped = error
            self.retry_at_ms = now_ms + retry_after_ms

    def is_due(self, now_ms: int) -> bool:
        """True once a stopped partition may be looked at again."""
        return self.stopped is not None and now_ms >= self.retry_at_ms

    def resume(self) -> None:
        """Look at the partition again; the problem stays shown until a commit proves it gone."""
        self.stopped = None

    def succeed(self, ready: ReadyAppend) -> None:
        """Count a committed range."""
        self.problem = None
        self.stopped = None
        self.records += ready.append.digest.record_count
        file = ready.append.file
        if file is not None:
            self.raw_rows += file.description.raw_rows
            self.undecodable_rows += file.description.error_rows
        if ready.append.skipped is not None:
            self.skipped = [*self.skipped, ready.append.skipped][-_SKIPPED_KEPT:]
