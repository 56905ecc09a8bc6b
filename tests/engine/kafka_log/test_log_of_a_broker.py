"""What a real broker wrote, read from its files and compared with what its consumers get."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from engine.broker import KafkaBroker
from engine.errors import Unavailable
from engine.kafka_log.compression import Compression
from engine.kafka_log.log_directory import LeaderEpochs, PartitionDirectory, scan_log_directories
from engine.kafka_log.record_batch import parse_header
from engine.kafka_log.segment import AbortedTransaction, list_segments, read_transaction_index
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from floeberg.processes.local_broker import LocalBroker
from tests.engine.kafka_log.batch_twin import Row, rows_of

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]
# The smallest segment that Kafka 4.1 allows (KIP-1030).
SEGMENT_BYTES = 1 << 20
# Brokers refuse timestamps more than an hour ahead unless told otherwise.
ANY_TIMESTAMP = {"message.timestamp.after.max.ms": str(2**63 - 1)}


def directory_of(broker: LocalBroker, topic: str) -> PartitionDirectory:
    scan = scan_log_directories(broker.log_dirs)
    (found,) = (found for found in scan.live if found.partition.topic == topic)
    return found


def await_directories(broker: LocalBroker, topics: Collection[str], count: int) -> list[PartitionDirectory]:
    """The broker writes ``partition.metadata`` a moment after the directory; until then the directory is a problem."""
    deadline = time.monotonic() + 30
    while True:
        scan = scan_log_directories(broker.log_dirs)
        found = [found for found in scan.live if found.partition.topic in topics]
        if len(found) == count and not scan.problems:
            return found
        assert time.monotonic() < deadline, scan.problems
        assert all(isinstance(problem, Unavailable) for problem in scan.problems)


def rows_in_log(broker: LocalBroker, topic: str) -> list[Row]:
    directory = directory_of(broker, topic)
    segments = list_segments(directory.path)
    aborted: list[AbortedTransaction] = []
    for segment in segments:
        aborted += read_transaction_index(segment.transaction_index_path)
    rows: list[Row] = []
    for segment in segments:
        blocks = read_segment(
            segment.log_path,
            partition=directory.partition,
            offsets=OffsetRange(start=segment.base_offset, end=2**62),
            aborted=aborted,
            closed=segment is not segments[-1],
            is_stable=False,
        )
        rows += rows_of(blocks)
    return rows


def rows_consumed(broker: LocalBroker, topic: str) -> list[Row]:
    return list(_consume(broker, topic))


def _consume(broker: LocalBroker, topic: str) -> Iterator[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, "the broker answers"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return
            kind, timestamp_ms = message.timestamp()
            yield Row(
                offset=message.offset(),
                timestamp_ms=timestamp_ms,
                timestamp_type=kind - 1,
                leader_epoch=message.leader_epoch(),
                key=message.key(),
                value=message.value(),
                headers=tuple((key.encode(), value) for key, value in message.headers() or ()),
            )
    finally:
        consumer.close()


def await_consumed(broker: LocalBroker, topic: str, expected: list[Row]) -> None:
    """Markers are written behind the producer's back: what it has committed is visible soon, not at once."""
    deadline = time.monotonic() + 30
    while (consumed := rows_consumed(broker, topic)) != expected and len(consumed) < len(expected):
        assert time.monotonic() < deadline, "consumers never got what the files hold"
    assert consumed == expected


def refuse_failure(error: KafkaError | None, _message: object) -> None:
    assert error is None, error


