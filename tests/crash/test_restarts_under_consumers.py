"""A daemon that is killed, comes back and falls silent under clients that read history: all they notice is time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.crash.crash_stage import NATIVE, CrashStage
from tests.native.stage import eventually

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("crash")]

TOPIC = "history"
READERS = 8
"""Their fetches of 500 ms, over the 5 s that a read may wait for a silent daemon, stay below the 100 reads that a
broker queues by default."""
BURSTS = 4
RESTARTS = 3
SILENT_READS = 30
"""More than the broker has threads for: the last ones failed without waiting."""
REJECTED = "RejectedExecutionException"
FAILED = "Error occurred while reading the remote data"


class Readers:
    """Clients that read a partition from its beginning to its end, again and again, and keep what they are told."""

    def __init__(self, bootstrap: str, end: int) -> None:
        self._bootstrap = bootstrap
        self._end = end
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(at,), daemon=True) for at in range(READERS)]
        self.errors: list[str] = []
        self.passes = [0] * READERS

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def await_passes(self) -> None:
        """Until each has read everything once more."""
        wanted = [done + 2 for done in self.passes]
        eventually(
            lambda: all(done >= goal for done, goal in zip(self.passes, wanted, strict=True)),
            lambda: f"{self.passes} of {wanted}; {self.errors[:3]}",
        )

    def _read(self, who: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": f"reads-{who}", "log_level": 0})
        try:
            while not self._stop.is_set():
                consumer.assign([TopicPartition(TOPIC, 0, 0)])
                at = -1
                while at < self._end - 1 and not self._stop.is_set():
                    for message in consumer.consume(500, 0.5):
                        if message.error() is not None:
                            self.errors.append(str(message.error()))
                        else:
                            at = message.offset()
                self.passes[who] += 1
        finally:
            consumer.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[CrashStage]:
    with CrashStage(tmp_path) as stage:
        yield stage


@pytest.mark.timeout(600)
def test_restarts_and_silence_of_the_daemon_cost_consumers_nothing_but_time(stage: CrashStage) -> None:
    stage.create(TOPIC, NATIVE)
    for _ in range(BURSTS):
        stage.burst(TOPIC)
    stage.live_until_tiered(TOPIC)
    stage.await_dropped(TOPIC)
    (local,) = stage.local_segments(TOPIC)
    broker_log = stage.broker.server_log.read_text
    with Readers(stage.broker.bootstrap, local) as readers:
        readers.await_passes()
        for _ in range(RESTARTS):
            stage.cradle.kill()
            assert stage.cradle.death_within(60) == signal.SIGKILL
            pid = stage.cradle.bear()
            readers.await_passes()
        failed = broker_log().count(FAILED)
        os.kill(pid, signal.SIGSTOP)
        try:
            eventually(lambda: broker_log().count(FAILED) >= failed + SILENT_READS, lambda: broker_log()[-2000:])
        finally:
            os.kill(pid, signal.SIGCONT)
        readers.await_passes()
    assert not readers.errors, (len(readers.errors), set(readers.errors))
    assert REJECTED not in broker_log()
