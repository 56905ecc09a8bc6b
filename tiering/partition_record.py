"""What the loop remembers of one partition between cycles; nothing of it outlives the process, or has to."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import Corrupt, FloebergError
from engine.offset_range import OffsetRange
from tiering.planner import WaitingReason
from tiering.range_work import ReadyAppend
from tiering.tiering_limits import TieringLimits

_SKIPPED_KEPT = 100
"""Skipped ranges shown of a partition; the table's own list is complete."""

_LONGEST_RETRY_MS = 30_000
"""Between two tries of a partition that fails every time: what is back again is found within that time."""


@dataclass(slots=True, kw_only=True)
class PartitionRecord:
    """``stopped`` while an operator must look; nothing is tried before ``retry_at_ms`` (monotonic) has come.

    ``failures`` in a row; the other counters count since the start.
    """

    problem: FloebergError | None = None
    stopped: Corrupt | None = None
    failures: int = 0
    retry_at_ms: int = 0
    waiting: WaitingReason | None = None
    at_risk_bytes: int = 0
    records: int = 0
    raw_rows: int = 0
    undecodable_rows: int = 0
    skipped: list[OffsetRange] = field(default_factory=list)
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
            self.retry_at_ms = now_ms + min(limits.cycle_interval_ms << min(self.failures - 3, 10), _LONGEST_RETRY_MS)

    def refused(self, error: FloebergError) -> None:
        """Note that the table did not take a range; shown when the problem itself is over, for who it was is gone."""
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

    def succeed(self, ready: ReadyAppend) -> None:
        """Count a committed range."""
        self.recover()
        self.records += ready.append.digest.record_count
        file = ready.append.file
        if file is not None:
            self.raw_rows += file.description.raw_rows
            self.undecodable_rows += file.description.error_rows
        if ready.append.skipped is not None:
            self.skipped = [*self.skipped, ready.append.skipped][-_SKIPPED_KEPT:]
            self.skipped_offsets += ready.append.skipped.offset_count
