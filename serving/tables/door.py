"""The routes of the table door.

Source: Iceberg REST catalog, ``open-api/rest-catalog-open-api.yaml``. The read half of it, without views and scan
planning. Engines read the files themselves, with their own credentials: the door vends none.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from engine.errors import FloebergError, Unavailable
from serving.door import DoorGuard, DoorMetrics
from serving.host_names import HostNames, Misdirected
from serving.tables.catalog_view import CatalogView, Namespace, UnknownNamespace, UnknownTable

DOOR = "tables"
"""Its name among the doors' metrics."""

NAMESPACE_SEPARATOR = "\x1f"
"""Between the levels of a namespace in paths and query parameters (``%1F``)."""

_NAMESPACE = "/v1/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""What clients may call, as ``/v1/config`` tells them: a client that knows this list asks for nothing else."""

_WRITE_METHODS = ["POST", "PUT", "PATCH", "DELETE"]
_OTHER_METHODS = ["GET", "HEAD", "OPTIONS"]
_SHOWN_CHARACTERS = 200
_LARGEST_PAGE = 1000

Endpoint = Callable[[Request], Response]


def table_door_routes(
    catalog: CatalogView,
    *,
    tokens: Collection[str] = (),
    hosts: HostNames | None = None,
    metrics: DoorMetrics | None = None,
) -> list[BaseRoute]:
    """Starlette routes below ``/v1``. With ``tokens``, every request must carry one of them as a bearer token."""
    door = _TableDoor(catalog)
    readable: dict[str, Endpoint] = {
        "/v1/config": door.config,
        "/v1/namespaces": door.list_namespaces,
        _NAMESPACE: door.load_namespace,
        _NAMESPACE + "/tables": door.list_tables,
        _TABLE: door.load_table,
    }
    guard = DoorGuard(
        door=DOOR,
        tokens=tokens,
        hosts=hosts,
        metrics=metrics or DoorMetrics(),
        refusal=_refusal,
        problem=_answer_of,
        unforeseen=lambda error: _unavailable(f"Not now: {error!r}"),
    )
    return [
        *(Route(path, guard.wrap(at.__name__, at), methods=["GET"]) for path, at in readable.items()),
        Route("/v1/{path:path}", guard.wrap("refuse_write", _refuse_write), methods=_WRITE_METHODS),
        Route("/v1/{path:path}", guard.wrap("refuse_unknown", _refuse_unknown), methods=_OTHER_METHODS),
    ]


class InvalidParameter(ValueError):
    """A query parameter is not what the protocol says."""


