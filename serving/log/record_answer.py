"""An answer of record batches: made lazily, in threads, one chunk ahead of the network, not for a client that left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, Self, TypeVar

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import Corrupt, FloebergError
from engine.fault_points import FaultPoint, reach
from serving.door import client_is_gone, hang_up_of
from serving.log.places import Place

CHUNK_BYTES = 512 << 10
"""Batches are joined up to this size before they are sent: large enough that the hop between threads costs nothing."""

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


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
