"""A bound on what is under way at the door. A client that only we wait for has no claim to its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.clock import Clock
from engine.errors import Unavailable
from serving.door import DoorMetrics, DoorUse

STALLED_MS = 1_000
"""A client that takes nothing of its answer for so long has lost its claim: a newcomer may have the place."""


class Place:
    """Held until ``give_back``, which may be called more than once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.stalled_since_ms: int | None = None
        self.hang_up: Callable[[], None] | None = None

    def give_back(self) -> None:
        self._places.free(self)

    @contextmanager
    def sending(self, hang_up: Callable[[], None] | None) -> Iterator[None]:
        """While the client is to take a part of its answer. ``hang_up`` ends its connection if its place is wanted."""
        self.stalled_since_ms, self.hang_up = self._places.clock.monotonic_ms(), hang_up
        try:
            yield
        finally:
            self.stalled_since_ms = self.hang_up = None


class Places:
    """At most ``count`` at once; a further one is refused, unless a client has stalled. Lives in one event loop."""

    def __init__(self, count: int, *, door: str, what: str, metrics: DoorMetrics, clock: Clock) -> None:
        self.clock = clock
        self._count = count
        self._door = door
        self._what = what
        self._metrics = metrics
        # In the order they were taken.
        self._taken: dict[Place, None] = {}
        self._show()

    def take(self) -> Place:
        """Raises Unavailable when all are taken, by clients that take what they asked for."""
        if len(self._taken) >= self._count:
            self._clear_one()
        place = Place(self)
        self._taken[place] = None
        self._show()
        return place

    def free(self, place: Place) -> None:
        self._taken.pop(place, None)
        self._show()

    @contextmanager
    def one(self) -> Iterator[Place]:
        place = self.take()
        try:
            yield place
        finally:
            place.give_back()

    def _clear_one(self) -> None:
        """Free the place of the client that has stalled for longest, and hang up on it."""
        late_ms = self.clock.monotonic_ms() - STALLED_MS
        stalled = [
            (place.stalled_since_ms, place.hang_up, place)
            for place in self._taken
            if place.stalled_since_ms is not None and place.stalled_since_ms <= late_ms and place.hang_up is not None
        ]
        if not stalled:
            raise Unavailable(f"Too many {self._what} are under way")
        _, hang_up, place = min(stalled, key=lambda entry: entry[0])
        self.free(place)
        hang_up()

    def _show(self) -> None:
        self._metrics.under_way(DoorUse(door=self._door, request=self._what, used=len(self._taken), limit=self._count))
