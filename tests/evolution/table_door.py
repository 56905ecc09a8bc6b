"""The table door over a test's catalog, on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from pyiceberg.catalog import Catalog
from starlette.applications import Starlette

from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes


@contextmanager
def served(catalog: Catalog) -> Iterator[str]:
    """The door's URL."""
    app = Starlette(routes=table_door_routes(CatalogView(catalog), tokens=()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
