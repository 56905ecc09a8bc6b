"""A Starlette application on a socket, served by uvicorn in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from engine.errors import Unavailable
from floeberg.settings import Listen

STOP_TIMEOUT_SECONDS = 5
"""How long answers under way may take when the server stops; a broker that waits for a copy asks again."""


class HttpServer:
    """Serves ``routes`` from the moment it is made until ``stop``; a context manager.

    The socket listens at once: a request that comes before the server is up waits in its backlog.
    Raises ``Unavailable`` when the address can't be listened at.
    """

    def __init__(self, routes: Sequence[BaseRoute], listen: Listen, *, setting: str) -> None:
        try:
            family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
            self._socket = socket.create_server((listen.host, listen.port), family=family, reuse_port=False)
        except OSError as error:
            raise Unavailable(
                f"Nothing can listen at {listen}: {error.strerror or error}",
                next_step=f"end what listens there, or set another address in {setting}",
            ) from error
        # Accepted connections inherit it. asyncio sets it only on sockets that were made with an explicit protocol, and
        # without it the end of a chunked answer waits for the client's delayed acknowledgement (40 ms).
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.listen = Listen(host=listen.host, port=int(self._socket.getsockname()[1]))
        config = uvicorn.Config(
            Starlette(routes=list(routes)),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name=f"http-{self.listen.port}", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return self.listen.url

    def stop(self) -> None:
        """Stop listening, let answers under way end, end the thread."""
        self._server.should_exit = True
        self._thread.join(2 * STOP_TIMEOUT_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
