"""The routes of status: for monitors `/metrics`, `/healthz`, `/readyz`; for programs `/status`; for people `/`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from serving.door import DoorGuard
from serving.host_names import HostNames, Misdirected
from serving.status.daemon_status import DaemonStatus, Phase
from serving.status.metrics import CONTENT_TYPE, Metrics
from serving.status.page_routes import page_endpoints
from serving.status.page_source import PageSource

DOOR = "status"
"""Its name among the doors' metrics."""

STUCK_AFTER_MS = 15 * 60_000
"""A cycle that takes longer has hung: a full one (4 GiB of segments) takes a few minutes on two cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAccess:
    """Who may look: with any of ``tokens`` at all of it, with any of ``metrics_tokens`` at the metrics; where there are
    none, everybody. ``hosts`` None: whatever name they call it by."""

    tokens: Collection[str] = ()
    metrics_tokens: Collection[str] = ()
    hosts: HostNames | None = None


def status_routes(
    status: Callable[[], DaemonStatus],
    metrics: Metrics,
    source: PageSource | None = None,
    *,
    access: StatusAccess = StatusAccess(),
) -> list[BaseRoute]:
    """Starlette routes; ``status`` is called once a request and must not block for long. ``source``: what the page is
    answered with, by default made of ``status`` alone.

    ``/healthz`` and ``/readyz`` answer everybody, whatever the name they are called by: a supervisor has no token. Why
    they answer what they do is told to whom may see the status.
    """
    everything = _guard(access.tokens, access.hosts, metrics)
    monitor = _guard(access.metrics_tokens, access.hosts, metrics)
    pages = page_endpoints(source or PageSource(status))

    def as_json(request: Request) -> Response:  # noqa: ARG001
        return JSONResponse(status().to_dict())

    def scrape(request: Request) -> Response:  # noqa: ARG001
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    def may_be_told(request: Request) -> bool:
        try:
            return everything.lets_in(request)
        except Misdirected:
            return False

    def alive(request: Request) -> Response:
        return _verdict(why_not_alive(status()), is_told=may_be_told(request))

    def ready(request: Request) -> Response:
        found = status()
        return _verdict(why_not_ready(found), notes=found.all_damages, is_told=may_be_told(request))

    return [
        *(Route(path, everything.wrap("page", endpoint)) for path, endpoint in pages.items()),
        Route("/status", everything.wrap("status", as_json)),
        Route("/metrics", monitor.wrap("metrics", scrape)),
        Route("/healthz", alive),
        Route("/readyz", ready),
    ]


def _guard(tokens: Collection[str], hosts: HostNames | None, metrics: Metrics) -> DoorGuard:
    return DoorGuard(
        door=DOOR,
        tokens=tokens,
        hosts=hosts,
        metrics=metrics.doors,
        refusal=_refusal,
        problem=_answer_of,
        unforeseen=lambda error: PlainTextResponse(f"Not now: {error!r}\n", HTTPStatus.SERVICE_UNAVAILABLE),
        takes_passwords=True,
    )


def _refusal() -> Response:
    return PlainTextResponse(
        "This needs one of the tokens of [table_door] tokens: as a bearer token, or as the password of any user\n",
        HTTPStatus.UNAUTHORIZED,
        {"WWW-Authenticate": 'Basic realm="Floeberg"'},
    )


def _answer_of(_request: Request, error: Exception) -> Response:
    """Raises the error again where it is not foreseen."""
    if isinstance(error, Misdirected):
        return PlainTextResponse(f"{error}\n", HTTPStatus.MISDIRECTED_REQUEST)
    raise error


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


def _verdict(why_not: str | None, *, notes: Sequence[str] = (), is_told: bool) -> Response:
    """``notes`` are told of a daemon that is ready: one that lacks a file serves all the others, and whoever would take
    it out of service for that has nobody to put in its place."""
    if why_not is None:
        return PlainTextResponse("".join(f"{line}\n" for line in ("ok", *(notes if is_told else ()))))
    return PlainTextResponse(f"{why_not if is_told else 'no'}\n", HTTPStatus.SERVICE_UNAVAILABLE)
