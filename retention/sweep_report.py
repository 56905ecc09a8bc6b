"""What sweeps found and did, a line a table: plain values, for status and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.errors import FloebergError
from retention.sweep_planner import Amount, Reason
from retention.table_sweep import SweepTurn

_NOTHING = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSweeps:
    """One table. ``amounts`` by reason as of the last whole look, none before it; ``removed`` since the start;
    ``last_ms`` when that look ended, since the epoch; ``silent_ms`` since then, or since the table is swept here;
    ``goes_next_ms`` when the next grace ends; ``waiting`` why files whose grace is over are still there, with how many;
    ``hindered`` how many the warehouse did not remove, and ``hindrance`` what it said of one; ``held`` why nothing was
    looked at; ``problem`` with which the last sweep ended."""

    topic: str
    table: str
    amounts: Mapping[Reason, Amount] = field(default_factory=dict)
    removed: Amount = _NOTHING
    last_ms: int | None = None
    silent_ms: int = 0
    goes_next_ms: int | None = None
    waiting: Mapping[str, int] = field(default_factory=dict)
    hindered: int = 0
    hindrance: str | None = None
    held: str | None = None
    problem: FloebergError | None = None

    def after(self, turn: SweepTurn, now_ms: int) -> TableSweeps:
        """A sweep ended."""
        removed = Amount(
            files=self.removed.files + turn.removed.files,
            size_bytes=self.removed.size_bytes + turn.removed.size_bytes,
        )
        hindrance = next((f"{path}: {problem}" for path, problem in turn.hindered.items()), None)
        return replace(
            self,
            amounts=turn.amounts or self.amounts,
            removed=removed,
            last_ms=now_ms,
            goes_next_ms=turn.goes_next_ms,
            waiting=turn.waiting,
            hindered=len(turn.hindered),
            hindrance=hindrance,
            held=turn.held,
            problem=None,
        )
