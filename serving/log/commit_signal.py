"""A bell that the tiering loop rings after each commit, for copies that wait in the server's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class CommitSignal:
    """Rung from any thread, awaited in any event loop. ``count`` tells how often it was rung."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def count(self) -> int:
        with self._lock:
            return self._count

    def ring(self) -> None:
        """Wake everyone who waits. Called after a commit, and after a range was found damaged."""
        with self._lock:
            self._count += 1
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            # The server whose loop it was may have ended meanwhile: the others are to wake all the same.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    async def wait_past(self, seen: int, timeout_s: float) -> bool:
        """True as soon as the bell was rung after ``count`` was ``seen``; False after ``timeout_s`` seconds."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._count > seen:
                return True
            self._waiting.add(entry)
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(entry)
        return True
