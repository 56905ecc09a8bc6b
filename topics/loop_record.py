"""When a loop of the daemon last looked for work, did some, and looks again: plain values, for status and page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from engine.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """Milliseconds since the epoch. ``looked_ms``: when the last look for work, and the work it found, ended, after
    ``took_ms``; ``worked_ms``: when it last changed something; ``next_ms``: when it looks again though nothing happens,
    None where it waits for something to happen; ``busy_since_ms`` while it is at it."""

    name: str
    looked_ms: int | None = None
    took_ms: int = 0
    worked_ms: int | None = None
    next_ms: int | None = None
    busy_since_ms: int | None = None


class LoopRecord:
    """Written by the loop's thread, read by any."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self.state = LoopState(name=name)

    @contextmanager
    def look(self) -> Iterator[None]:
        """Around a look and the work that it finds."""
        began_ms = self._clock.monotonic_ms()
        self.state = replace(self.state, busy_since_ms=self._clock.now_ms(), next_ms=None)
        try:
            yield
        finally:
            took_ms = self._clock.monotonic_ms() - began_ms
            self.state = replace(self.state, looked_ms=self._clock.now_ms(), took_ms=took_ms, busy_since_ms=None)

    def worked(self) -> None:
        """The look changed something."""
        self.state = replace(self.state, worked_ms=self._clock.now_ms())

    def next_in(self, pause_ms: float | None) -> None:
        """When the next look comes by itself; None for never."""
        due_ms = None if pause_ms is None else self._clock.now_ms() + max(0, round(pause_ms))
        self.state = replace(self.state, next_ms=due_ms)
