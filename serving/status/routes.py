"""The routes of status: for monitors `/metrics`, `/healthz`, `/readyz`; for programs `/status`; for people `/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from serving.status.daemon_status import DaemonStatus, Phase
from serving.status.metrics import CONTENT_TYPE, Metrics
from serving.status.page_routes import page_endpoints
from serving.status.page_source import PageSource

STUCK_AFTER_MS = 15 * 60_000
"""A cycle that takes longer has hung: a full one (4 GiB of segments) takes a few minutes on two cores."""


def status_routes(
    status: Callable[[], DaemonStatus], metrics: Metrics, source: PageSource | None = None
) -> list[BaseRoute]:
    """Starlette routes; ``status`` is called once a request and must not block for long. ``source``: what the page is
    answered with, by default made of ``status`` alone."""

    def as_json(request: Request) -> Response:  # noqa: ARG001
        return JSONResponse(status().to_dict())

    def scrape(request: Request) -> Response:  # noqa: ARG001
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    def alive(request: Request) -> Response:  # noqa: ARG001
        return _verdict(why_not_alive(status()))

    def ready(request: Request) -> Response:  # noqa: ARG001
        found = status()
        return _verdict(why_not_ready(found), notes=found.all_damages)

    return [
        *(Route(path, endpoint) for path, endpoint in page_endpoints(source or PageSource(status)).items()),
        Route("/status", as_json),
        Route("/metrics", scrape),
        Route("/healthz", alive),
        Route("/readyz", ready),
    ]


def why_not_alive(status: DaemonStatus) -> str | None:
    """Why the daemon should be started again, or None. What only an operator can mend is no reason."""
    if status.phase is not Phase.STOPPING and status.silent_ms > STUCK_AFTER_MS:
        return f"no tiering cycle has ended for {status.silent_ms // 60_000} minutes"
    return None


def why_not_ready(status: DaemonStatus) -> str | None:
    """Why the daemon does not do its work yet, or None."""
    if status.phase is not Phase.RUNNING:
        return f"the daemon is {status.phase}"
    if status.last_cycle_ms is None:
        return "the first tiering cycle has not ended yet"
    lack = status.lack_of_handles
    return "; ".join((*status.problems, *([] if lack is None else [lack]))) or None


def _verdict(why_not: str | None, *, notes: Sequence[str] = ()) -> Response:
    """``notes`` are told of a daemon that is ready: one that lacks a file serves all the others, and whoever would take
    it out of service for that has nobody to put in its place."""
    if why_not is None:
        return PlainTextResponse("".join(f"{line}\n" for line in ("ok", *notes)))
    return PlainTextResponse(f"{why_not}\n", status_code=int(HTTPStatus.SERVICE_UNAVAILABLE))
