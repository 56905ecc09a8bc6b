"""What Kafka deletes of a topic whose history is in the table: the horizon follows, and consumers see what plain Kafka
shows them. And a table that keeps less than its consumers have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from engine.table.manifests import ManifestReader
from retention.horizon_loop import HorizonLoop
from tests.native.clients import CLIENTS, group
from tests.native.conftest import SHORT_TABLE
from tests.native.stage import PLAIN, SEGMENT_BYTES, TIERED, NativeStage, eventually, sample

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]

RECORDS = 40_000
CUT = 20_123
"""In the middle of a segment."""


@pytest.fixture(scope="module")
def horizons(stage: NativeStage) -> HorizonLoop:
    return stage.horizons()


def cut(stage: NativeStage, topic: str, offset: int) -> None:
    """``kafka-delete-records.sh``."""
    admin = AdminClient({"bootstrap.servers": stage.broker.bootstrap})
    asked = TopicPartition(topic, 0, offset)
    admin.delete_records([asked])[asked].result(timeout=30)


def first_offset(stage: NativeStage, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": group()})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[0])
    finally:
        consumer.close()


def told_at(stage: NativeStage, topic: str, offset: int) -> KafkaError | None:
    """What a consumer that wants no reset is told at an offset."""
    reset = {"auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": group(), **reset})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(30)
        assert message is not None
        return message.error()
    except KafkaException as error:
        return error.args[0]  # type: ignore[no-any-return]
    finally:
        consumer.close()


def await_log_start(stage: NativeStage, horizons: HorizonLoop, topic: str, log_start: int) -> None:
    """Until the table has it."""

    def is_recorded() -> bool:
        horizons.turn()
        return stage.table(topic).ledger[0].log_start == log_start

    eventually(is_recorded, lambda: f"{stage.describe(topic)}\n{horizons.problems()}")


def history_of(stage: NativeStage, *topics: str) -> None:
    """The same records in each, the first one's in the table alone."""
    for topic in topics:
        stage.create(topic, PLAIN if topic.endswith("-plain") else TIERED)
        stage.produce(topic, sample(0, RECORDS))
    stage.await_history_gone(topics[0])


@pytest.fixture(scope="module")
def cut_topics(stage: NativeStage, horizons: HorizonLoop) -> Iterator[tuple[str, str]]:
    """A tiered topic and a plain one, both cut at the same offset."""
    topics = ("cut", "cut-plain")
    history_of(stage, *topics)
    # From here on the broker has the segment's index, of before the cut.
    assert told_at(stage, topics[0], CUT) is None
    for topic in topics:
        cut(stage, topic, CUT)
    await_log_start(stage, horizons, topics[0], CUT)
    with stage.closed_door():
        # The door that opens again knows the new horizon.
        pass
    return topics


@pytest.mark.parametrize("subscribe", [False, True], ids=["reset", "subscribe"])
@pytest.mark.parametrize("client", CLIENTS)
def test_earliest_is_the_horizon_that_delete_records_set(
    stage: NativeStage, cut_topics: tuple[str, str], client: str, subscribe: bool
) -> None:
    found = [
        CLIENTS[client](stage.broker.bootstrap, topic, 5, RECORDS, lambda _: None, subscribe) for topic in cut_topics
    ]
    assert found[0] == found[1]
    assert [offset for offset, _ in found[0]] == list(range(CUT, RECORDS))


def test_consumer_below_the_horizon_is_told_what_plain_kafka_tells(
    stage: NativeStage, cut_topics: tuple[str, str]
) -> None:
    assert [first_offset(stage, topic) for topic in cut_topics] == [CUT, CUT]
    for offset in (0, CUT - 1):
        tiered, plain = (told_at(stage, topic, offset) for topic in cut_topics)
        assert tiered is not None
        assert plain is not None
        assert (tiered.code(), plain.code()) == (KafkaError._AUTO_OFFSET_RESET,) * 2
        assert "out of range" in str(tiered).lower()
    assert [told_at(stage, topic, CUT) for topic in cut_topics] == [None, None]


def test_sql_keeps_what_consumers_have_no_more(stage: NativeStage, cut_topics: tuple[str, str]) -> None:
    table = stage.table(cut_topics[0])
    assert sum(file.record_count for file in ManifestReader().files(table).own) >= CUT
    assert table.ledger[0].held == table.ledger[0].range
    assert stage.fsck(cut_topics[0]).is_healthy


def test_horizon_follows_kafkas_own_retention_of_tiered_segments(stage: NativeStage, horizons: HorizonLoop) -> None:
    topic = "bounded"
    history_of(stage, topic)
    entry = ConfigEntry("retention.bytes", str(2 * SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": stage.broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    eventually(lambda: first_offset(stage, topic) > 0, lambda: stage.describe(topic))
    begins = first_offset(stage, topic)
    await_log_start(stage, horizons, topic, begins)
    found = CLIENTS["confluent-kafka"](stage.broker.bootstrap, topic, 0, RECORDS, lambda _: None, False)
    assert [offset for offset, _ in found] == list(range(begins, RECORDS))


def test_records_deleted_beyond_what_is_tiered_are_skipped_and_the_horizon_follows(
    stage: NativeStage, horizons: HorizonLoop
) -> None:
    topic, more = "cut-ahead", 3_000
    history_of(stage, topic)
    tiered_end = stage.table(topic).ledger[0].end
    with stage.tiering_away():
        stage.produce(topic, sample(RECORDS, more))
        cut(stage, topic, RECORDS + more)
    await_log_start(stage, horizons, topic, tiered_end)
    stage.produce(topic, sample(RECORDS + more, RECORDS))
    stage.await_history_gone(topic)
    await_log_start(stage, horizons, topic, RECORDS + more)
    assert [(gap.start, gap.end) for gap in stage.table(topic).skipped[0]] == [(tiered_end, RECORDS + more)]
    found = CLIENTS["confluent-kafka"](stage.broker.bootstrap, topic, 0, 2 * RECORDS + more, lambda _: None, True)
    assert [offset for offset, _ in found] == list(range(RECORDS + more, 2 * RECORDS + more))


@pytest.mark.parametrize("client", CLIENTS)
def test_consumers_have_what_left_the_table(stage: NativeStage, horizons: HorizonLoop, client: str) -> None:
    if SHORT_TABLE not in {report.partition.topic for report in stage.reports()}:
        history_of(stage, SHORT_TABLE)
    horizons.turn()
    line = stage.table(SHORT_TABLE).ledger[0]
    assert 0 < line.table_start < line.end
    found = ManifestReader().files(stage.table(SHORT_TABLE))
    assert (len(found.own), found.own[0].range.start) == (1, line.table_start)
    assert found.stream[-1].range.end == line.table_start
    read = CLIENTS[client](stage.broker.bootstrap, SHORT_TABLE, 0, RECORDS, lambda _: None, False)
    assert read == list(enumerate(sample(0, RECORDS)))
    assert stage.fsck(SHORT_TABLE).is_healthy
