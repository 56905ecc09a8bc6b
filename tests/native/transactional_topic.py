"""Several producers write one partition: committed, aborted and open transactions, and plain records, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from tests.native.clients import group
from tests.native.stage import Sent, send_one

_FLUSH_S = 60.0
_READ_S = 30.0
_POLL_S = 0.25

Kept = tuple[int, bytes | None]
"""An offset and the value there."""


@dataclass(slots=True)
class Writer:
    """One producer. ``pending``: what its open transaction wrote; a transaction's fate decides about all of it."""

    producer: Producer
    topic: str
    is_transactional: bool
    committed: list[Kept]
    aborted: list[Kept]
    pending: list[Kept] = field(default_factory=list)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def write(self, records: Sequence[Sent]) -> None:
        """Send, and wait until the broker has answered: what others write next comes behind it."""

        def told(error: KafkaError | None, message: KafkaMessage) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            (self.pending if self.is_transactional else self.committed).append((offset, message.value()))

        for record in records:
            send_one(self.producer, self.topic, 0, record, told)
        assert self.producer.flush(_FLUSH_S) == 0

    def commit(self) -> None:
        self.producer.commit_transaction(_FLUSH_S)
        self.committed += self.pending
        self.pending = []

    def abort(self) -> None:
        self.producer.abort_transaction(_FLUSH_S)
        self.aborted += self.pending
        self.pending = []


class TransactionalTopic:
    """A topic with one partition and everything that its producers were told. A context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.committed: list[Kept] = []
        self.aborted: list[Kept] = []
        self._bootstrap = bootstrap
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    def transactional(self, name: str) -> Writer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"{self.topic}-{name}",
                "transaction.timeout.ms": 120_000,
                "linger.ms": 5,
            }
        )
        producer.init_transactions(_FLUSH_S)
        return self._writer(producer, is_transactional=True)

    def idempotent(self) -> Writer:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5})
        return self._writer(producer, is_transactional=False)

    def told(self) -> list[Kept]:
        """What is committed, by offset."""
        return sorted(self.committed)

    def read(self, isolation: str, *, start: int = 0) -> tuple[list[Kept], int]:
        """What a consumer gets from ``start`` to the end of the partition, and the position it ends at."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group(),
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "check.crcs": True,
            }
        )
        found: list[Kept] = []
        try:
            consumer.assign([TopicPartition(self.topic, 0, start)])
            idle_s = 0.0
            while idle_s < _READ_S:
                # Waits for as many messages as are asked for, or to its end: the partition's end does not cut it short.
                messages = consumer.consume(2000, _POLL_S)
                idle_s = 0.0 if messages else idle_s + _POLL_S
                for message in messages:
                    error = message.error()
                    if error is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        end = message.offset()
                        assert end is not None
                        return found, end
                    offset = message.offset()
                    assert offset is not None
                    found.append((offset, message.value()))
            raise AssertionError(f"neither a record nor the end behind {found[-1:]}")
        finally:
            consumer.close()

    def end_offset(self) -> int:
        """Where the partition ends: behind the last record or marker."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group()})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0, OFFSET_END), timeout=_READ_S)
            return int(end)
        finally:
            consumer.close()

    def _writer(self, producer: Producer, *, is_transactional: bool) -> Writer:
        return Writer(
            producer=producer,
            topic=self.topic,
            is_transactional=is_transactional,
            committed=self.committed,
            aborted=self.aborted,
        )
