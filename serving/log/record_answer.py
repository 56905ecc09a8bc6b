"""An answer of record batches: made lazily, in threads, one chunk ahead of the network, not for a client that left.

What is under way at the door is bounded; a client that only we wait for has no claim to its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.clock import Clock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from serving.door import DoorMetrics, DoorUse, client_is_gone, hang_up_of

STALLED_MS = 1_000
"""A client that takes nothing of its answer for so long has lost its claim: a newcomer may have the place."""

CHUNK_BYTES = 512 << 10
"""Batches are joined up to this size before they are sent: large enough that the hop between threads costs nothing."""

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


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


class RecordAnswer(Response):
    """``200`` with the batches of an iterator as its body.

    When the iterator fails after the first chunk, the connection is closed without the body's end, so that the
    client can't take what it has for the whole answer. It has its place until it is over, or until a client that
    takes what it asked for wants the place and this one's has stalled: then its connection is closed.
    """

    media_type = "application/octet-stream"

    def __init__(
        self,
        *,
        first: bytes,
        rest: Iterator[memoryview],
        pool: Executor,
        place: Place,
        on_sent: Callable[[int], None],
        on_broken: Callable[[], None],
        about: str,
    ) -> None:
        self._first = first
        self._rest = rest
        self._pool = pool
        self._on_sent = on_sent
        self._on_broken = on_broken
        self._place = place
        self._about = about
        super().__init__()
        del self.headers["content-length"]

    @classmethod
    async def begin(
        cls,
        batches: Iterator[memoryview],
        *,
        pool: Executor,
        place: Place,
        on_sent: Callable[[int], None],
        on_broken: Callable[[], None],
        about: str,
    ) -> Self:
        """Make the first chunk, so that an error becomes a status code.

        ``on_sent`` is told the bytes of each chunk that was taken, ``on_broken`` is called when the answer breaks off;
        ``about`` names the request in the log. The answer gives its ``place`` back when it is over, however it ends.
        """
        first = await asyncio.get_running_loop().run_in_executor(pool, _next_chunk, batches)
        assert first, "an answer has at least one batch"
        return cls(
            first=first,
            rest=batches,
            pool=pool,
            place=place,
            on_sent=on_sent,
            on_broken=on_broken,
            about=about,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hang_up = hang_up_of(scope)
        gone = asyncio.ensure_future(client_is_gone(receive))
        following: Future[bytes] | None = None
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            chunk, self._first = self._first, b""
            while chunk and not gone.done():
                following = self._pool.submit(_next_chunk, self._rest)
                with self._place.sending(hang_up):
                    await _unless(gone, send({"type": "http.response.body", "body": chunk, "more_body": True}))
                if gone.done():
                    break
                self._on_sent(len(chunk))
                chunk = await _unless(gone, asyncio.wrap_future(following)) or b""
            if not gone.done():
                with self._place.sending(hang_up):
                    await _unless(gone, send({"type": "http.response.body", "body": b"", "more_body": False}))
        except FloebergError as error:
            # The server closes a connection whose answer was not completed.
            self._on_broken()
            if not isinstance(error, Corrupt):  # damage is told once, by the damage watch
                _log.error("an answer of records broke off", request=self._about, problem=str(error))
        except Exception:
            self._on_broken()
            raise
        finally:
            self._place.give_back()
            gone.cancel()
            # Nobody wants what waits for a thread; what a thread is at ends by itself, and closes the batches after.
            if following is None or following.cancel():
                _close(self._rest)
            else:
                following.add_done_callback(lambda _: _close(self._rest))


async def _unless(gone: asyncio.Future[None], awaited: Awaitable[_T]) -> _T | None:
    """Wait for it, or for the client to leave, whichever is first; None then."""
    task = asyncio.ensure_future(awaited)
    both: set[asyncio.Future[Any]] = {task, gone}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        task.cancel()


def _next_chunk(batches: Iterator[memoryview]) -> bytes:
    """The next batches, joined to about CHUNK_BYTES; empty at the end."""
    found: list[memoryview] = []
    size_bytes = 0
    for batch in batches:
        reach(FaultPoint.BATCH_MADE)
        found.append(batch)
        size_bytes += len(batch)
        if size_bytes >= CHUNK_BYTES:
            break
    return b"".join(found)


def _close(batches: Iterator[memoryview]) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()
