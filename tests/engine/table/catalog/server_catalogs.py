"""The catalogs whose servers a machine need not have, held to the suite of all: ``make test-catalogs``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import EndpointConnectionError
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from engine.errors import Invalid, Unavailable
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import open_catalog
from tests.engine.table.catalog.catalog_suite import CatalogSuite
from tests.engine.table.catalog.catalog_under_test import OTHER_ID, CatalogUnderTest
from tests.engine.table.catalog.several_processes import SeveralProcesses
from tests.engine.table.table_examples import TOPIC, TOPIC_ID, append_of, ensure_table
from tests.support.glue_server import glue_properties, strict_glue
from tests.support.nessie_server import NessieServer
from tests.support.postgres_server import PostgresServer
from tests.support.s3_server import BUCKET, S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


class TestPostgresOverAFolder(CatalogSuite, SeveralProcesses):
    @pytest.fixture
    def properties(self, postgres: PostgresServer, tmp_path: Path) -> dict[str, str]:
        return {"type": "sql", "uri": postgres.uri, "warehouse": tmp_path.as_uri()}


class TestPostgresOverS3(CatalogSuite):
    @pytest.fixture
    def properties(self, postgres: PostgresServer, s3: S3Server) -> dict[str, str]:
        return {"type": "sql", "uri": postgres.uri, "warehouse": f"s3://{BUCKET}/postgres", **s3.properties}


class TestGlue(CatalogSuite, SeveralProcesses):
    @pytest.fixture
    def properties(self, s3: S3Server) -> Iterator[dict[str, str]]:
        with strict_glue():
            yield {**glue_properties(s3.properties), "warehouse": f"s3://{BUCKET}/glue"}

    def test_namespace_may_have_levels(self, under_test: CatalogUnderTest) -> None:
        """It may not."""
        under_test.namespace += ".of.a_cluster"
        writer = under_test.writer()
        for ask in (lambda: ensure_table(writer), lambda: writer.open(TOPIC, TOPIC_ID)):
            with pytest.raises(Invalid, match="one level"):
                ask()

    def test_topics_that_differ_in_case_alone_cant_both_have_a_table(self, under_test: CatalogUnderTest) -> None:
        ensure_table(under_test.writer(), topic="Orders")
        with pytest.raises(Invalid, match="topic Orders"):
            ensure_table(under_test.writer(), topic="orders", topic_id=OTHER_ID)

    def test_rename_takes_what_was_committed_beside_it_along(
        self, under_test: CatalogUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer, catalog = under_test.writer(), under_test.catalog()
        table = ensure_table(writer)
        real, beside = GlueCatalog._create_glue_table, [append_of(table, 0, 10)]

        def created(*arguments: Any) -> None:
            real(*arguments)
            if beside:
                writer.commit(table, [beside.pop()])

        monkeypatch.setattr(GlueCatalog, "_create_glue_table", created)
        renamed = (under_test.namespace, "renamed")
        catalogs.give_name(catalog, renamed, TOPIC)
        catalogs.rename(catalog, table.identifier, renamed)
        seen = under_test.reopened()
        assert (seen.identifier, under_test.offsets(seen)) == (renamed, list(range(10)))
        assert catalogs.table_names(catalog, (under_test.namespace,)) == [renamed]

    @pytest.mark.parametrize("step", ["_update_glue_table", "drop_table"])
    def test_rename_that_was_ended_between_its_steps_goes_on_when_it_is_repeated(
        self, under_test: CatalogUnderTest, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        writer, catalog = under_test.writer(), under_test.catalog()
        table = writer.commit(ensure_table(writer), [append_of(ensure_table(writer), 0, 10)]).table
        renamed = (under_test.namespace, "renamed")
        catalogs.give_name(catalog, renamed, TOPIC)

        def ended(*_: object) -> None:
            raise EndpointConnectionError(endpoint_url="planted")

        monkeypatch.setattr(catalog, step, ended)
        with pytest.raises(Unavailable, match="planted"):
            catalogs.rename(catalog, table.identifier, renamed)
        monkeypatch.undo()
        catalogs.rename(catalog, table.identifier, renamed)
        seen = under_test.reopened()
        assert (seen.identifier, under_test.offsets(seen)) == (renamed, list(range(10)))
        # The name is free for the next table.
        assert ensure_table(under_test.writer(), topic="orders-next", topic_id=OTHER_ID).ledger == {}
        assert catalogs.create(catalog, table.identifier, schema=table.iceberg_schema) is not None


def test_nessie_is_refused_and_would_take_a_commit_that_was_made_for_an_older_state(
    s3: S3Server, tmp_path: Path
) -> None:
    with NessieServer(tmp_path, warehouse=f"s3://{BUCKET}/nessie", s3=s3.properties) as server:
        with pytest.raises(Invalid, match="Nessie"):
            open_catalog(server.properties)
        catalog = load_catalog("nessie", **server.properties)
        catalog.create_namespace("plain")
        catalog.create_table("plain.orders", Schema(NestedField(1, "offset", LongType())))
        first, second = (catalog.load_table("plain.orders") for _ in range(2))
        for table in (first, second):
            with table.transaction() as transaction:
                transaction.append(pa.table({"offset": [1]}))
        assert len(catalog.load_table("plain.orders").metadata.snapshots) == 1
