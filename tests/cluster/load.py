"""A producer that writes for as long as a scenario lasts, and what it was told was written."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Self

from confluent_kafka import Producer

from tests.support.auditor import ProducersLog
from tests.support.numbered_record import numbered_record

VALUE_BYTES = 1_200


class Load:
    """An idempotent producer that waits for all replicas: ``per_second`` records over ``partitions``.

    ``told`` is what it was told. A context manager: it writes within the block, and at its end every record has been
    acknowledged.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: Sequence[int], per_second: int = 600) -> None:
        self.told = ProducersLog()
        self._topic = topic
        self._partitions = partitions
        self._per_second = per_second
        self._numbers = iter(range(10**9))
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                # Each batch is a request to three brokers: some dozen batches a second are load enough.
                "linger.ms": 50,
                "batch.size": 65_536,
                # A leader that was killed is replaced within seconds: nothing may be given up meanwhile.
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        left = self._producer.flush(120)
        assert left == 0, f"{left} records were not answered"
        for partition in self._partitions:
            given_up = self.told.possible((self._topic, partition))
            assert not given_up, f"{len(given_up)} records of {partition} were given up"

    def write(self, partition: int, size_bytes: int) -> None:
        """That much into one partition at once, acknowledged when it returns."""
        for _ in range(max(1, size_bytes // VALUE_BYTES)):
            self._send(partition)
        assert self._producer.flush(120) == 0

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - began) * self._per_second)
            # What could not be sent while there was no leader is not made good at once.
            for _ in range(min(due - sent, 200)):
                self._send(self._partitions[sent % len(self._partitions)])
                sent += 1
            sent = max(sent, due - 200)
            self._producer.poll(0.05)

    def _send(self, partition: int) -> None:
        made = numbered_record(next(self._numbers), VALUE_BYTES)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    partition=partition,
                    key=made.key,
                    value=made.value,
                    headers=list(made.headers) or None,
                    timestamp=made.timestamp_ms,
                    on_delivery=self.told.delivery((self._topic, partition), made),
                )
                return
            except BufferError:
                self._producer.poll(0.1)
