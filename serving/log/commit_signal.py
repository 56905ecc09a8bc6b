"""Bells that the tiering loop rings after a commit, for copies that wait in the server's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection, Iterator
from typing import TypeAlias

Watched: TypeAlias = tuple[str, int]
"""A topic's id and a partition of it."""


class Bell:
    """One waiter's, in its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def clear(self) -> None:
        """Before looking: what happens between the look and the wait ends the wait."""
        self._rung.clear()

    async def rung_within(self, timeout_s: float) -> bool:
        """True as soon as it was rung after ``clear``; False after ``timeout_s`` seconds."""
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True

    def ring(self) -> None:
        """From any thread."""
        # The server whose loop it was may have ended meanwhile: the others are to wake all the same.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)


class CommitSignal:
    """Rung from any thread, listened to in any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: dict[Watched, set[Bell]] = {}

    def ring(self, changed: Collection[Watched] | None = None) -> None:
        """Wake who listens for one of ``changed``, or everyone: after a commit, and when a range was found damaged."""
        with self._lock:
            keys = self._bells.keys() if changed is None else self._bells.keys() & set(changed)
            bells = [bell for key in keys for bell in self._bells[key]]
        for bell in bells:
            bell.ring()

    @contextlib.contextmanager
    def listening(self, watched: Watched) -> Iterator[Bell]:
        """A bell that is rung for ``watched``."""
        bell = Bell()
        with self._lock:
            self._bells.setdefault(watched, set()).add(bell)
        try:
            yield bell
        finally:
            with self._lock:
                others = self._bells[watched]
                others.remove(bell)
                if not others:
                    del self._bells[watched]
