"""TLS connections that are not one yet: their clients may take their time, or never come to the point."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

GREETING_SECONDS = 10.0
"""For a client's half of TLS's handshake."""


class Greetings:
    """Bounded in number: where there are more, the one that began first makes room. Lives in one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tasks: dict[asyncio.Task[None], None] = {}

    def begin(self, protocol: Callable[[], asyncio.Protocol], client: socket.socket, context: ssl.SSLContext) -> None:
        """Beside whatever else is accepted; ``protocol`` has the connection once it is one."""
        task = asyncio.get_running_loop().create_task(_greet(protocol, client, context))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._note_end(done, client))
        if len(self._tasks) > self._limit:
            oldest = next(iter(self._tasks))
            del self._tasks[oldest]
            oldest.cancel()

    def _note_end(self, task: asyncio.Task[None], client: socket.socket) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            # It may not have begun, and then nobody else closes it.
            client.close()

    async def end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _greet(protocol: Callable[[], asyncio.Protocol], client: socket.socket, context: ssl.SSLContext) -> None:
    # Who speaks no TLS, or leaves, or takes too long, is closed, and nobody's problem.
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().connect_accepted_socket(
            protocol, client, ssl=context, ssl_handshake_timeout=GREETING_SECONDS
        )