def produce(producer: Producer, topic: str, count: int, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(count):
        producer.produce(
            topic,
            key=draw.choice([None, b"", b"key-%d" % (number % 50)]),
            value=draw.choice([None, b"", b"value %d " % number * draw.randrange(20), draw.randbytes(300)]),
            timestamp=draw.choice([1_700_000_000_000 + number, 1, 4_000_000_000_000]),
            headers=draw.choice([[], [("trace", b"1"), ("trace", None), ("", b"")]]),
            on_delivery=refuse_failure,
        )
        producer.poll(0)
    producer.flush()


# "producer" keeps what librdkafka wrote; any other type makes the broker's own Java libraries write it again.
@pytest.mark.parametrize(
    ("topic_type", "client_type"),
    [("producer", codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")]
    + [(codec, "none") for codec in ("gzip", "snappy", "lz4", "zstd")],
)
def test_files_hold_what_consumers_get(broker: LocalBroker, topic_name: str, topic_type: str, client_type: str) -> None:
    broker.create_topic(topic_name, config={"compression.type": topic_type, **ANY_TIMESTAMP})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": client_type, "linger.ms": 20})
    produce(producer, topic_name, 3000, seed=1)
    found = rows_in_log(broker, topic_name)
    assert len(found) == 3000
    assert found == rows_consumed(broker, topic_name)
    segments = list_segments(directory_of(broker, topic_name).path)
    codecs = {parse_header(segment.log_path.read_bytes()).compression for segment in segments}
    assert Compression[(topic_type if topic_type != "producer" else client_type).upper()] in codecs


def test_log_append_time_is_the_brokers(broker: LocalBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, config={"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"})
    produce(Producer({"bootstrap.servers": broker.bootstrap}), topic_name, 500, seed=2)
    found = rows_in_log(broker, topic_name)
    assert {row.timestamp_type for row in found} == {1}
    assert found == rows_consumed(broker, topic_name)


def test_aborted_transactions_and_markers_are_dropped(broker: LocalBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, config={"segment.bytes": str(SEGMENT_BYTES)})
    draw = random.Random(3)
    writers = [
        Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_name}-{number}"})
        for number in range(2)
    ]
    for writer in writers:
        writer.init_transactions()
    for round_ in range(4):
        for writer in writers:
            writer.begin_transaction()
        # Both transactions are open at once, and large enough to span segments.
        for number in range(200):
            for writer in writers:
                writer.produce(topic_name, value=b"%d" % round_ + draw.randbytes(1500), key=b"%d" % number)
        for index, writer in enumerate(writers):
            writer.flush()
            if (round_ + index) % 2 or round_ == 3:
                writer.commit_transaction()
            else:
                writer.abort_transaction()
    found = rows_in_log(broker, topic_name)
    assert len(found) == 5 * 200
    await_consumed(broker, topic_name, found)
    assert len(list_segments(directory_of(broker, topic_name).path)) > 1


def test_compacted_log_is_read_with_its_gaps(broker: LocalBroker, topic_name: str) -> None:
    compaction = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(SEGMENT_BYTES)}
    broker.create_topic(topic_name, config={**compaction, "compression.type": "lz4"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    draw = random.Random(4)
    for _ in range(3000):
        producer.produce(topic_name, key=b"%d" % draw.randrange(400), value=draw.randbytes(1000))
        producer.poll(0)
    producer.flush()
    deadline = time.monotonic() + 60
    while len(list_segments(directory_of(broker, topic_name).path)[0].log_path.read_bytes()) > SEGMENT_BYTES // 2:
        assert time.monotonic() < deadline, "the cleaner has not come by"
        time.sleep(0.2)
    # The cleaner may run again between two reads, so they are compared until it has come to rest.
    while (found := rows_in_log(broker, topic_name)) != rows_consumed(broker, topic_name):
        assert time.monotonic() < deadline, "the files never held what consumers get"
    assert found[-1].offset == 2999
    assert 400 <= len(found) < 3000


def test_directories_and_leader_epochs_are_those_of_the_broker(broker: LocalBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, partitions=3)
    produce(Producer({"bootstrap.servers": broker.bootstrap}), topic_name, 10, seed=5)
    live = await_directories(broker, {topic_name}, 3)
    assert [found.partition.partition for found in sorted(live, key=lambda found: found.partition)] == [0, 1, 2]
    for found in live:
        assert LeaderEpochs.read(found.path).entries in ((), ((0, 0),))


def test_topic_ids_of_files_and_of_the_broker_are_written_alike(broker: LocalBroker, topic_name: str) -> None:
    # Half of all ids have a letter in which base64's two alphabets differ.
    topics = {f"{topic_name}-{number}" for number in range(8)}
    for topic in topics:
        broker.create_topic(topic)
    of_files = {found.partition for found in await_directories(broker, topics, len(topics))}
    seen = KafkaBroker(bootstrap=broker.bootstrap).partitions(sorted(topics))
    assert set(seen) == of_files
