"""A broker with the plugin whose daemon is away, slow, damaged or lying: nothing is lost, no record is wrong."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.clients import CLIENTS, Read, java_console, java_line
from tests.native.conftest import History
from tests.native.stage import TIERED, NativeStage, eventually, sample

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
RECORDS = 25_000
"""Three segments."""


def no_progress(_offset: int) -> None:
    """The test doesn't want to know how far a client is."""


def read_all(
    stage: NativeStage, topic: str, end: int, *, client: str = "confluent-kafka", start: int = 0
) -> list[Read]:
    return CLIENTS[client](stage.broker.bootstrap, topic, start, end, no_progress, False)


def test_copy_that_was_refused_is_tried_again_under_another_id_and_nothing_is_lost(stage: NativeStage) -> None:
    records = sample(0, RECORDS)
    stage.workers.paused.add("held-back")
    stage.create("held-back", TIERED)
    stage.produce("held-back", records)
    stage.await_refused_copies(2)
    local = stage.local_segments("held-back")
    assert local[0] == "0" * 20
    assert len(local) > 2
    stage.workers.paused.clear()
    stage.await_history_gone("held-back")
    found = read_all(stage, "held-back", RECORDS)
    assert found == list(enumerate(records))


def test_file_damaged_between_writing_and_verifying_keeps_the_brokers_segments_and_is_told(stage: NativeStage) -> None:
    records = sample(0, RECORDS)
    damaged: list[Path] = []

    def spoil(topic: str, path: Path) -> None:
        if topic == "spoiled":
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 0x08
            path.write_bytes(content)
            damaged.append(path)

    stage.workers.spoil = spoil
    stage.create("spoiled", TIERED)
    stage.produce("spoiled", records)
    stage.await_refused_copies(2)
    eventually(lambda: bool(stage.problem_of("spoiled")), lambda: "the operator was told nothing")
    told = stage.problem_of("spoiled")
    assert any(path.name in told for path in damaged), told
    assert stage.local_segments("spoiled")[0] == "0" * 20
    assert read_all(stage, "spoiled", RECORDS) == list(enumerate(records))

    stage.workers.spoil = lambda _topic, _path: None
    stage.await_history_gone("spoiled")
    assert read_all(stage, "spoiled", RECORDS) == list(enumerate(records))
    assert not stage.problem_of("spoiled")


def test_daemon_that_is_stopped_and_comes_back_costs_readers_nothing_but_time(history: History) -> None:
    stage, end = history.stage, len(history.sent)
    expected = list(enumerate(history.sent))
    with ThreadPoolExecutor(len(CLIENTS) + 1) as pool:
        with stage.closed_door():
            waiting = {client: pool.submit(read_all, stage, history.tiered, end, client=client) for client in CLIENTS}
            java = pool.submit(java_console, stage.broker.bootstrap, history.tiered, end, subscribe=False)
            stage.await_failed_reads(2 * len(waiting))
            # Live traffic goes on: what was produced just now is read from the broker's own disk.
            history.produce(100)
            tail = read_all(stage, history.tiered, end + 100, start=end)
            assert tail == [(offset, history.sent[offset]) for offset in range(end, end + 100)]
            assert not any(read.done() for read in waiting.values())
        for client, read in waiting.items():
            assert read.result(90)[:end] == expected, client
        assert java.result(90) == [java_line(offset, sent) for offset, sent in expected]


def test_segments_closed_while_the_daemon_is_away_are_kept_and_tiered_when_it_is_back(stage: NativeStage) -> None:
    records = sample(0, RECORDS)
    stage.create("while-away", TIERED)
    with stage.closed_door():
        stage.produce("while-away", records)
        eventually(lambda: len(stage.local_segments("while-away")) > 1, lambda: "no segment was closed")
        assert read_all(stage, "while-away", RECORDS) == list(enumerate(records))
        assert stage.local_segments("while-away")[0] == "0" * 20
    stage.await_history_gone("while-away")
    assert read_all(stage, "while-away", RECORDS) == list(enumerate(records))


@pytest.mark.parametrize("client", CLIENTS)
def test_damaged_answer_never_becomes_a_wrong_record(history: History, client: str) -> None:
    stage, end = history.stage, len(history.sent)
    with ThreadPoolExecutor(1) as pool:
        with stage.answers_damaged():
            reading: Future[list[Read]] = pool.submit(read_all, stage, history.tiered, end, client=client)
            stage.await_failed_reads(2)
            assert not reading.done()
        assert reading.result(90)[:end] == list(enumerate(history.sent))[:end]


def test_token_that_differs_is_named_in_the_brokers_log(stage: NativeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    log: Callable[[], str] = stage.broker.server_log.read_text
    with stage.closed_door():
        pass
    monkeypatch.setattr("tests.native.stage.TOKEN", "another")
    with stage.closed_door():
        pass
    stage.create("wrong-token", TIERED)
    stage.produce("wrong-token", sample(0, RECORDS))
    try:
        eventually(lambda: "give floeberg.token in the broker's settings" in log(), lambda: "nothing about the token")
        assert stage.local_segments("wrong-token")[0] == "0" * 20
    finally:
        monkeypatch.undo()
        with stage.closed_door():
            pass
    stage.await_history_gone("wrong-token")
