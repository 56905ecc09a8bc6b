"""How much memory the daemon and what it started take."""

from __future__ import annotations

import contextlib
import os

import psutil

from engine.clock import Clock

FRESH_MS = 10_000
"""How old a figure may be: a look takes 10 ms, and more where Spark runs."""


class MemoryUse:
    """Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: tuple[int, dict[str, int]] | None = None

    def bytes(self) -> dict[str, int]:
        """Of this process and, together, of those it started (Spark's JVM and workers), now or up to 10 s ago."""
        found, now_ms = self._found, self._clock.monotonic_ms()
        if found is None or now_ms - found[0] >= FRESH_MS:
            found = self._found = (now_ms, _memory_bytes())
        return found[1]


def _memory_bytes() -> dict[str, int]:
    children = 0
    try:
        own = psutil.Process(os.getpid())
        for child in own.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                children += _share_bytes(child)
        return {"daemon": _share_bytes(own), "spark": children}
    except OSError:
        # Out of file handles: the status must be had all the same, for it says so.
        return {}


def _share_bytes(process: psutil.Process) -> int:
    """Resident memory, of which a page that n processes share counts for the n-th part of it: Spark's workers are forks
    of one process, and their sum would count what they all have several times. Elsewhere than on Linux, without that.
    """
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.rss))
