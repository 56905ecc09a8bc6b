"""What compaction did since the daemon's start, and what is left to do: plain values, for status and metrics."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from compaction.topic_merge import MergeTurn
from engine.errors import FloebergError


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What is planned to be merged and is not yet."""

    groups: int = 0
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTotals:
    """Since the start: ``merges`` that were committed, the ``files`` that they replaced, bytes read and written by
    them and ``appended_bytes`` of files that others wrote first, as far as they were seen; groups ``given_up`` because
    somebody else changed their files, and ``failures``; ``conflicts`` commits of others that came first; ``cpu_ms`` of
    merges and repairs."""

    merges: int = 0
    files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    appended_bytes: int = 0
    given_up: int = 0
    failures: int = 0
    conflicts: int = 0
    cpu_ms: int = 0

    @property
    def write_amplification(self) -> float | None:
        """All bytes written by the bytes first written; None before any were seen."""
        return (self.appended_bytes + self.written_bytes) / self.appended_bytes if self.appended_bytes else None

    def with_turn(self, turn: MergeTurn, *, cpu_ms: int) -> CompactionTotals:
        return replace(
            self,
            merges=self.merges + turn.merged,
            files=self.files + turn.files,
            read_bytes=self.read_bytes + turn.read_bytes,
            written_bytes=self.written_bytes + turn.written_bytes,
            appended_bytes=self.appended_bytes + turn.appended_bytes,
            given_up=self.given_up + turn.gone,
            failures=self.failures + turn.failed,
            conflicts=self.conflicts + turn.conflicts,
            cpu_ms=self.cpu_ms + cpu_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """``last_run_ms``: when files were last replaced, since the epoch; ``problems`` why files are left alone now,
    ``put_off`` why tables are as a whole."""

    totals: CompactionTotals = CompactionTotals()
    backlog: Backlog = Backlog()
    last_run_ms: int | None = None
    problems: tuple[FloebergError, ...] = ()
    put_off: tuple[FloebergError, ...] = ()


def sum_of(backlogs: list[Backlog]) -> Backlog:
    return Backlog(**{one.name: sum(getattr(backlog, one.name) for backlog in backlogs) for one in fields(Backlog)})
