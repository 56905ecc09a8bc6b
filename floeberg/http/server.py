"""A Starlette application on a socket, served by uvicorn in a thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections.abc import Sequence
from functools import partial
from typing import Self

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute

from engine.errors import Unavailable
from floeberg.http.certificate import Certificate
from floeberg.http.connection import Connection, ConnectionLimits, OpenConnections
from floeberg.http.greetings import Greetings
from floeberg.settings.doors import DoorSettings, Listen, TlsSettings

STOP_TIMEOUT_SECONDS = 5
"""How long answers under way may take when the server stops; a broker that waits for a copy asks again."""

START_TIMEOUT_SECONDS = 30
"""For the thread to begin serving: it has nothing to wait for but its turn on the processor."""

BACKLOG = 128
"""Connections that wait to be accepted."""

TOLD_AGAIN_SECONDS = 60.0
"""That connections can't be accepted is told once in so long, with how often it was so."""

ACCEPT_PAUSE_SECONDS = 0.1
"""Between two tries to accept without a handle: each lets go of one idle connection."""

SPARE_AGAIN_SECONDS = 5.0
"""After the spare handle was let go of, it is taken again, where there is one."""

_OUT_OF_HANDLES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

_log = structlog.get_logger(__name__)


def bound_socket(listen: Listen, *, setting: str) -> socket.socket:
    """A socket at the address that ``setting`` names, at which nobody can connect yet. Raises ``Unavailable`` when
    nothing can listen there."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((listen.host, listen.port))
    except OSError as error:
        bound.close()
        raise _taken(listen, setting, error) from error
    return bound


def _taken(listen: Listen, setting: str, error: OSError | None) -> Unavailable:
    why = "it did not begin in time" if error is None else error.strerror or error
    return Unavailable(
        f"Nothing can listen at {listen}: {why}",
        next_step=f"end what listens there, or set another address in {setting}",
    )


class HttpServer:
    """Serves ``routes`` from the moment it is made until ``stop``; a context manager.

    Nobody can connect before it is served: who comes too early is refused at once, and doesn't wait for a server that
    may take its time. Raises ``Unavailable`` when the address can't be listened at, ``Invalid`` for a certificate that
    can't be used.
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        listen: Listen,
        *,
        setting: str,
        limits: ConnectionLimits | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        certificate = None if tls is None else Certificate(tls)
        self._socket = bound_socket(listen, setting=setting)
        # Accepted connections inherit it. asyncio sets it only on sockets that were made with an explicit protocol, and
        # without it the end of a chunked answer waits for the client's delayed acknowledgement (40 ms).
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.listen = Listen(host=listen.host, port=int(self._socket.getsockname()[1]))
        self._door = DoorSettings(listen=self.listen, tls=tls)
        self._server = _Server(routes, limits or ConnectionLimits(), name=str(self.listen), certificate=certificate)
        self._thread = threading.Thread(target=self._run, name=f"http-{self.listen.port}", daemon=True)
        self._thread.start()
        self._server.begun.wait(START_TIMEOUT_SECONDS)
        if not self._server.started:
            self.stop()
            # Another one can have begun to listen since the address was bound.
            raise _taken(listen, setting, self._server.failure) from self._server.failure

    @property
    def url(self) -> str:
        return self._door.url

    def stop(self) -> None:
        """Stop listening, let answers under way end, end the thread."""
        self._server.should_exit = True
        self._thread.join(2 * STOP_TIMEOUT_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except OSError as error:
            self._server.failure = error
        finally:
            self._server.begun.set()


class _Server(uvicorn.Server):
    """uvicorn's, that says when it serves, and lives through a lack of file handles."""

    def __init__(
        self, routes: Sequence[BaseRoute], limits: ConnectionLimits, *, name: str, certificate: Certificate | None
    ) -> None:
        application = Starlette(routes=list(routes))
        # A redirect would be made before the door's guard.
        application.router.redirect_slashes = False
        self._connections = OpenConnections(limits.connections)
        self._certificate = certificate
        self._greetings = Greetings(limits.connections)
        self._protocol = partial(Connection, limits=limits, others=self._connections)
        config = uvicorn.Config(
            application,
            ws="none",
            log_config=None,
            # Below it is one line for each request that is no HTTP: a stranger could fill the log.
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
        )
        super().__init__(config)
        self.begun = threading.Event()
        self.failure: OSError | None = None
        self._name = name
        self._spare = _spare_handle()
        self._refused = 0
        self._told_at = float("-inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """In place of uvicorn's: asyncio's way of accepting tells of each lack of a handle a hundred times."""
        await self.lifespan.startup()
        # What is loaded with the first request opens files, and there may be no handles by then.
        await run_in_threadpool(lambda: None)
        assert sockets is not None, "the socket is ours"
        (listening,) = sockets
        listening.listen(BACKLOG)
        listening.setblocking(False)
        self.servers = []
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening))
        self.started = True
        self.begun.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        await self._greetings.end()
        await super().shutdown(sockets)
        if self._spare is not None:
            os.close(self._spare)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
                if self._certificate is None:
                    await loop.connect_accepted_socket(self._connection, client)
                else:
                    self._greetings.begin(self._connection, client, self._certificate.context(loop.time()))
            except OSError as error:
                if error.errno in _OUT_OF_HANDLES:
                    # First the pause: who was let in last is to have the time to ask.
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                    self._make_room(loop, error)
                # Any other is of a client that is gone already.

    def _connection(self) -> asyncio.Protocol:
        return self._protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _make_room(self, loop: asyncio.AbstractEventLoop, problem: OSError) -> None:
        """There is no handle for another connection: let go of one, so that a monitor, say, gets its answer."""
        self._refused += 1
        if loop.time() >= self._told_at + TOLD_AGAIN_SECONDS:
            _log.error("connections_not_accepted", address=self._name, times=self._refused, problem=str(problem))
            self._refused, self._told_at = 0, loop.time()
        self._connections.drop_idlest()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            loop.call_later(SPARE_AGAIN_SECONDS, self._keep_a_spare)

    def _keep_a_spare(self) -> None:
        self._spare = _spare_handle()
        if self._spare is None:
            asyncio.get_running_loop().call_later(SPARE_AGAIN_SECONDS, self._keep_a_spare)


def _spare_handle() -> int | None:
    """A handle to let go of when there are no others."""
    with contextlib.suppress(OSError):
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return None
