"""What the broker has asked the log door to copy: the sign that native mode works."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from engine.clock import Clock
from engine.offset_range import OffsetRange
from serving.log.backend import RemoteSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesAsked:
    """Of one partition, since this process started: when the broker last asked (monotonic), and the offsets up
    to the end of the highest segment that was found safe when it did, None before the first."""

    last_ms: int
    safe: OffsetRange | None = None


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
            safe = None if before is None else before.safe
            if is_safe:
                # Of two runs with offsets between them the later one counts.
                joined = segment.range if safe is None else safe.joined(segment.range)
                safe = max(safe or segment.range, segment.range, key=lambda one: one.end) if joined is None else joined
            self._seen[key] = CopiesAsked(last_ms=now_ms, safe=safe)

    def of(self, topic_id: str, partition: int) -> CopiesAsked | None:
        """None while the broker has not asked for any."""
        with self._lock:
            return self._seen.get((topic_id, partition))
