"""Routes behind a real server on a free port of the loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute


@contextmanager
def served(routes: Sequence[BaseRoute], *, port: int = 0) -> Iterator[str]:
    """The server's URL while it runs; it is gone, and its connections with it, when the block ends."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
        config = uvicorn.Config(Starlette(routes=list(routes)), log_level="critical", access_log=False, lifespan="off")
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        # Connections that come before the server is up wait in the listening socket.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server did not stop"
