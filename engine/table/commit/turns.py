"""Who commits next, where several processes write to one table: they take turns, so that nobody loses for ever.

Nothing here decides what is committed: that is the catalog's assertion. Without turns the winner, who knows the newest
state and needs no loading, wins again and again, and the others use their attempts up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.backoff import Backoff, some_of
from engine.clock import Clock
from engine.file_lock import FileLock

WAITS = Backoff(first_ms=10, longest_ms=1_000)
_NEWCOMERS = 10
"""An attempt beyond so many waits least: whoever has lost often goes before whoever begins."""

_LOCK_POLL_MS = 5
_LOCK_POLLS = 1_000
"""Five seconds. The lock saves work and no more: a process that is stopped while it holds it stops nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastTurn:
    """``others``: commits that others made between this process's last two."""

    ended_ms: int
    duration_ms: int
    sequence_number: int
    others: int


class CommitTurns:
    """One process's knowledge of how contended a table is. For one thread at a time."""

    def __init__(self, clock: Clock, lock_file: Path | None) -> None:
        self._clock = clock
        self._lock_file = lock_file
        self._last: _LastTurn | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait until every process that committed since our last commit could do so once more; then hold the turn.

        True while no other process that takes turns commits to the table.
        """
        last = self._last
        if last is not None and last.others:
            polite_ms = min(last.others * last.duration_ms, WAITS.longest_ms)
            left_ms = some_of(polite_ms, self._clock) - (self._clock.monotonic_ms() - last.ended_ms)
            if left_ms > 0:
                self._clock.sleep(left_ms)
        with contextlib.ExitStack() as held:
            is_alone = False
            # A folder that takes no lock takes no commit either, and the commit says why.
            with contextlib.suppress(OSError):
                is_alone = self._lock_file is not None and self._take_lock(self._lock_file, held)
            yield is_alone

    def note_commit(self, *, began_ms: int, sequence_number: int) -> None:
        """A commit landed that took from ``began_ms`` (monotonic) and has the table's ``sequence_number``."""
        now_ms = self._clock.monotonic_ms()
        last = self._last
        others = 0 if last is None or self._lock_file is not None else sequence_number - last.sequence_number - 1
        self._last = _LastTurn(
            ended_ms=now_ms, duration_ms=now_ms - began_ms, sequence_number=sequence_number, others=max(0, others)
        )

    def wait_after_conflict(self, attempt: int, *, began_ms: int) -> None:
        """Some of the time that the others need, less with every attempt lost."""
        took_ms = max(WAITS.first_ms, self._clock.monotonic_ms() - began_ms)
        longest_ms = min(took_ms * max(1, _NEWCOMERS - attempt), WAITS.longest_ms)
        self._clock.sleep(some_of(longest_ms, self._clock))

    def wait_after_silence(self, attempt: int) -> None:
        """Longer each time: a catalog that does not answer needs rest. Never as long as another process waits."""
        self._clock.sleep(some_of(WAITS.wait_ms(attempt), self._clock))

    def _take_lock(self, path: Path, held: contextlib.ExitStack) -> bool:
        """Whoever lets go of the lock finds the next one in the queue, and can't take it again before that one."""
        with FileLock(path.with_name(f"{path.name}-queue")) as queue:
            lock = held.enter_context(FileLock(path))
            return self._take(queue) and self._take(lock)

    def _take(self, lock: FileLock) -> bool:
        for _ in range(_LOCK_POLLS):
            if lock.take():
                return True
            self._clock.sleep(_LOCK_POLL_MS)
        return False
