"""The door over a real server (uvicorn on the loopback), in front of the backend in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import crc32c
import httpx
import pytest

from engine.errors import Corrupt, Invalid, Unavailable
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.commit_signal import CommitSignal
from serving.log.door import LogDoorLimits, create_log_door
from tests.serving.log.backend_suite import END, coverage, sample_records
from tests.serving.log.kept_log import TOPIC_ID, KeptLog, segment
from tests.support.served_routes import served

TOKEN = "open-sesame"
PARTITION = f"/v1/log/{TOPIC_ID}/0"
STATE = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=b"\x00\x01")
LIMITS = LogDoorLimits(max_reads=2, max_copies=2, copy_wait_ms=10_000)


_LOG = KeptLog(sample_records())


@pytest.fixture
def log() -> KeptLog:
    _LOG.reset()
    _LOG.committed = END
    return _LOG


@pytest.fixture(scope="module")
def commits() -> CommitSignal:
    return CommitSignal()


@pytest.fixture(scope="module")
def url(commits: CommitSignal) -> Iterator[str]:
    with served(create_log_door(_LOG, tokens=[TOKEN], commits=commits, limits=LIMITS)) as url:
        yield url


@pytest.fixture
def client(url: str, log: KeptLog) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20) as client:
        yield client
    log.may_go_on.set()


def copy(client: httpx.Client, *, end: int = END, wait_ms: int = 0) -> httpx.Response:
    query = {"start": 0, "end": end, "wait_ms": wait_ms}
    return client.post(f"{PARTITION}/copy", params=query, content=STATE.to_bytes())


def batches(body: bytes) -> list[memoryview]:
    found, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at + 8 : at + 12], "big") + 12
        found.append(memoryview(body)[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("token", [None, "", "wrong", f"{TOKEN}x"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/copy"), ("GET", "/records"), ("GET", "/index/offset"), ("DELETE", "")],
)
def test_wrong_token_is_refused_before_anything_else(
    client: httpx.Client, log: KeptLog, method: str, path: str, token: str | None
) -> None:
    headers = {"Authorization": f"Bearer {token}".strip() if token is not None else "Basic b3Blbi1zZXNhbWU="}
    answer = client.request(method, f"{PARTITION}{path}?start=0&end=10", headers=headers)
    assert answer.status_code == 401
    assert not log.hurried


def test_door_without_a_token_is_not_opened(log: KeptLog, commits: CommitSignal) -> None:
    with pytest.raises(Invalid):
        create_log_door(log, tokens=[""], commits=commits)


def test_verified_range_is_copied_and_its_auxiliary_state_kept(client: httpx.Client, log: KeptLog) -> None:
    answer = copy(client)
    assert answer.status_code == 200
    assert answer.json() == {"copied": {"start": 0, "end": END}}
    assert log.kept[segment(0, END).range] == STATE


def test_range_that_is_not_verified_is_not_copied_and_hurried(client: httpx.Client, log: KeptLog) -> None:
    answer = copy(client, end=END + 1)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert log.hurried == [segment(0, END + 1)]
    assert not log.kept


def test_waiting_copy_is_answered_by_the_commit_that_covers_it(
    client: httpx.Client, log: KeptLog, commits: CommitSignal
) -> None:
    log.committed = 10
    hurried = threading.Event()
    log.hurry = lambda _: hurried.set()  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(copy, client, wait_ms=10_000)
        assert hurried.wait(10)
        commits.ring()  # a commit of something else
        log.committed = END
        commits.ring()
        assert waiting.result(10).status_code == 200


def test_copies_above_the_bound_are_told_to_come_back(
    client: httpx.Client, log: KeptLog, commits: CommitSignal
) -> None:
    log.committed = 10
    waiting = threading.Semaphore(0)
    log.hurry = lambda _: waiting.release()  # type: ignore[method-assign]
    with ThreadPoolExecutor(LIMITS.max_copies) as pool:
        held = [pool.submit(copy, client, wait_ms=10_000) for _ in range(LIMITS.max_copies)]
        assert all(waiting.acquire(timeout=10) for _ in held)
        assert "Too many copies" in copy(client).text
        log.committed = END
        commits.ring()
        assert [answer.result(10).status_code for answer in held] == [200] * LIMITS.max_copies
    assert copy(client).status_code == 200


def test_damaged_file_is_a_conflict_and_not_copied(client: httpx.Client, log: KeptLog) -> None:
    log.failure = Corrupt("a digest differs", file="p=0/0.parquet")
    answer = copy(client)
    assert answer.status_code == 409
    assert "p=0/0.parquet" in answer.text


def test_warehouse_that_is_away_is_told_as_unavailable(client: httpx.Client, log: KeptLog) -> None:
    log.failure = Unavailable("the warehouse does not answer")
    assert copy(client).status_code == 503
    assert client.get(f"{PARTITION}/records?start=0&end=10").status_code == 503


@pytest.mark.parametrize("body", [b"", b"x" * 100, STATE.to_bytes()[:-1], STATE.to_bytes() + b"!"])
def test_damaged_body_of_a_copy_is_refused(client: httpx.Client, body: bytes) -> None:
    assert client.post(f"{PARTITION}/copy?start=0&end=10", content=body).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "",
        "start=0",
        "start=5&end=5",
        "start=6&end=5",
        "start=-1&end=5",
        "start=0x1&end=5",
        "start=0&end=99999999999999999999",
        "start=0&end=3000000000",
        "start=0&end=10&from=10",
        "start=5&end=10&from=4",
        "start=0&end=10&max_bytes=0",
        "start=0&end=10&max_bytes=1e6",
        "start=٣&end=5",
    ],
)
def test_request_that_makes_no_sense_is_refused(client: httpx.Client, query: str) -> None:
    assert client.get(f"{PARTITION}/records?{query}").status_code == 400


@pytest.mark.parametrize(
    "topic_id", ["short", "MkU3OEVBNTcwNTJENDM2Qg==", "..%2F..%2Fetc%2Fpasswd", "MkU3OEVBNTcwNTJENDM2Q+"]
)
def test_topic_id_that_is_none_is_refused(client: httpx.Client, topic_id: str) -> None:
    assert client.get(f"/v1/log/{topic_id}/0/records?start=0&end=10").status_code in {400, 404}


def test_unknown_topic_is_unavailable_and_not_gone(client: httpx.Client) -> None:
    unknown = "/v1/log/AAAAAAAAAAAAAAAAAAAAAA/0"
    assert client.get(f"{unknown}/records?start=0&end=10").status_code == 503
    assert client.get(f"{unknown}/index/offset?start=0&end=10").status_code == 503


def test_segment_below_the_log_start_is_gone(client: httpx.Client, log: KeptLog) -> None:
    log.log_start = 2000
    assert client.get(f"{PARTITION}/records?start=0&end=2000").status_code == 404


def test_records_are_the_batches_of_the_backend(client: httpx.Client, log: KeptLog) -> None:
    answer = client.get(f"{PARTITION}/records?start=0&end={END}&from=3000&max_bytes=30000000")
    assert answer.status_code == 200
    found = coverage(batches(answer.content))
    assert (found[0][0], found[-1][1]) == (3000, END - 1)
    assert found == coverage(log.records(segment(0, END), start=3000, max_bytes=30_000_000))


def test_window_ends_with_the_batch_that_reaches_its_size(client: httpx.Client) -> None:
    answer = client.get(f"{PARTITION}/records?start=0&end={END}&max_bytes=50000")
    sizes = [len(batch) for batch in batches(answer.content)]
    assert sum(sizes) >= 50000 > sum(sizes[:-1])


def test_answer_that_fails_on_the_way_has_no_end(
    client: httpx.Client, log: KeptLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.log.record_answer.CHUNK_BYTES", 1000)
    log.failure_after_batches = 20
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(f"{PARTITION}/records?start=0&end={END}&max_bytes=30000000")
    log.failure_after_batches = None
    assert client.get(f"{PARTITION}/records?start=0&end={END}").status_code == 200


def test_client_that_hangs_up_ends_the_production(
    client: httpx.Client, log: KeptLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.log.record_answer.CHUNK_BYTES", 1000)
    with client.stream("GET", f"{PARTITION}/records?start=0&end={END}&max_bytes=60000000") as answer:
        next(answer.iter_raw(100))
        log.may_go_on.clear()
    log.may_go_on.set()
    assert log.closed.acquire(timeout=10)
    assert log.batches_made < 400, "the whole segment was made for a client that had left"


def test_reads_above_the_bound_are_told_to_come_back(client: httpx.Client, log: KeptLog) -> None:
    log.may_go_on.clear()
    path = f"{PARTITION}/records?start=0&end={END}"
    with ThreadPoolExecutor(LIMITS.max_reads) as pool:
        held = [pool.submit(client.get, path) for _ in range(LIMITS.max_reads)]
        assert all(log.reading.acquire(timeout=10) for _ in held)
        refused = client.get(f"{PARTITION}/index/offset?start=0&end=10")
        log.may_go_on.set()
        assert [answer.result(10).status_code for answer in held] == [200] * LIMITS.max_reads
    assert refused.status_code == 503
    assert "Too many reads" in refused.text
    assert client.get(path).status_code == 200


@pytest.mark.parametrize(("name", "entry_bytes"), [("offset", 8), ("timestamp", 12)])
def test_index_is_whole_entries_under_its_crc(client: httpx.Client, name: str, entry_bytes: int) -> None:
    answer = client.get(f"{PARTITION}/index/{name}?start=0&end={END}")
    assert answer.status_code == 200
    assert len(answer.content) > 0
    assert len(answer.content) % entry_bytes == 0
    assert answer.headers["Floeberg-Crc32c"] == f"{crc32c.crc32c(answer.content):08x}"


def test_auxiliary_indexes_are_what_came_with_the_copy(client: httpx.Client) -> None:
    copy(client)
    assert client.get(f"{PARTITION}/index/leader-epoch?start=0&end={END}").content == STATE.leader_epochs
    assert client.get(f"{PARTITION}/index/producer-snapshot?start=0&end={END}").content == STATE.producer_snapshot


@pytest.mark.parametrize("name", ["leader-epoch", "producer-snapshot", "transaction", "nonsense"])
def test_index_that_does_not_exist_is_not_found(client: httpx.Client, name: str) -> None:
    assert client.get(f"{PARTITION}/index/{name}?start=0&end={END}").status_code == 404


def test_delete_of_a_copy_that_never_finished_takes_nothing_from_the_finished_one(client: httpx.Client) -> None:
    copy(client)
    for _ in range(2):
        assert client.delete(f"{PARTITION}?start=0&end={END}").status_code == 204
    assert client.get(f"{PARTITION}/index/leader-epoch?start=0&end={END}").status_code == 200
    assert client.get(f"{PARTITION}/records?start=0&end={END}").status_code == 200


def test_slow_production_does_not_hold_up_other_requests(client: httpx.Client, log: KeptLog) -> None:
    log.may_go_on.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.get, f"{PARTITION}/records?start=0&end={END}")
        assert copy(client).status_code == 200
        assert not slow.done()
        log.may_go_on.set()
        assert slow.result(10).status_code == 200


def test_event_loop_is_free_of_the_backend(log: KeptLog) -> None:
    """Every call of the backend that may wait runs outside the event loop's thread."""
    loop_threads: list[bool] = []

    class Watching(KeptLog):
        def _check(self, of: object) -> None:
            try:
                asyncio.get_running_loop()
                loop_threads.append(True)
            except RuntimeError:
                loop_threads.append(False)

    watching = Watching(sample_records())
    routes = create_log_door(watching, tokens=[TOKEN], commits=CommitSignal())
    with served(routes) as url:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("records", "index/offset", "index/timestamp"):
            httpx.get(f"{url}{PARTITION}/{path}?start=0&end={END}", headers=headers)
    assert loop_threads == [False] * 3
