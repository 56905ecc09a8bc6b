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
    assert client.get("/v1/namespaces", params={"parent": "shop"}).json()["namespaces"] == []


def test_namespace_shows_its_properties(client: TestClient) -> None:
    answer = client.get("/v1/namespaces/shop").json()
    assert answer["namespace"] == ["shop"]
    assert answer["properties"]["owner"] == "floeberg"


def test_tables_of_a_namespace_are_listed(client: TestClient) -> None:
    found = client.get("/v1/namespaces/shop/tables").json()["identifiers"]
    assert sorted(table["name"] for table in found) == ["empty", "orders"]
    assert client.get("/v1/namespaces/bare/tables").json()["identifiers"] == []


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


_NAMESPACE = "/v1/namespaces/shop"
_TABLE = f"{_NAMESPACE}/tables/orders"
_VIEW = f"{_NAMESPACE}/views/recent"
WRITES = (
    "POST /v1/oauth/tokens",
    "POST /v1/namespaces",
    f"DELETE {_NAMESPACE}",
    f"POST {_NAMESPACE}/properties",
    f"POST {_NAMESPACE}/tables",
    f"POST {_NAMESPACE}/register",
    f"POST {_TABLE}",
    f"DELETE {_TABLE}",
    f"DELETE {_TABLE}?purgeRequested=true",
    f"POST {_TABLE}/unregister",
    f"POST {_TABLE}/plan",
    f"DELETE {_TABLE}/plan/1",
    f"POST {_TABLE}/tasks",
    f"POST {_TABLE}/sign",
    f"POST {_TABLE}/metrics",
    "POST /v1/tables/rename",
    "POST /v1/transactions/commit",
    f"POST {_NAMESPACE}/views",
    f"POST {_VIEW}",
    f"DELETE {_VIEW}",
    "POST /v1/views/rename",
    f"POST {_NAMESPACE}/register-view",
)
"""Every call of Iceberg's rest-catalog-open-api.yaml (1.11) that is no GET and no HEAD."""

UNSERVED = (
    f"{_TABLE}/credentials",
    f"{_TABLE}/plan/1",
    f"{_NAMESPACE}/functions",
    f"{_NAMESPACE}/functions/one",
    f"{_NAMESPACE}/views",
    _VIEW,
)
"""Every GET of it that ``/v1/config`` does not list."""


@pytest.mark.parametrize("call", WRITES)
def test_writes_are_refused_and_change_nothing(client: TestClient, catalog: Catalog, call: str) -> None:
    def state() -> list[object]:
        named = [(one, catalog.load_namespace_properties(one)) for one in sorted(catalog.list_namespaces())]
        tables = sorted(name for one, _ in named for name in catalog.list_tables(one))
        return [named, [(name, catalog.load_table(name).metadata_location) for name in tables]]

    before = state()
    method, path = call.split()
    renaming = {"source": {"namespace": ["shop"], "name": "orders"}, "destination": {"namespace": ["x"], "name": "y"}}
    for body in ({}, {"namespace": ["new"], "name": "new", "requirements": [], "updates": []}, renaming):
        answer = client.request(method, path, json=body)
        error = assert_error(answer, 405, "UnsupportedOperationException")
        assert "read-only" in error["message"]
        assert answer.headers["Allow"] == "GET, HEAD"
    assert state() == before


@pytest.mark.parametrize("path", UNSERVED)
def test_what_the_door_does_not_serve_is_told_in_the_protocols_words(client: TestClient, path: str) -> None:
    assert_error(client.get(path), 404, "NoSuchEndpointException")


@pytest.mark.parametrize(
    ("path", "listed", "all_of_them"),
    [
        ("/v1/namespaces", "namespaces", [["bare"], ["shop"]]),
        (
            f"{_NAMESPACE}/tables",
            "identifiers",
            [{"namespace": ["shop"], "name": "empty"}, {"namespace": ["shop"], "name": "orders"}],
        ),
    ],
)
def test_list_is_turned_page_by_page_by_clients_that_ask_for_it(
    client: TestClient, path: str, listed: str, all_of_them: list[object]
) -> None:
    for size, pages in ((1, [all_of_them[:1], all_of_them[1:]]), (2, [all_of_them]), (10**8, [all_of_them])):
        token: str | None = ""
        for page in pages:
            answer = client.get(path, params={"pageSize": size, "pageToken": token}).json()
            assert answer[listed] == page
            token = answer["next-page-token"]
        assert token is None
    for without in ({}, {"pageSize": 1}):
        answer = client.get(path, params=without).json()
        assert (answer[listed], answer["next-page-token"]) == (all_of_them, None)
    assert client.get(path, params={"pageToken": "zzz"}).json()[listed] == []


@pytest.mark.parametrize("size", ["0", "-1", "many", "", "1.5", "9" * 30])
def test_page_size_that_is_none_is_a_bad_request(client: TestClient, size: str) -> None:
    for path in ("/v1/namespaces", f"{_NAMESPACE}/tables"):
        answer = client.get(path, params={"pageSize": size, "pageToken": ""})
        assert "pageSize" in assert_error(answer, 400, "BadRequestException")["message"]


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
