"""How long to wait before the next try: twice as long each time, up to a bound."""

from __future__ import annotations

from dataclasses import dataclass

from engine.clock import Clock

_CHANCE_STEPS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pure: waiting is the caller's."""

    first_ms: int
    longest_ms: int

    def wait_ms(self, retry: int) -> int:
        """The wait before a retry, counted from 0."""
        # From 32 doublings on the bound holds in any case; the shift itself must not grow without one.
        return min(self.first_ms << min(retry, 32), self.longest_ms)


def some_of(longest_ms: int, clock: Clock) -> int:
    """Between half and all of a wait, by the clock's chance, so that those who failed together don't meet again."""
    chance = int(clock.new_id()[:8], 16) % _CHANCE_STEPS
    return longest_ms // 2 + longest_ms * chance // (2 * _CHANCE_STEPS)
