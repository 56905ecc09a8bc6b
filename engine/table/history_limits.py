"""How much of a table's past is kept."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """The defaults of ``[history]``."""

    max_age_ms: int = 24 * 60 * 60 * 1000
    """Snapshots that are older go."""

    min_snapshots: int = 10
    """The newest of a branch stay, however old."""

    max_snapshots: int = 500
    """The oldest of more on a branch go, however young: each commit writes all of them again."""

    def __post_init__(self) -> None:
        if not 0 < self.min_snapshots <= self.max_snapshots:
            raise Invalid(
                f"a history keeps at least {self.min_snapshots} snapshots and at most {self.max_snapshots}",
                next_step="set min_snapshots of [history] to no more than its max_snapshots",
            )
