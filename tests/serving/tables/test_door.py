"""The table door as the REST catalog protocol describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pyiceberg.catalog import Catalog
from starlette.applications import Starlette
from starlette.testclient import TestClient

from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes


@pytest.fixture
def client(catalog: Catalog) -> TestClient:
    return TestClient(Starlette(routes=table_door_routes(CatalogView(catalog))))


def assert_error(answer: httpx.Response, code: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == code
    error: dict[str, Any] = answer.json()["error"]
    assert (error["code"], error["type"]) == (code, kind)
    return error


def test_config_lists_the_reading_endpoints_and_no_other(client: TestClient) -> None:
    endpoints = client.get("/v1/config").json()["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in endpoints
    assert {endpoint.split()[0] for endpoint in endpoints} == {"GET", "HEAD"}


def test_namespaces_of_the_root_are_listed_and_a_parent_is_honoured(client: TestClient) -> None:
    assert sorted(client.get("/v1/namespaces").json()["namespaces"]) == [["bare"], ["shop"]]
    assert client.get("/v1/namespaces", params={"parent": "shop"}).json() == {"namespaces": []}


def test_namespace_shows_its_properties(client: TestClient) -> None:
    answer = client.get("/v1/namespaces/shop").json()
    assert answer["namespace"] == ["shop"]
    assert answer["properties"]["owner"] == "floeberg"


def test_tables_of_a_namespace_are_listed(client: TestClient) -> None:
    found = client.get("/v1/namespaces/shop/tables").json()["identifiers"]
    assert sorted(table["name"] for table in found) == ["empty", "orders"]
    assert client.get("/v1/namespaces/bare/tables").json() == {"identifiers": []}


def test_table_is_served_as_the_metadata_file_says_it(client: TestClient) -> None:
    answer = client.get("/v1/namespaces/shop/tables/orders").json()
    assert answer["config"] == {}
    assert answer["metadata"]["properties"]["floeberg.topic"] == "orders"
    written = httpx.Response(200, text=Path(answer["metadata-location"].removeprefix("file://")).read_text()).json()
    assert answer["metadata"] == written


def test_table_that_did_not_change_is_not_sent_again(client: TestClient) -> None:
    etag = client.get("/v1/namespaces/shop/tables/orders").headers["etag"]
    again = client.get("/v1/namespaces/shop/tables/orders", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/v1/namespaces/shop", "/v1/namespaces/shop/tables/orders"])
def test_head_of_what_exists_is_204(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 204


@pytest.mark.parametrize(
    "path", ["/v1/namespaces/nowhere", "/v1/namespaces/shop/tables/none", "/v1/namespaces/nowhere/tables/orders"]
)
def test_head_of_what_is_missing_is_404(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/namespaces/nowhere", "NoSuchNamespaceException"),
        ("/v1/namespaces/nowhere/tables", "NoSuchNamespaceException"),
        ("/v1/namespaces?parent=nowhere", "NoSuchNamespaceException"),
        ("/v1/namespaces/a%1Fb", "NoSuchNamespaceException"),
        ("/v1/namespaces/shop/tables/none", "NoSuchTableException"),
        ("/v1/namespaces/shop/views/none", "NoSuchEndpointException"),
    ],
)
def test_what_is_missing_is_404_in_the_protocols_words(client: TestClient, path: str, kind: str) -> None:
    assert_error(client.get(path), 404, kind)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/shop"),
        ("POST", "/v1/namespaces/shop/tables"),
        ("POST", "/v1/namespaces/shop/tables/orders"),
        ("DELETE", "/v1/namespaces/shop/tables/orders"),
        ("POST", "/v1/transactions/commit"),
    ],
)
def test_writes_are_refused_and_change_nothing(client: TestClient, catalog: Catalog, method: str, path: str) -> None:
    error = assert_error(client.request(method, path, json={}), 405, "UnsupportedOperationException")
    assert "read-only" in error["message"]
    assert catalog.table_exists("shop.orders")


def test_request_without_the_right_token_sees_nothing(catalog: Catalog) -> None:
    routes = table_door_routes(CatalogView(catalog), tokens=("one", "two"))
    client = TestClient(Starlette(routes=routes))
    for given in ({}, {"Authorization": "Bearer three"}, {"Authorization": "Basic one"}, {"Authorization": "Bearer"}):
        for path in ("/v1/config", "/v1/namespaces", "/v1/namespaces/shop/tables/orders", "/v1/other"):
            assert_error(client.get(path, headers=given), 401, "NotAuthorizedException")
    for token in ("one", "two"):
        assert client.get("/v1/namespaces", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_catalog_that_is_away_is_503(catalog: Catalog, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    away = SqlCatalog("away", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    away.engine.dispose()
    (tmp_path / "catalog.db").unlink()
    client = TestClient(Starlette(routes=table_door_routes(CatalogView(away))))
    assert_error(client.get("/v1/namespaces"), 503, "ServiceUnavailableException")
