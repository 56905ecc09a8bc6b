"""The log door's routes: HTTP in front of a LogDoorBackend. Requests, answers and codes stand in docs/log_door.md."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import crc32c
import structlog
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.verifier import VerifiedRange
from serving.door_metrics import DoorMetrics, DoorUse
from serving.log.auxiliary_state import MAX_SIZE_BYTES, AuxiliaryState
from serving.log.backend import LogDoorBackend, NoSuchSegment, RemoteSegment
from serving.log.commit_signal import CommitSignal
from serving.log.index_format import offset_index_bytes, time_index_bytes
from serving.log.record_answer import RecordAnswer
from serving.log.request import number, segment_of

DOOR = "log"
"""Its name among the doors' metrics."""

RETRY_AFTER_SECONDS = 1
DEFAULT_MAX_BYTES = 1 << 20
LARGEST_MAX_BYTES = 64 << 20

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDoorLimits:
    """Bounds of the door. Memory is about ``max_reads`` times two chunks, beside what the reader itself caches."""

    reader_threads: int = 4
    """Threads that decode history and read indexes; more than cores gain only where the warehouse is far away."""
    copier_threads: int = 2
    """Threads that look whether a range is verified, and verify it after a restart."""
    max_reads: int = 64
    """Reads and indexes under way; the broker itself reads with 10 threads (``remote.log.reader.threads``)."""
    max_copies: int = 64
    """Copies that wait; the broker itself copies with 10 threads."""
    copy_wait_ms: int = 10_000
    """Longest wait of one copy request; the plugin asks again."""


