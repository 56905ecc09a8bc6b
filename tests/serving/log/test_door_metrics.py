"""What the door counts of itself: requests by answer, bytes, waiting copies, answers that broke off, the unforeseen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from prometheus_client import CollectorRegistry

from engine.errors import Corrupt
from serving.door import DoorMetrics
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import RemoteSegment
from serving.log.commit_signal import CommitSignal
from serving.log.door import LogDoorLimits, create_log_door
from tests.serving.log.backend_suite import END, sample_records
from tests.serving.log.kept_log import TOPIC_ID, KeptLog
from tests.support.served_routes import served

TOKEN = "open-sesame"
PARTITION = f"/v1/log/{TOPIC_ID}/0"
STATE = AuxiliaryState(leader_epochs=b"0\n0\n", producer_snapshot=None)


class FailingLog(KeptLog):
    """Reads end with the error ``ends_with``: a Corrupt comes behind the first chunk, another one at once."""

    ends_with: Exception | None = None

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        batches = super().records(segment, start=start, max_bytes=max_bytes)
        if self.ends_with is None:
            return batches
        if not isinstance(self.ends_with, Corrupt):
            raise self.ends_with
        return self._broken(batches, self.ends_with)

    def _broken(self, batches: Iterator[memoryview], failure: Exception) -> Iterator[memoryview]:
        for batch in batches:
            # Twice a chunk, so that the first one is sent before the error comes.
            yield memoryview(bytes(batch) * (2 * (512 << 10) // len(batch) + 1))
            raise failure


class Stage:
    def __init__(self) -> None:
        self.log = FailingLog(sample_records())
        self.log.committed = END
        self.commits = CommitSignal()
        self.registry = CollectorRegistry()
        self.routes = create_log_door(
            self.log,
            tokens=[TOKEN],
            commits=self.commits,
            limits=LogDoorLimits(max_reads=3, max_copies=2),
            metrics=DoorMetrics(self.registry),
        )

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, {"door": "log", **labels}) or 0.0

    def comes_to(self, expected: float, name: str, **labels: str) -> bool:
        """Whether the value gets there: the door counts once the client has its answer already."""
        deadline = time.monotonic() + 20
        while self.value(name, **labels) != expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.value(name, **labels) == expected


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def client(stage: Stage) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with served(stage.routes) as url, httpx.Client(base_url=url, headers=headers, timeout=20) as client:
        yield client


def test_requests_are_counted_by_what_was_answered_and_bytes_by_what_was_sent(
    stage: Stage, client: httpx.Client
) -> None:
    body = client.get(f"{PARTITION}/records?start=0&end={END}").content
    client.get(f"{PARTITION}/records?start=5&end=5")
    client.get(f"{PARTITION}/index/offset?start=0&end={END}", headers={"Authorization": "Bearer wrong"})
    assert stage.value("floeberg_door_requests_total", request="records", status="200") == 1
    assert stage.value("floeberg_door_requests_total", request="records", status="400") == 1
    assert stage.value("floeberg_door_requests_total", request="index", status="401") == 1
    assert stage.comes_to(2, "floeberg_door_request_duration_seconds_count", request="records")
    assert len(body) > 0
    assert stage.comes_to(len(body), "floeberg_door_sent_bytes_total")
    assert stage.comes_to(0, "floeberg_door_under_way", request="reads")
    assert stage.value("floeberg_door_under_way_limit", request="reads") == 3


def test_copy_that_waits_is_under_way_until_it_is_answered(stage: Stage, client: httpx.Client) -> None:
    stage.log.committed = 10
    hurried = threading.Event()
    stage.log.hurry = lambda _: hurried.set()  # type: ignore[method-assign]
    query = {"start": 0, "end": END, "wait_ms": 10_000}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, f"{PARTITION}/copy", params=query, content=STATE.to_bytes())
        assert hurried.wait(20)
        assert stage.value("floeberg_door_under_way", request="copies") == 1
        stage.log.committed = END
        stage.commits.ring()
        assert waiting.result(20).status_code == 200
    assert stage.comes_to(0, "floeberg_door_under_way", request="copies")
    assert stage.value("floeberg_door_requests_total", request="copy", status="200") == 1


def test_answer_that_breaks_off_is_counted_and_its_place_is_free_again(stage: Stage, client: httpx.Client) -> None:
    stage.log.ends_with = Corrupt("a page is damaged")
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(f"{PARTITION}/records?start=0&end={END}")
    stage.log.ends_with = None
    assert client.get(f"{PARTITION}/records?start=0&end={END}").status_code == 200
    assert stage.value("floeberg_door_broken_answers_total") == 1
    assert stage.comes_to(0, "floeberg_door_under_way", request="reads")


@pytest.mark.parametrize("failure", [MemoryError(), OSError(24, "Too many open files")])
def test_error_that_nobody_foresaw_is_tried_again_by_the_broker(
    stage: Stage, client: httpx.Client, failure: Exception
) -> None:
    stage.log.ends_with = failure
    answer = client.get(f"{PARTITION}/records?start=0&end={END}")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    stage.log.ends_with = None
    assert client.get(f"{PARTITION}/records?start=0&end={END}").status_code == 200
    assert stage.value("floeberg_door_requests_total", request="records", status="503") == 1
