"""Time and chance: the only module that asks the machine for either."""

from __future__ import annotations

import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program may know of time and chance."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the Unix epoch (UTC)."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back; only differences mean anything."""

    def sleep(self, duration_ms: int) -> None:
        """Block the calling thread for ``duration_ms`` milliseconds."""

    def new_id(self) -> str:
        """A fresh identifier, 32 hexadecimal digits, for attempts and snapshots' companions."""


class SystemClock:
    """The machine's own clock and randomness."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def new_id(self) -> str:
        return uuid.uuid4().hex


def thread_cpu_ms() -> int:
    """CPU time of the calling thread, in milliseconds; only differences mean anything."""
    return time.thread_time_ns() // 1_000_000
