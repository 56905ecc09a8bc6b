"""A catalog with a table in it, served by the table door on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
import uvicorn
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from starlette.applications import Starlette

from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes

ROWS = 1000


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Namespaces ``shop`` (tables ``orders`` with 1000 rows, ``empty``) and ``bare`` (none)."""
    folder = tmp_path_factory.mktemp("catalog")
    made = SqlCatalog("written", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    made.create_namespace("shop", {"owner": "floeberg"})
    made.create_namespace("bare")
    rows = pa.table(
        {
            "kafka_partition": pa.array([offset % 3 for offset in range(ROWS)], pa.int32()),
            "kafka_offset": pa.array(range(ROWS), pa.int64()),
            "amount": pa.array([offset / 4 for offset in range(ROWS)], pa.float64()),
        }
    )
    made.create_table("shop.orders", rows.schema, properties={"floeberg.topic": "orders"}).append(rows)
    made.create_table("shop.empty", rows.schema)
    return made


@pytest.fixture(scope="session")
def serve(catalog: Catalog) -> Callable[..., object]:
    """``with serve(tokens=...) as url``: the door over the catalog, reachable over HTTP."""

    @contextmanager
    def serving(tokens: tuple[str, ...] = ()) -> Iterator[str]:
        app = Starlette(routes=table_door_routes(CatalogView(catalog), tokens=tokens))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
            thread.start()
            try:
                # The socket listens already: requests that come before the server is up wait in its backlog.
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join(10)

    return serving


@pytest.fixture(scope="session")
def door(serve: Callable[..., object]) -> Iterator[str]:
    """URL of a door without tokens."""
    with serve() as url:  # type: ignore[attr-defined]
        yield url
