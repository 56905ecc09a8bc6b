"""What the page is made of and asks for: documents, the page's files, JSON (docs/status_page.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from serving.status.page import status_page
from serving.status.page_files import SAFE_HEADERS, PageFiles, packed
from serving.status.page_source import PageSource
from serving.status.runbook import runbook_page

_HTML = "text/html; charset=utf-8"
_NOT_KEPT = {"Cache-Control": "no-store", **SAFE_HEADERS}
_HOUR_MS = 3_600_000


def page_endpoints(source: PageSource) -> Mapping[str, Callable[[Request], Response]]:
    """By path. None of them blocks for long."""
    files = PageFiles()

    @cache
    def whole_runbook() -> bytes:
        addresses = files.addresses
        return runbook_page(style=addresses["page_css"], icon=addresses["icon_svg"]).encode()

    def page(request: Request) -> Response:
        text = status_page(files.template, source.seen().head, files.addresses)
        return packed(request, text.encode(), _HTML, _NOT_KEPT)

    def overview(request: Request) -> Response:
        since, most = request.query_params.get("since"), _number(request, "most", 0)
        return _packed_json(request, source.overview(since, most=most or None))

    def partitions(request: Request) -> Response:
        topic, first = request.query_params.get("topic", ""), _number(request, "first", 0)
        return _packed_json(request, source.partitions(topic, first=first, count=_number(request, "count", 100)))

    def history(request: Request) -> Response:
        return _packed_json(request, source.history(_number(request, "hours", 3) * _HOUR_MS))

    def file(request: Request) -> Response:
        found = files.files.get(request.path_params["name"])
        return PlainTextResponse("There is no such file\n", 404) if found is None else found.answer(request)

    def runbook(request: Request) -> Response:
        return packed(request, whole_runbook(), _HTML, {"Cache-Control": "no-cache", **SAFE_HEADERS})

    return {
        "/": page,
        "/runbook": runbook,
        "/page/overview": overview,
        "/page/partitions": partitions,
        "/page/history": history,
        "/page/{name}": file,
    }


def _packed_json(request: Request, values: Any) -> Response:
    return packed(request, json.dumps(values, separators=(",", ":")).encode(), "application/json", _NOT_KEPT)


def _number(request: Request, name: str, default: int) -> int:
    """A parameter of the query; what is no number of up to nine digits counts as not there."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default
