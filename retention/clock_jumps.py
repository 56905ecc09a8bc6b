"""Time that only the wall clock knows of: a grace that is counted by it ends no earlier because it was set."""

from __future__ import annotations

from engine.clock import Clock
from retention.sweep_limits import CLOCK_TOLERANCE_MS


class ClockJumps:
    """For one thread. What happens while no process runs it can't know."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_ms: tuple[int, int] | None = None

    def ahead_ms(self) -> int:
        """How far the wall clock was set forward since the last call; 0 where it may as well have drifted."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        before, self._looked_ms = self._looked_ms, (now_ms, monotonic_ms)
        ahead_ms = 0 if before is None else (now_ms - before[0]) - (monotonic_ms - before[1])
        return ahead_ms if ahead_ms > CLOCK_TOLERANCE_MS else 0
