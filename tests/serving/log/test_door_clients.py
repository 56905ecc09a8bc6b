"""The door under clients that stall, leave, and send much or nothing: over a real server, by their sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

from floeberg.http.connection import ConnectionLimits
from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from serving.door import DoorMetrics
from serving.log.auxiliary_state import MAX_SIZE_BYTES, AuxiliaryState
from serving.log.backend import RemoteSegment
from serving.log.commit_signal import CommitSignal
from serving.log.door import LogDoorLimits, create_log_door
from tests.serving.log.backend_suite import END, sample_records
from tests.serving.log.kept_log import TOPIC_ID, KeptLog

TOKEN = "open-sesame"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
PARTITION = f"/v1/log/{TOPIC_ID}/0"
RECORDS = f"{PARTITION}/records?start=0&end={END}"
STATE = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=b"\x00\x01").to_bytes()
WAIT_S = 30.0


class LargeLog(KeptLog):
    """Its answers are larger than any socket's buffers; ``sent`` counts those that were begun."""

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        self._check(segment)
        return (memoryview(bytes(1 << 18)) for _ in range(0, max_bytes, 1 << 18))


class Stage:
    def __init__(self, server: HttpServer, registry: CollectorRegistry) -> None:
        self.url = server.url
        self._listen = server.listen
        self._registry = registry

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=HEADERS, timeout=WAIT_S)

    def used(self, what: str) -> float:
        labels = {"door": "log", "request": what}
        return self._registry.get_sample_value("floeberg_door_under_way", labels) or 0.0

    def asking(self, path: str, *, method: str = "GET", more: str = "") -> socket.socket:
        """A client that has sent the head of a request."""
        client = socket.create_connection((self._listen.host, self._listen.port), timeout=WAIT_S)
        client.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n".encode())
        return client


@contextmanager
def stage_of(log: KeptLog, limits: LogDoorLimits, connections: ConnectionLimits | None = None) -> Iterator[Stage]:
    log.committed = END
    registry = CollectorRegistry()
    routes = create_log_door(log, tokens=[TOKEN], commits=CommitSignal(), limits=limits, metrics=DoorMetrics(registry))
    listen = Listen(host="127.0.0.1", port=0)
    try:
        with HttpServer(routes, listen, setting="[log_door] listen", limits=connections) as server:
            yield Stage(server, registry)
    finally:
        log.may_go_on.set()


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def status_of(client: socket.socket) -> int:
    return int(client.recv(1 << 16).split()[1])


def test_readers_that_take_nothing_make_room_for_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.log.record_answer.STALLED_MS", 100)
    limits = LogDoorLimits(max_reads=4)
    # None is hung up on for its stalling alone: here it is the newcomers that want the places.
    with (
        stage_of(LargeLog(sample_records()), limits, ConnectionLimits(stall_seconds=600)) as stage,
        ExitStack() as stalled,
    ):
        for _ in range(limits.max_reads):
            stalled.enter_context(stage.asking(f"{RECORDS}&max_bytes={64 << 20}"))
        eventually(lambda: stage.used("reads") == limits.max_reads, "the readers did not begin")
        for _ in range(2 * limits.max_reads):
            eventually(lambda: stage.get(RECORDS).status_code == 200, "nobody else was let in")


def test_readers_that_take_nothing_are_hung_up_on_and_leave_nothing_behind() -> None:
    limits = LogDoorLimits(max_reads=4)
    with (
        stage_of(LargeLog(sample_records()), limits, ConnectionLimits(stall_seconds=0.2)) as stage,
        ExitStack() as stalled,
    ):
        for _ in range(limits.max_reads):
            stalled.enter_context(stage.asking(f"{RECORDS}&max_bytes={64 << 20}"))
        eventually(lambda: stage.used("reads") == limits.max_reads, "the readers did not begin")
        eventually(lambda: stage.used("reads") == 0, "they kept their places")


