"""The body of a copy request, read within bounds on time and on the bytes of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from engine.errors import Corrupt, Invalid, Unavailable
from serving.door import ClientGone
from serving.log.auxiliary_state import MAX_SIZE_BYTES, AuxiliaryState


class LengthMissing(Invalid):
    """The request doesn't say how many bytes its body has."""


class TooLarge(Invalid):
    """The body is larger than any auxiliary state may be."""


class CopyBodies:
    """What all copies under way may hold of their bodies together. Lives in one event loop."""

    def __init__(self, *, limit_bytes: int, timeout_s: float) -> None:
        self._left_bytes = limit_bytes
        self._timeout_s = timeout_s

    @contextmanager
    def room_for(self, request: Request) -> Iterator[None]:
        """Keep room for a request's body, before any of it is read. Raises LengthMissing, TooLarge, Unavailable."""
        told = request.headers.get("content-length", "")
        # The server has checked that it is a number; a body sent in chunks has none.
        if not (told.isascii() and told.isdigit()):
            raise LengthMissing("A copy request says how many bytes its body has, as Content-Length")
        if len(told) > len(str(MAX_SIZE_BYTES)) or int(told) > MAX_SIZE_BYTES:
            raise TooLarge(f"The auxiliary state of a segment has at most {MAX_SIZE_BYTES} bytes")
        size_bytes = int(told)
        if size_bytes > self._left_bytes:
            raise Unavailable("The bodies of the copies under way have too many bytes together")
        self._left_bytes -= size_bytes
        try:
            yield
        finally:
            self._left_bytes += size_bytes

    async def read(self, request: Request) -> AuxiliaryState:
        """Raises Invalid (damaged, or too slow in coming), ClientGone."""
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(self._timeout_s):
                async for piece in request.stream():
                    pieces.append(piece)
        except ClientDisconnect:
            raise ClientGone from None
        except TimeoutError:
            raise Invalid(f"The body of a copy request was not there after {self._timeout_s:g} s") from None
        body = b"".join(pieces)
        pieces.clear()
        try:
            return AuxiliaryState.from_bytes(body)
        except Corrupt as error:
            raise Invalid(f"The body of a copy request is damaged: {error.problem}") from error
