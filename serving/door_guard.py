"""What every request of every door passes: the token first, errors as answers, all of it counted."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Awaitable, Callable, Sequence

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.door_client import ClientGone
from serving.door_metrics import DoorMetrics

CLIENT_GONE = 499
"""What is counted for a client that hung up before its answer: nginx's code for it. Nobody ever gets it."""

_log = structlog.get_logger(__name__)

Endpoint = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]
GuardedEndpoint = Callable[[Request], Awaitable[Response]]


class DoorGuard:
    """``refusal`` answers who has none of the ``tokens`` (none at all: everybody is let in); ``problem`` makes an
    error the door's answer, or raises it again where it was not foreseen, and ``unforeseen`` answers that."""

    def __init__(
        self,
        *,
        door: str,
        tokens: Sequence[str],
        metrics: DoorMetrics,
        refusal: Callable[[], Response],
        problem: Callable[[Request, Exception], Response],
        unforeseen: Callable[[Exception], Response],
    ) -> None:
        self._door = door
        self._tokens = [token.encode() for token in tokens]
        self._metrics = metrics
        self._refusal = refusal
        self._problem = problem
        self._unforeseen = unforeseen

    def wrap(self, name: str, endpoint: Endpoint) -> GuardedEndpoint:
        """``endpoint``, behind the guard; counted as ``name``. One that is no coroutine runs in a thread."""

        async def guarded(request: Request) -> Response:
            with self._metrics.timed(self._door, name):
                response = await self._answer(endpoint, request)
            self._metrics.answered(self._door, name, response.status_code)
            return response

        return guarded

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        if self._tokens and not self._is_allowed(request):
            return self._refusal()
        try:
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

    def _is_allowed(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip().encode()
        # Every token is compared, in constant time: the answer's delay tells nothing about them.
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)
