"""A clock that remembers the waits it was asked for, and does not wait."""

from __future__ import annotations

from engine.clock import SystemClock


class PatientClock(SystemClock):
    """``ahead_ms`` may be set forward by a test."""

    def __init__(self) -> None:
        self.waits_ms: list[int] = []
        self.ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms

    def sleep(self, duration_ms: int) -> None:
        self.waits_ms.append(duration_ms)
