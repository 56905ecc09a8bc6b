"""Whoever asks at a door: noticed when it hangs up, hung up on when it stalls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope

HANG_UP = "floeberg.hang_up"
"""Extension of the ASGI scope: a callable that ends the connection at once, with what is still to be sent."""

_Answer = TypeVar("_Answer")


class ClientGone(Exception):
    """The client hung up before its answer began: nobody waits for it."""


def hang_up_of(scope: Scope) -> Callable[[], None] | None:
    """How to end the connection of a request; None where the server has no way to."""
    found: Callable[[], None] | None = (scope.get("extensions") or {}).get(HANG_UP)
    return found


async def client_is_gone(receive: Receive) -> None:
    """Returns when the client has hung up. Reads past what is left of the request's body."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_there(request: Request, work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Do the work, its body being read, as long as the client waits. Raises ClientGone; the work is cancelled then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(client_is_gone(request.receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return await task
    finally:
        task.cancel()
        gone.cancel()
