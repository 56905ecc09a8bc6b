"""Time and chance of a simulated machine: they stand still unless somebody moves them."""

from __future__ import annotations

import random

START_MS = 2_500_000_000_000
"""After anything that the libraries ask the machine's own clock for: of two times of a table the later one counts."""


class SimulatedTime:
    """What all machines of one run share: true time, and the dice that ids come from."""

    def __init__(self, dice: random.Random) -> None:
        self.elapsed_ms = 0
        self.dice = dice

    def pass_by(self, duration_ms: int) -> None:
        self.elapsed_ms += max(0, duration_ms)


class SimulatedClock:
    """One machine's clock (engine.clock.Clock). ``wall_error_ms``: how far its wall clock is off; it may jump."""

    def __init__(self, time: SimulatedTime) -> None:
        self._time = time
        self.wall_error_ms = 0

    def now_ms(self) -> int:
        return START_MS + self._time.elapsed_ms + self.wall_error_ms

    def monotonic_ms(self) -> int:
        return self._time.elapsed_ms

    def sleep(self, duration_ms: int) -> None:
        self._time.pass_by(duration_ms)

    def new_id(self) -> str:
        return f"{self._time.dice.getrandbits(128):032x}"
