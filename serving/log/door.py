"""The log door's routes: HTTP in front of a LogDoorBackend. Requests, answers and codes stand in docs/log_door.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import crc32c
import structlog
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.clock import Clock, SystemClock
from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.proof.verifier import VerifiedRange
from serving.door import DoorGuard, DoorMetrics, while_there
from serving.host_names import HostNames, Misdirected
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import LogDoorBackend, NoSuchSegment, RemoteSegment, number, segment_of
from serving.log.commit_signal import CommitSignal
from serving.log.copy_body import CopyBodies, LengthMissing, TooLarge
from serving.log.index_format import offset_index_bytes, time_index_bytes
from serving.log.record_answer import Place, Places, RecordAnswer

DOOR = "log"
"""Its name among the doors' metrics."""

RETRY_AFTER_SECONDS = 1
DEFAULT_MAX_BYTES = 1 << 20
LARGEST_MAX_BYTES = 64 << 20
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_SHOWN_CHARACTERS = 200

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDoorLimits:
    """Bounds of the door. Memory is about ``max_reads`` times three chunks and twice ``copy_body_bytes``, beside what
    the reader itself caches."""

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
    copy_body_bytes: int = 128 << 20
    """Bodies of all copies under way: each is a few KB, the largest there may be (a million producers) 64 MiB."""
    copy_body_timeout_ms: int = 10_000
    """For a copy's body to come: it has its place meanwhile."""
    first_answer_ms: int = 2_000
    """For a read's first batches, or an index, to be made; then the client is told to come back, and finds what was
    made meanwhile in the caches. A broker has answered its consumer long before (``remote.fetch.max.wait.ms``, 500):
    an answer that comes later only holds one of its few threads."""


