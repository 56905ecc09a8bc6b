"""What every door does: name and token first, errors as answers, clients noticed when they leave, all of it counted."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from serving.host_names import HostNames

HANG_UP = "floeberg.hang_up"
"""Extension of the ASGI scope: a callable that ends the connection at once, with what is still to be sent."""

_Answer = TypeVar("_Answer")


class ClientGone(Exception):
    """The client hung up before its answer began: nobody waits for it."""


def hang_up_of(scope: Scope) -> Callable[[], None] | None:
    """How to end the connection of a request; None where the server has no way to."""
    found: Callable[[], None] | None = (scope.get("extensions") or {}).get(HANG_UP)
    return found


async def client_is_gone(receive: Receive) -> None:
    """Returns when the client has hung up. Reads past what is left of the request's body."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_there(request: Request, work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Do the work, its body being read, as long as the client waits. Raises ClientGone; the work is cancelled then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(client_is_gone(request.receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return await task
    finally:
        task.cancel()
        gone.cancel()


_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""A fetch out of the caches takes milliseconds; after 0.5 s (``remote.fetch.max.wait.ms``) the broker answers its
consumer without. A copy waits for up to 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorUse:
    """How many of the requests that a door takes at once are under way."""

    door: str
    request: str
    used: int
    limit: int


class DoorMetrics:
    """Shared by all doors of a daemon; ``door`` and ``request`` name who counts. Safe to use from several threads."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._requests = Counter(
            "floeberg_door_requests",
            "Requests answered, by HTTP status; an answer of records that broke off later counts as 200 here",
            ("door", "request", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "floeberg_door_request_duration_seconds",
            "From a request until its answer begins: for records until the first batches are made, for a copy until"
            " its range is verified or the wait is over",
            ("door", "request"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._sent = Counter("floeberg_door_sent_bytes", "Bytes of record batches sent", ("door",), registry=registry)
        self._broken = Counter(
            "floeberg_door_broken_answers",
            "Answers of records that broke off after they had begun; the broker asks again",
            ("door",),
            registry=registry,
        )
        self._under_way = Gauge(
            "floeberg_door_under_way",
            "Requests under way: copies that wait for their range, reads",
            ("door", "request"),
            registry=registry,
        )
        self._limit = Gauge(
            "floeberg_door_under_way_limit",
            "How many may be under way; what comes above it is answered 503",
            ("door", "request"),
            registry=registry,
        )

    def answered(self, door: str, request: str, status: int) -> None:
        self._requests.labels(door, request, str(status)).inc()

    @contextmanager
    def timed(self, door: str, request: str) -> Iterator[None]:
        """Measure until the answer begins."""
        with self._seconds.labels(door, request).time():
            yield

    def sent(self, door: str, size_bytes: int) -> None:
        self._sent.labels(door).inc(size_bytes)

    def fetched(self) -> tuple[int, int]:
        """Answers of records so far, and their bytes."""
        answers = sum(
            sample.value
            for metric in self._requests.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
            and sample.labels["request"] == "records"
            and sample.labels["status"] == "200"
        )
        sizes = (sample for metric in self._sent.collect() for sample in metric.samples)
        return int(answers), int(sum(sample.value for sample in sizes if sample.name.endswith("_total")))

    def broke_off(self, door: str) -> None:
        self._broken.labels(door).inc()

    def under_way(self, use: DoorUse) -> None:
        self._under_way.labels(use.door, use.request).set(use.used)
        self._limit.labels(use.door, use.request).set(use.limit)


CLIENT_GONE = 499
"""What is counted for a client that hung up before its answer: nginx's code for it. Nobody ever gets it."""

_log = structlog.get_logger(__name__)

Endpoint = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]
GuardedEndpoint = Callable[[Request], Awaitable[Response]]


class DoorGuard:
    """``refusal`` answers who has none of the ``tokens`` (none at all: everybody is let in), which are looked at with
    each request; ``problem`` makes an error the door's answer, or raises it again where it was not foreseen, and
    ``unforeseen`` answers that.

    ``hosts`` None: the door may be called by any name. ``takes_passwords``: a token may come as the password of
    HTTP's Basic scheme as well, which is what a browser asks a person for.
    """

    def __init__(
        self,
        *,
        door: str,
        tokens: Collection[str],
        metrics: DoorMetrics,
        refusal: Callable[[], Response],
        problem: Callable[[Request, Exception], Response],
        unforeseen: Callable[[Exception], Response],
        hosts: HostNames | None = None,
        takes_passwords: bool = False,
    ) -> None:
        self._door = door
        self._tokens = tokens
        self._hosts = hosts
        self._metrics = metrics
        self._refusal = refusal
        self._problem = problem
        self._unforeseen = unforeseen
        self._takes_passwords = takes_passwords

    def wrap(self, name: str, endpoint: Endpoint) -> GuardedEndpoint:
        """``endpoint``, behind the guard; counted as ``name``. One that is no coroutine runs in a thread."""

        async def guarded(request: Request) -> Response:
            with self._metrics.timed(self._door, name):
                response = await self._answer(endpoint, request)
            self._metrics.answered(self._door, name, response.status_code)
            return response

        return guarded

    def lets_in(self, request: Request) -> bool:
        """Whether the request has a token, where one is needed. Raises ``Misdirected``."""
        if self._hosts is not None:
            self._hosts.check(request)
        if not self._tokens:
            return True
        given = _digest(self._token_of(request))
        # Every token is compared, in constant time: the answer's delay tells nothing about them.
        matches = [hmac.compare_digest(given, _digest(known)) for known in self._tokens]
        return any(matches)

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            if not self.lets_in(request):
                return self._refusal()
            if inspect.iscoroutinefunction(endpoint):
                response: Response = await endpoint(request)
                return response
            return await run_in_threadpool(endpoint, request)  # type: ignore[arg-type]  # no coroutine: see above
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
        except Exception as error:  # noqa: BLE001  # a request's outermost guard: out of memory, of file handles
            try:
                return self._problem(request, error)
            except Exception as unforeseen:  # noqa: BLE001  # outermost guard: see above
                _log.exception("request_ended_unforeseen", door=self._door, request=request.scope["path"])
                return self._unforeseen(unforeseen)

    def _token_of(self, request: Request) -> str:
        """Empty where there is none: no token is."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return given.strip()
        if scheme.lower() == "basic" and self._takes_passwords:
            try:
                return base64.b64decode(given, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
        return ""


def _digest(token: str) -> bytes:
    """Of one length for all: comparing takes as long, however long what was given."""
    return hashlib.sha256(token.encode()).digest()
