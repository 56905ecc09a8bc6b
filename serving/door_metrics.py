"""What the doors count of themselves, in the daemon's registry: requests, answers, bytes, waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorUse:
    """How many of the requests that a door takes at once are under way."""

    door: str
    request: str
    used: int
    limit: int


class DoorMetrics:
    """Shared by all doors of a daemon; ``door`` and ``request`` name who counts. Safe to use from several threads."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._requests = Counter(
            "floeberg_door_requests",
            "Requests answered, by HTTP status; an answer of records that broke off later counts as 200 here",
            ("door", "request", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "floeberg_door_seconds",
            "From a request until its answer begins: for records until the first batches are made, for a copy until"
            " its range is verified or the wait is over",
            ("door", "request"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._sent = Counter("floeberg_door_sent_bytes", "Bytes of record batches sent", ("door",), registry=registry)
        self._broken = Counter(
            "floeberg_door_broken_answers",
            "Answers of records that broke off after they had begun; the broker asks again",
            ("door",),
            registry=registry,
        )
        self._under_way = Gauge(
            "floeberg_door_under_way",
            "Requests under way: copies that wait for their range, reads",
            ("door", "request"),
            registry=registry,
        )
        self._limit = Gauge(
            "floeberg_door_under_way_limit",
            "How many may be under way; what comes above it is answered 503",
            ("door", "request"),
            registry=registry,
        )

    def answered(self, door: str, request: str, status: int) -> None:
        self._requests.labels(door, request, str(status)).inc()

    @contextmanager
    def timed(self, door: str, request: str) -> Iterator[None]:
        """Measure until the answer begins."""
        with self._seconds.labels(door, request).time():
            yield

    def sent(self, door: str, size_bytes: int) -> None:
        self._sent.labels(door).inc(size_bytes)

    def broke_off(self, door: str) -> None:
        self._broken.labels(door).inc()

    def under_way(self, use: DoorUse) -> None:
        self._under_way.labels(use.door, use.request).set(use.used)
        self._limit.labels(use.door, use.request).set(use.limit)
