"""A topic written in transactions, some of them aborted, read as committed from the table."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.native.clients import group
from tests.native.stage import PLAIN, TIERED, NativeStage, sample, send_one

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
TRANSACTIONS = 40
RECORDS_EACH = 400


def write_transactions(stage: NativeStage, topic: str) -> int:
    """Every fourth transaction is aborted; the last one isn't. Returns the offset behind the last record."""
    producer = Producer({"bootstrap.servers": stage.broker.bootstrap, "transactional.id": topic, "linger.ms": 5})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for record in sample(number * RECORDS_EACH, RECORDS_EACH):
            send_one(producer, topic, 0, record)
        assert producer.flush(30) == 0
        if number % 4 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    # Each transaction ends with a marker, which has an offset of its own.
    return TRANSACTIONS * (RECORDS_EACH + 1)


def read_committed(stage: NativeStage, topic: str, last_offset: int) -> list[tuple[int, bytes | None]]:
    consumer = Consumer(
        {"bootstrap.servers": stage.broker.bootstrap, "group.id": group(), "isolation.level": "read_committed"}
    )
    found: list[tuple[int, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not found or found[-1][0] < last_offset:
            messages = consumer.consume(2000, 20)
            assert messages, f"nothing behind offset {found[-1:]}"
            for message in messages:
                assert message.error() is None, message.error()
                found.append((message.offset(), message.value()))
    finally:
        consumer.close()
    return found


def test_consumer_of_committed_records_sees_what_it_would_see_on_a_plain_broker(stage: NativeStage) -> None:
    for topic, config in (("transactions", TIERED), ("transactions-plain", PLAIN)):
        stage.create(topic, config)
        end = write_transactions(stage, topic)
    stage.await_history_gone("transactions")
    # The marker behind the last record is the last offset.
    tiered, plain = (read_committed(stage, topic, end - 2) for topic in ("transactions", "transactions-plain"))
    assert len(plain) == RECORDS_EACH * TRANSACTIONS * 3 // 4
    assert tiered == plain