class LogDoor:
    """The endpoints. Made by ``create_log_door``."""

    def __init__(
        self,
        backend: LogDoorBackend,
        *,
        token: str,
        commits: CommitSignal,
        limits: LogDoorLimits,
        metrics: DoorMetrics,
    ) -> None:
        if not token:
            raise Invalid("The log door needs a token", next_step="set [log_door] token, the same as the broker's")
        self._backend = backend
        self._token = token.encode()
        self._commits = commits
        self._limits = limits
        self._readers = ThreadPoolExecutor(limits.reader_threads, thread_name_prefix="log-door-read")
        self._copiers = ThreadPoolExecutor(limits.copier_threads, thread_name_prefix="log-door-copy")
        self._metrics = metrics
        self._reads = _Places(limits.max_reads, "reads", metrics)
        self._copies = _Places(limits.max_copies, "copies", metrics)

    def routes(self) -> list[Route]:
        base = "/v1/log/{topic_id}/{partition:int}"
        return [
            Route(f"{base}/copy", self._guarded("copy", self._copy), methods=["POST"]),
            Route(f"{base}/records", self._guarded("records", self._records), methods=["GET"]),
            Route(f"{base}/index/{{name}}", self._guarded("index", self._index), methods=["GET"]),
            Route(base, self._guarded("release", self._release), methods=["DELETE"]),
        ]

    async def _copy(self, request: Request) -> Response:
        segment = segment_of(request)
        wait_ms = min(number(request, "wait_ms", 0), self._limits.copy_wait_ms)
        state = await _auxiliary_state(request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        with self._copies.one():
            while True:
                # Counted before looking: a commit between the look and the wait must end the wait.
                seen = self._commits.count
                verified = await loop.run_in_executor(self._copiers, self._backend.verified, segment)
                if verified is not None:
                    reach(FaultPoint.COPY_PROVEN)
                    await loop.run_in_executor(self._copiers, self._backend.keep_auxiliary_state, segment, state)
                    reach(FaultPoint.AUXILIARY_STATE_KEPT)
                    return _copied(segment, verified)
                self._backend.hurry(segment)
                if not await self._commits.wait_past(seen, deadline - loop.time()):
                    raise Unavailable(f"Offsets {segment} are not verified in the table yet")

    async def _records(self, request: Request) -> Response:
        segment = segment_of(request)
        start = number(request, "from", segment.range.start)
        max_bytes = number(request, "max_bytes", DEFAULT_MAX_BYTES)
        if start not in segment.range or not 0 < max_bytes <= LARGEST_MAX_BYTES:
            raise Invalid(f"Records of {segment}: from={start} and max_bytes={max_bytes} do not fit")
        reach(FaultPoint.RECORDS_ASKED)
        self._reads.take()
        answer = None
        try:
            batches = await self._read(lambda: self._backend.records(segment, start=start, max_bytes=max_bytes))
            answer = await RecordAnswer.begin(
                batches,
                pool=self._readers,
                on_sent=lambda size_bytes: self._metrics.sent(DOOR, size_bytes),
                on_broken=lambda: self._metrics.broke_off(DOOR),
                on_end=self._reads.give_back,
                about=f"records of {segment} from {start}",
            )
            return answer
        finally:
            # Once it has begun, the answer gives its place back itself, when it is over.
            if answer is None:
                self._reads.give_back()

    async def _index(self, request: Request) -> Response:
        segment = segment_of(request)
        make = {
            "offset": lambda: offset_index_bytes(self._backend.offset_grid(segment)),
            "timestamp": lambda: time_index_bytes(*self._backend.time_index(segment)),
            "leader-epoch": lambda: self._backend.auxiliary_state(segment).leader_epochs,
            "producer-snapshot": lambda: _producer_snapshot(segment, self._backend.auxiliary_state(segment)),
        }.get(request.path_params["name"])
        if make is None:
            raise NoSuchSegment(f"There is no index named {request.path_params['name']!r}")
        with self._reads.one():
            content = await self._read(make)
        reach(FaultPoint.INDEX_MADE)
        headers = {"Floeberg-Crc32c": f"{crc32c.crc32c(content):08x}"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def _release(self, request: Request) -> Response:
        segment = segment_of(request)
        await asyncio.get_running_loop().run_in_executor(self._copiers, self._backend.release, segment)
        return Response(status_code=204)

    async def _read(self, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _guarded(
        self, name: str, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """The token first, and errors as the codes of docs/log_door.md; everything is counted under ``name``."""

        async def counted(request: Request) -> Response:
            with self._metrics.timed(DOOR, name):
                response = await answer(request)
            self._metrics.answered(DOOR, name, response.status_code)
            return response

        async def answer(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                return _problem(401, "The token is not the one of this door", {"WWW-Authenticate": "Bearer"})
            try:
                return await endpoint(request)
            except NoSuchSegment as error:
                return _problem(404, str(error))
            except Invalid as error:
                return _problem(400, str(error))
            except Corrupt as error:
                return _problem(409, str(error))
            except (Unavailable, CommitUnknown) as error:
                return _problem(503, str(error), {"Retry-After": str(RETRY_AFTER_SECONDS)})
            except Exception as error:  # noqa: BLE001 - the outermost guard of a request: out of memory, of file handles
                _log.exception("request_ended_unforeseen", request=request.url.path)
                return _problem(503, f"Not now: {error!r}", {"Retry-After": str(RETRY_AFTER_SECONDS)})

        return counted


class _Places:
    """A bound on what is under way; what comes above it is refused at once. Lives in one event loop."""

    def __init__(self, count: int, what: str, metrics: DoorMetrics) -> None:
        self._count = self._free = count
        self._what = what
        self._metrics = metrics
        self._show()

    def take(self) -> None:
        if self._free == 0:
            raise Unavailable(f"Too many {self._what} are under way")
        self._free -= 1
        self._show()

    def give_back(self) -> None:
        self._free += 1
        self._show()

    def _show(self) -> None:
        self._metrics.under_way(
            DoorUse(door=DOOR, request=self._what, used=self._count - self._free, limit=self._count)
        )

    @contextmanager
    def one(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.give_back()


def create_log_door(
    backend: LogDoorBackend,
    *,
    token: str,
    commits: CommitSignal,
    limits: LogDoorLimits | None = None,
    metrics: DoorMetrics | None = None,
) -> list[Route]:
    """Routes of the log door. ``commits`` is rung by the tiering loop after each commit."""
    return LogDoor(
        backend, token=token, commits=commits, limits=limits or LogDoorLimits(), metrics=metrics or DoorMetrics()
    ).routes()


def _copied(segment: RemoteSegment, verified: VerifiedRange) -> Response:
    """The answer after which the broker may drop its segment. Nothing gives it but a VerifiedRange up to its end.

    It may begin after the segment does: offsets below the broker's log start need no proof.
    """
    same_partition = (verified.topic_id, verified.partition) == (segment.topic_id, segment.partition)
    assert same_partition, f"{verified} for {segment}"
    assert segment.range.end - 1 in verified.range, f"{verified} for {segment}"
    copied = {"start": segment.range.start, "end": segment.range.end}
    answered = BackgroundTask(reach, FaultPoint.COPY_ANSWERED)
    return JSONResponse({"copied": copied}, background=answered)


async def _auxiliary_state(request: Request) -> AuxiliaryState:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_SIZE_BYTES:
            raise Invalid(f"The auxiliary state of a segment has more than {MAX_SIZE_BYTES} bytes")
    try:
        return AuxiliaryState.from_bytes(bytes(body))
    except Corrupt as error:
        raise Invalid(f"The body of a copy request is damaged: {error.problem}") from error


def _producer_snapshot(segment: RemoteSegment, state: AuxiliaryState) -> bytes:
    if state.producer_snapshot is None:
        raise NoSuchSegment(f"The broker had no producer snapshot at the end of {segment}")
    return state.producer_snapshot


def _problem(status: int, problem: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(problem, status, headers)