def test_queued_reads_of_clients_that_left_are_never_made() -> None:
    log = KeptLog(sample_records())
    with stage_of(log, LogDoorLimits(reader_threads=1, first_answer_ms=60_000)) as stage, ThreadPoolExecutor(1) as pool:
        log.may_go_on.clear()
        first = pool.submit(stage.get, RECORDS)
        assert log.reading.acquire(timeout=WAIT_S)
        leaving = [stage.asking(RECORDS) for _ in range(10)] + [
            stage.asking(f"{PARTITION}/index/offset?start=0&end={END}") for _ in range(10)
        ]
        eventually(lambda: stage.used("reads") == 21, "the reads did not queue")
        for client in leaving:
            client.close()
        eventually(lambda: stage.used("reads") == 1, "those who left kept their places")
        log.may_go_on.set()
        assert first.result(WAIT_S).status_code == 200
        assert stage.get(RECORDS).status_code == 200
        assert log.reading.acquire(timeout=WAIT_S)
    assert not log.reading.acquire(blocking=False), "a read was made that nobody waited for"


def test_copy_of_a_client_that_left_waits_no_longer() -> None:
    log = KeptLog(sample_records())
    with stage_of(log, LogDoorLimits(copy_wait_ms=600_000)) as stage:
        log.committed = 0
        path = f"{PARTITION}/copy?start=0&end={END}&wait_ms=600000"
        with stage.asking(path, method="POST", more=f"Content-Length: {len(STATE)}\r\n") as client:
            client.sendall(STATE)
            eventually(lambda: bool(log.hurried), "the copy did not wait")
        eventually(lambda: stage.used("copies") == 0, "the copy waits on")


def test_read_that_takes_too_long_is_told_to_come_back_and_finds_the_door_open() -> None:
    log = KeptLog(sample_records())
    with stage_of(log, LogDoorLimits(reader_threads=1, max_reads=2, first_answer_ms=50)) as stage:
        log.may_go_on.clear()
        for path in (RECORDS, f"{PARTITION}/index/offset?start=0&end={END}"):
            answer = stage.get(path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "being made" in answer.text
        assert stage.used("reads") == 0
        log.may_go_on.set()
        eventually(lambda: stage.get(RECORDS).status_code == 200, "the door stays closed")


@pytest.mark.parametrize(
    ("length", "status"), [(MAX_SIZE_BYTES + 1, 413), (10**17, 413), (MAX_SIZE_BYTES, 503), (None, 411)]
)
def test_body_that_is_too_large_is_refused_before_it_is_sent(length: int | None, status: int) -> None:
    more = "Transfer-Encoding: chunked\r\n" if length is None else f"Content-Length: {length}\r\n"
    with stage_of(KeptLog(sample_records()), LogDoorLimits(copy_body_bytes=MAX_SIZE_BYTES - 1)) as stage:
        with stage.asking(f"{PARTITION}/copy?start=0&end=10", method="POST", more=more) as client:
            assert status_of(client) == status
        assert stage.used("copies") == 0


def test_bodies_of_all_copies_together_are_bounded() -> None:
    with stage_of(KeptLog(sample_records()), LogDoorLimits(copy_body_bytes=2 * len(STATE))) as stage:
        path, length = f"{PARTITION}/copy?start=0&end={END}", f"Content-Length: {len(STATE)}\r\n"
        with ExitStack() as clients:
            for _ in range(2):
                clients.enter_context(stage.asking(path, method="POST", more=length))
            eventually(lambda: stage.used("copies") == 2, "the copies did not begin")
            third = clients.enter_context(stage.asking(path, method="POST", more=length))
            assert status_of(third) == 503
        eventually(lambda: stage.used("copies") == 0, "those who left kept their places")
        answer = httpx.post(f"{stage.url}{path}", content=STATE, headers=HEADERS, timeout=WAIT_S)
        assert answer.status_code == 200


def test_copies_above_the_bound_are_refused_before_their_bodies_are_sent() -> None:
    with stage_of(KeptLog(sample_records()), LogDoorLimits(max_copies=1)) as stage, ExitStack() as clients:
        path, length = f"{PARTITION}/copy?start=0&end={END}", f"Content-Length: {len(STATE)}\r\n"
        clients.enter_context(stage.asking(path, method="POST", more=length))
        eventually(lambda: stage.used("copies") == 1, "the copy did not begin")
        assert status_of(clients.enter_context(stage.asking(path, method="POST", more=length))) == 503


def test_body_that_does_not_come_holds_its_place_for_a_while_only() -> None:
    with stage_of(KeptLog(sample_records()), LogDoorLimits(copy_body_timeout_ms=100)) as stage:
        more = f"Content-Length: {len(STATE)}\r\n"
        with stage.asking(f"{PARTITION}/copy?start=0&end={END}", method="POST", more=more) as client:
            assert status_of(client) == 400
        assert stage.used("copies") == 0
