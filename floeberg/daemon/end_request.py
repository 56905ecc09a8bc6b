"""The wish that the process ends, told by a signal: heard from the first moment on, however long the start takes."""

from __future__ import annotations

import signal
from types import FrameType


class EndRequest:
    """Made in the main thread, before anything that takes time. A second signal ends the process at once."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._is_made = False
        for number in signals:
            signal.signal(number, self._note)

    @property
    def is_made(self) -> bool:
        return self._is_made

    def _note(self, number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        # No event: the main thread, which this interrupts, may hold its lock.
        self._is_made = True
