"""The catalogs a table may live in, all held to one suite: SQLite and REST, over a folder and over S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.table.catalog.access import embedded_catalog_properties
from tests.engine.table.catalog.catalog_suite import CatalogSuite
from tests.engine.table.catalog.several_processes import SeveralProcesses
from tests.support.rest_catalog import RestCatalogServer
from tests.support.s3_server import BUCKET, S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


class TestSqliteOverAFolder(CatalogSuite, SeveralProcesses):
    @pytest.fixture
    def properties(self, tmp_path: Path) -> dict[str, str]:
        return embedded_catalog_properties(tmp_path)


class TestSqlOverAFolder(CatalogSuite):
    """As on PostgreSQL: nothing that is SQLite's own is used."""

    @pytest.fixture
    def properties(self, tmp_path: Path) -> dict[str, str]:
        embedded = embedded_catalog_properties(tmp_path)
        return {**embedded, "uri": embedded["uri"].replace("sqlite:", "sqlite+pysqlite:")}


class TestSqliteOverS3(CatalogSuite):
    @pytest.fixture
    def properties(self, tmp_path: Path, s3: S3Server) -> dict[str, str]:
        return {**embedded_catalog_properties(tmp_path), "warehouse": f"s3://{BUCKET}/sqlite", **s3.properties}


@pytest.mark.catalog
@pytest.mark.xdist_group("rest-catalog")
class TestRestOverAFolder(CatalogSuite, SeveralProcesses):
    @pytest.fixture(scope="class")
    def properties(self, rest_catalog: RestCatalogServer) -> dict[str, str]:
        return rest_catalog.properties


@pytest.mark.catalog
@pytest.mark.xdist_group("rest-catalog")
class TestRestOverS3(CatalogSuite):
    @pytest.fixture(scope="class")
    def properties(self, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
        folder, warehouse = tmp_path_factory.mktemp("rest-s3"), f"s3://{BUCKET}/rest"
        with RestCatalogServer(folder, warehouse=warehouse, s3=s3.properties) as server:
            yield server.properties
