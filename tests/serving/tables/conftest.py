"""A catalog with a table in it, served by the table door on a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.support.served_routes import served

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
def door(catalog: Catalog) -> Iterator[str]:
    """URL of a door without tokens."""
    with served(table_door_routes(CatalogView(catalog))) as url:
        yield url