class LogDoor:
    """The endpoints. Made by ``create_log_door``."""

    def __init__(
        self,
        backend: LogDoorBackend,
        *,
        tokens: Collection[str],
        hosts: HostNames | None,
        commits: CommitSignal,
        limits: LogDoorLimits,
        metrics: DoorMetrics,
        clock: Clock,
    ) -> None:
        if not tokens or not all(tokens):
            raise Invalid("The log door needs a token", next_step="set [log_door] tokens, one of them the broker's")
        self._backend = backend
        self._guard = DoorGuard(
            door=DOOR,
            tokens=tokens,
            hosts=hosts,
            metrics=metrics,
            refusal=_refusal,
            problem=_answer_of,
            unforeseen=lambda error: _not_now(f"Not now: {error!r}"),
        )
        self._commits = commits
        self._limits = limits
        self._readers = ThreadPoolExecutor(limits.reader_threads, thread_name_prefix="log-door-read")
        self._copiers = ThreadPoolExecutor(limits.copier_threads, thread_name_prefix="log-door-copy")
        self._metrics = metrics
        self._clock = clock
        self._reads = Places(limits.max_reads, door=DOOR, what="reads", metrics=metrics, clock=clock)
        self._copies = Places(limits.max_copies, door=DOOR, what="copies", metrics=metrics, clock=clock)
        self._bodies = CopyBodies(limit_bytes=limits.copy_body_bytes, timeout_s=limits.copy_body_timeout_ms / 1000)

    def routes(self) -> list[Route]:
        base = "/v1/log/{topic_id}/{partition}"
        wrap = self._guard.wrap
        return [
            Route(f"{base}/copy", wrap("copy", self._copy), methods=["POST"]),
            Route(f"{base}/records", wrap("records", self._records), methods=["GET"]),
            Route(f"{base}/index/{{name}}", wrap("index", self._index), methods=["GET"]),
            Route(base, wrap("release", self._release), methods=["DELETE"]),
            # Whatever else is asked for: the token first here too.
            Route("/v1/log/{path:path}", wrap("unknown", _unknown), methods=_METHODS),
        ]

    async def _copy(self, request: Request) -> Response:
        segment = segment_of(request)
        wait_ms = min(number(request, "wait_ms", 0), self._limits.copy_wait_ms)
        # The place first, and room for the body: what is refused has cost nothing.
        with self._copies.one(), self._bodies.room_for(request):
            state = await self._bodies.read(request)
            return await while_there(request, self._copied(segment, state, wait_ms))

    async def _copied(self, segment: RemoteSegment, state: AuxiliaryState, wait_ms: int) -> Response:
        """The answer once the segment is verified, within ``wait_ms``."""
        loop = asyncio.get_running_loop()
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        with self._commits.listening((segment.topic_id, segment.partition)) as bell:
            while True:
                bell.clear()
                verified = await loop.run_in_executor(self._copiers, self._backend.verified, segment)
                if verified is not None:
                    reach(FaultPoint.COPY_PROVEN)
                    await loop.run_in_executor(self._copiers, self._backend.keep_auxiliary_state, segment, state)
                    reach(FaultPoint.AUXILIARY_STATE_KEPT)
                    return _copied_answer(segment, verified)
                self._backend.hurry(segment)
                if not await bell.rung_within((deadline_ms - self._clock.monotonic_ms()) / 1000):
                    raise Unavailable(f"Offsets {segment} are not verified in the table yet")

    async def _records(self, request: Request) -> Response:
        segment = segment_of(request)
        start = number(request, "from", segment.range.start)
        max_bytes = number(request, "max_bytes", DEFAULT_MAX_BYTES)
        if start not in segment.range or not 0 < max_bytes <= LARGEST_MAX_BYTES:
            raise Invalid(f"Records of {segment}: from={start} and max_bytes={max_bytes} do not fit")
        reach(FaultPoint.RECORDS_ASKED)
        place, answer = self._reads.take(), None
        try:
            answer = await self._in_time(request, self._begun(segment, start, max_bytes, place))
            return answer
        finally:
            # Once it has begun, the answer gives its place back itself, when it is over.
            if answer is None:
                place.give_back()

    async def _begun(self, segment: RemoteSegment, start: int, max_bytes: int, place: Place) -> RecordAnswer:
        """The answer with its first batches made."""
        batches = await self._read(partial(self._backend.records, segment, start=start, max_bytes=max_bytes))
        return await RecordAnswer.begin(
            batches,
            pool=self._readers,
            place=place,
            on_sent=lambda size_bytes: self._metrics.sent(DOOR, size_bytes),
            on_broken=lambda: self._metrics.broke_off(DOOR),
            about=f"records of {segment} from {start}",
        )

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
            content = await self._in_time(request, self._read(make))
        reach(FaultPoint.INDEX_MADE)
        headers = {"Floeberg-Crc32c": f"{crc32c.crc32c(content):08x}"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def _release(self, request: Request) -> Response:
        segment = segment_of(request)
        await asyncio.get_running_loop().run_in_executor(self._copiers, self._backend.release, segment)
        return Response(status_code=204)

    async def _read(self, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _in_time(self, request: Request, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Wait for it, while the client does. What waits for a thread is cancelled with it; what a thread is at goes on
        into the caches. Raises Unavailable when it takes too long, ClientGone."""
        try:
            async with asyncio.timeout(self._limits.first_answer_ms / 1000):
                return await while_there(request, work)
        except TimeoutError:
            raise Unavailable("What was asked for is still being made") from None


def create_log_door(
    backend: LogDoorBackend,
    *,
    tokens: Collection[str],
    commits: CommitSignal,
    hosts: HostNames | None = None,
    limits: LogDoorLimits | None = None,
    metrics: DoorMetrics | None = None,
    clock: Clock | None = None,
) -> list[Route]:
    """Routes of the log door; each request carries one of ``tokens``. ``commits`` is rung by the tiering loop after
    each commit."""
    return LogDoor(
        backend,
        tokens=tokens,
        hosts=hosts,
        commits=commits,
        limits=limits or LogDoorLimits(),
        metrics=metrics or DoorMetrics(),
        clock=clock or SystemClock(),
    ).routes()


def _copied_answer(segment: RemoteSegment, verified: VerifiedRange) -> Response:
    """The answer after which the broker may drop its segment. Nothing gives it but a VerifiedRange up to its end.

    It may begin after the segment does: offsets below the broker's log start need no proof.
    """
    same_partition = (verified.topic_id, verified.partition) == (segment.topic_id, segment.partition)
    assert same_partition, f"{verified} for {segment}"
    assert segment.range.end - 1 in verified.range, f"{verified} for {segment}"
    copied = {"start": segment.range.start, "end": segment.range.end}
    answered = BackgroundTask(reach, FaultPoint.COPY_ANSWERED)
    return JSONResponse({"copied": copied}, background=answered)


def _producer_snapshot(segment: RemoteSegment, state: AuxiliaryState) -> bytes:
    if state.producer_snapshot is None:
        raise NoSuchSegment(f"The broker had no producer snapshot at the end of {segment}")
    return state.producer_snapshot


async def _unknown(request: Request) -> Response:
    raise NoSuchSegment(f"The log door has no {request.method} {request.scope['path'][:_SHOWN_CHARACTERS]!r}")


def _answer_of(_request: Request, error: Exception) -> Response:
    """An error as the codes of docs/log_door.md. Raises it again where it is none of ours."""
    match error:
        case NoSuchSegment():
            return _problem(404, str(error))
        case LengthMissing():
            return _problem(411, str(error))
        case TooLarge():
            return _problem(413, str(error))
        case Invalid():
            return _problem(400, str(error))
        case Corrupt():
            return _problem(409, str(error))
        case Misdirected():
            return _problem(421, str(error))
        case Unavailable() | CommitUnknown():
            return _not_now(str(error))
        case _:
            raise error


def _refusal() -> Response:
    return _problem(401, "The token is not the one of this door", {"WWW-Authenticate": "Bearer"})


def _not_now(problem: str) -> Response:
    return _problem(503, problem, {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _problem(status: int, problem: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(problem, status, headers)
