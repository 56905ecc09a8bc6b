"""Clients read a topic whose history is in the table only, through their own broker, as they read any other."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.native.clients import CLIENTS, group, java_console, java_line
from tests.native.conftest import History

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
LIVE = 200


@pytest.mark.parametrize("subscribe", [False, True], ids=["assign", "subscribe"])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_reads_every_record_once_from_offset_0_into_the_live_tail(
    history: History, client: str, subscribe: bool
) -> None:
    tiered_end = len(history.sent)
    produced: list[int] = []

    def more_when_history_was_read(offset: int) -> None:
        if offset >= tiered_end - 1 and not produced:
            history.produce(LIVE)
            produced.append(LIVE)

    read = CLIENTS[client]
    end = tiered_end + LIVE
    found = read(history.stage.broker.bootstrap, history.tiered, 0, end, more_when_history_was_read, subscribe)
    assert [offset for offset, _ in found] == list(range(end))
    assert [sent for _, sent in found] == history.sent[:end]


@pytest.mark.parametrize("subscribe", [False, True], ids=["assign", "subscribe"])
def test_kafkas_own_console_consumer_prints_every_record_once(history: History, subscribe: bool) -> None:
    lines = java_console(history.stage.broker.bootstrap, history.tiered, len(history.sent), subscribe=subscribe)
    assert lines == [java_line(offset, sent) for offset, sent in enumerate(history.sent)]


def test_seek_to_any_offset_lands_where_it_would_on_a_plain_broker(history: History) -> None:
    bases = [int(base) for base in history.stage.local_segments(history.plain)]
    around = [offset for base in bases for offset in (base - 1, base, base + 1) if offset >= 0]
    some = random.Random(5).sample(range(len(history.sent) - 1), 20)
    offsets = [*around, *some, len(history.sent) - 1]
    consumer = Consumer({"bootstrap.servers": history.stage.broker.bootstrap, "group.id": group()})
    try:
        for offset in offsets:
            consumer.assign([TopicPartition(history.tiered, 0, offset)])
            message = consumer.poll(20)
            assert message is not None, offset
            assert message.error() is None, message.error()
            assert (message.offset(), message.value()) == (offset, history.sent[offset].value)
    finally:
        consumer.close()


def test_seek_by_timestamp_lands_where_it_would_on_a_plain_broker(history: History) -> None:
    first, last = history.sent[0].timestamp_ms, history.sent[-1].timestamp_ms
    times = [0, first, first + 1, last - 20, last, last + 60_000]
    times += [random.Random(6).randrange(first, last) for _ in range(30)]
    # A record whose timestamp is behind its neighbours', which a search by halves would miss.
    times += [history.sent[13 * 700].timestamp_ms, history.sent[13 * 700].timestamp_ms + 1]
    consumer = Consumer({"bootstrap.servers": history.stage.broker.bootstrap, "group.id": group()})
    try:
        for wanted in times:
            asked = [TopicPartition(topic, 0, wanted) for topic in (history.tiered, history.plain)]
            tiered, plain = (answer.offset for answer in consumer.offsets_for_times(asked, timeout=20))
            assert tiered == plain, f"timestamp {wanted}"
    finally:
        consumer.close()


def test_beginning_and_end_are_those_of_the_whole_topic(history: History) -> None:
    consumer = Consumer({"bootstrap.servers": history.stage.broker.bootstrap, "group.id": group()})
    try:
        found = consumer.get_watermark_offsets(TopicPartition(history.tiered, 0), timeout=20)
    finally:
        consumer.close()
    assert found == (0, len(history.sent))
