"""What became of the newest records: plain values, for status and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import FloebergError


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestTotals:
    """Since the start: ``commits``, ``rows`` that were taken in, partitions that were ``built`` whole."""

    commits: int = 0
    rows: int = 0
    builds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestReport:
    """``tables`` that are kept here; ``behind_offsets`` that they have not taken in, as of the last look at each;
    ``last_commit_ms`` wall clock; ``problems`` why some don't get on."""

    totals: LatestTotals = field(default_factory=LatestTotals)
    tables: int = 0
    behind_offsets: int = 0
    last_commit_ms: int | None = None
    problems: tuple[FloebergError, ...] = ()
