"""An answer of record batches: made lazily, in threads, one chunk ahead of the network, not for a client that left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from typing import Self

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import Corrupt, FloebergError
from engine.fault_points import FaultPoint, reach

CHUNK_BYTES = 512 << 10
"""Batches are joined up to this size before they are sent: large enough that the hop between threads costs nothing."""

_log = structlog.get_logger(__name__)


class RecordAnswer(Response):
    """``200`` with the batches of an iterator as its body.

    When the iterator fails after the first chunk, the connection is closed without the body's end, so that the
    client can't take what it has for the whole answer.
    """

    media_type = "application/octet-stream"

    def __init__(
        self,
        *,
        first: bytes,
        rest: Iterator[memoryview],
        pool: Executor,
        on_sent: Callable[[int], None],
        on_broken: Callable[[], None],
        on_end: Callable[[], None],
        about: str,
    ) -> None:
        self._first = first
        self._rest = rest
        self._pool = pool
        self._on_sent = on_sent
        self._on_broken = on_broken
        self._on_end = on_end
        self._about = about
        super().__init__()
        del self.headers["content-length"]

    @classmethod
    async def begin(
        cls,
        batches: Iterator[memoryview],
        *,
        pool: Executor,
        on_sent: Callable[[int], None],
        on_broken: Callable[[], None],
        on_end: Callable[[], None],
        about: str,
    ) -> Self:
        """Make the first chunk, so that an error becomes a status code.

        ``on_sent`` is told the bytes of each chunk that was taken, ``on_broken`` is called when the answer breaks off,
        ``on_end`` once when it is over, however it ends; ``about`` names the request in the log.
        """
        first = await asyncio.get_running_loop().run_in_executor(pool, _next_chunk, batches)
        assert first, "an answer has at least one batch"
        return cls(
            first=first,
            rest=batches,
            pool=pool,
            on_sent=on_sent,
            on_broken=on_broken,
            on_end=on_end,
            about=about,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # ASGI's signature
        loop = asyncio.get_running_loop()
        gone = asyncio.ensure_future(_client_is_gone(receive))
        following: asyncio.Future[bytes] | None = None
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            chunk = self._first
            while chunk and not gone.done():
                following = loop.run_in_executor(self._pool, _next_chunk, self._rest)
                await _unless(gone, send({"type": "http.response.body", "body": chunk, "more_body": True}))
                self._on_sent(len(chunk))
                chunk = await following
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except FloebergError as error:
            # The server closes a connection whose answer was not completed.
            self._on_broken()
            if not isinstance(error, Corrupt):  # damage is told once, by the damage watch
                _log.error("an answer of records broke off", request=self._about, problem=str(error))
        except Exception:
            self._on_broken()
            raise
        finally:
            self._on_end()
            gone.cancel()
            if following is not None and not following.done():
                # A generator can't be closed while a thread runs it.
                await asyncio.wait([following])
            await loop.run_in_executor(self._pool, _close, self._rest)


async def _client_is_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless(gone: asyncio.Future[None], sending: Awaitable[None]) -> None:
    """Wait for the chunk to be taken, or for the client to leave, whichever is first."""
    task = asyncio.ensure_future(sending)
    await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
    else:
        await task


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
