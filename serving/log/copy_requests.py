"""What the broker has asked the log door to copy: the sign that native mode works."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from engine.clock import Clock
from serving.log.backend import RemoteSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesAsked:
    """Of one partition, since this process started: when the broker last asked (monotonic), and the end of the highest
    segment that was found safe when it did, -1 before the first."""

    last_ms: int
    safe_end: int = -1


class CopyRequests:
    """Noted by the door's threads, read by any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], CopiesAsked] = {}

    def note(self, segment: RemoteSegment, *, is_safe: bool = False) -> None:
        """The broker asks for a copy of ``segment``, which ``is_safe`` when the proof for it was found."""
        key = (segment.topic_id, segment.partition)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            before = self._seen.get(key)
            safe_end = -1 if before is None else before.safe_end
            if is_safe:
                safe_end = max(safe_end, segment.range.end)
            self._seen[key] = CopiesAsked(last_ms=now_ms, safe_end=safe_end)

    def of(self, topic_id: str, partition: int) -> CopiesAsked | None:
        """None while the broker has not asked for any."""
        with self._lock:
            return self._seen.get((topic_id, partition))