class _TableDoor:
    """One method an endpoint. Synchronous: Starlette runs them in its thread pool, the catalog may block."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog

    def config(self, request: Request) -> Response:  # noqa: ARG002  # every endpoint takes the request
        return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": list(_ENDPOINTS)})

    def list_namespaces(self, request: Request) -> Response:
        # Engines walk the tree level by level: without `parent` being honoured some never reach its end.
        found = self._catalog.namespaces(_namespace_of(request.query_params.get("parent", "")))
        shown, following = _page(request, {NAMESPACE_SEPARATOR.join(one): list(one) for one in found})
        return JSONResponse({"namespaces": shown, **following})

    def load_namespace(self, request: Request) -> Response:
        namespace = _namespace_of(request.path_params["namespace"])
        properties = dict(self._catalog.namespace_properties(namespace))
        if request.method == "HEAD":
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return JSONResponse({"namespace": list(namespace), "properties": properties})

    def list_tables(self, request: Request) -> Response:
        namespace = _namespace_of(request.path_params["namespace"])
        names = self._catalog.table_names(namespace)
        shown, following = _page(request, {name: {"namespace": list(namespace), "name": name} for name in names})
        return JSONResponse({"identifiers": shown, **following})

    def load_table(self, request: Request) -> Response:
        namespace, name = _namespace_of(request.path_params["namespace"]), request.path_params["table"]
        if request.method == "HEAD":
            if not self._catalog.table_exists(namespace, name):
                raise UnknownTable(f"Table does not exist: {'.'.join((*namespace, name))}")
            return Response(status_code=HTTPStatus.NO_CONTENT)
        metadata = self._catalog.table(namespace, name)
        # Metadata files never change, so that the location names the state.
        etag = f'"{hashlib.sha256(metadata.location.encode()).hexdigest()[:32]}"'
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
        # The metadata is JSON already; only the location needs to be put into JSON.
        body = f'{{"metadata-location": {json.dumps(metadata.location)}, "metadata": {metadata.json}, "config": {{}}}}'
        return Response(body, media_type="application/json", headers={"ETag": etag})


def _refuse_write(request: Request) -> Response:
    message = (
        f"Floeberg's catalog is read-only: {request.method} {_path_of(request)} is refused. The tables are written by"
        " the Floeberg daemon alone"
    )
    answer = _error(HTTPStatus.METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
    answer.headers["Allow"] = "GET, HEAD"
    return answer


def _refuse_unknown(request: Request) -> Response:
    return _error(HTTPStatus.NOT_FOUND, "NoSuchEndpointException", f"There is no {_path_of(request)} in this catalog")


def _path_of(request: Request) -> str:
    """For a message. Not Request.url: a malformed Host header makes that raise."""
    return str(request.scope["path"])[:_SHOWN_CHARACTERS]


def _answer_of(request: Request, error: Exception) -> Response:  # noqa: ARG001  # every door's takes the request
    """An error in the protocol's model. Raises it again where it is none of ours."""
    match error:
        case UnknownNamespace():
            return _error(HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", str(error))
        case UnknownTable():
            return _error(HTTPStatus.NOT_FOUND, "NoSuchTableException", str(error))
        case InvalidParameter():
            return _error(HTTPStatus.BAD_REQUEST, "BadRequestException", str(error))
        case Misdirected():
            return _error(HTTPStatus.MISDIRECTED_REQUEST, "BadRequestException", str(error))
        case Unavailable():
            return _unavailable(str(error))
        case FloebergError():
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__, str(error))
        case _:
            raise error


def _refusal() -> Response:
    answer = _error(
        HTTPStatus.UNAUTHORIZED,
        "NotAuthorizedException",
        "This catalog wants one of the tokens of [table_door] tokens as Authorization: Bearer <token>",
    )
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _unavailable(problem: str) -> Response:
    return _error(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", problem)


def _namespace_of(text: str) -> Namespace:
    """Raises UnknownNamespace for what can be no namespace's name, so that the catalog needn't be asked."""
    levels = tuple(text.split(NAMESPACE_SEPARATOR)) if text else ()
    if not all(level and level.isprintable() for level in levels):
        raise UnknownNamespace(f"Namespace does not exist: {text[:_SHOWN_CHARACTERS]!r}")
    return levels


def _page(request: Request, items: Mapping[str, Any]) -> tuple[list[Any], dict[str, str | None]]:
    """The items, by their names, that the request asks for, and what is said of the next page.

    A token is the last name of a page, so that a page begins where the last one ended whatever came or went. A client
    that sends none does not turn pages: it gets everything (spec, PageToken). Raises InvalidParameter for a
    ``pageSize`` that is none.
    """
    size_text, token = request.query_params.get("pageSize"), request.query_params.get("pageToken")
    if size_text is not None and re.fullmatch("0*[1-9][0-9]{0,8}", size_text, re.ASCII) is None:
        raise InvalidParameter(f"pageSize is a number above 0, not {size_text[:_SHOWN_CHARACTERS]!r}")
    names = sorted(items)
    if token is None:
        return [items[name] for name in names], {"next-page-token": None}
    left = names[bisect_right(names, token) :]
    shown = left[: min(int(size_text or _LARGEST_PAGE), _LARGEST_PAGE)]
    return [items[name] for name in shown], {"next-page-token": shown[-1] if len(shown) < len(left) else None}


def _error(status: HTTPStatus, kind: str, message: str) -> Response:
    """The protocol's error model (``IcebergErrorResponse``)."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": int(status)}}, status_code=int(status))
