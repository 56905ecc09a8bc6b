"""A compacted topic of a real broker, whose cleaner has been there: ``__latest`` shows what its consumers fold."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.kafka_log.log_directory import scan_log_directories
from engine.kafka_log.segment import list_segments
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.processes.local_broker import LocalBroker
from latest.latest_loop import LatestLoop
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]

SEGMENT_BYTES = 1 << 20
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.compaction.lag.ms": "0",
}
PATIENCE_S = 120


class Stage:
    """The topic, and a daemon's loops over the broker's own files."""

    def __init__(self, broker: LocalBroker, topic: str, root: Path) -> None:
        self.broker, self.topic = broker, topic
        self.produced = 0
        self._draw = random.Random(7)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        self.catalog = open_catalog(embedded_catalog_properties(root / "data"))
        clock, port = SystemClock(), KafkaBroker(bootstrap=broker.bootstrap)
        writer = TableWriter(self.catalog, clock)
        self.tiering = TieringLoop(
            broker=port,
            log_dirs=broker.log_dirs,
            writer=writer,
            verifier=Verifier(),
            workers=InProcessWorkers(),
            rules=(TopicRule(pattern=topic, value_format="string", freshness_ms=1),),
            clock=clock,
            limits=TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0),
        )
        self.latest = LatestLoop(writer=writer, directory=root / "index", configs_of=port.topic_configs, clock=clock)

    def produce(self, count: int) -> None:
        for _ in range(count):
            value = None if self._draw.random() < 0.1 else self._draw.randbytes(500).hex()
            self._producer.produce(self.topic, key=b"%d" % self._draw.randrange(400), value=value)
            self._producer.poll(0)
        self._producer.flush()
        self.produced += count

    def await_cleaner(self) -> None:
        scan = scan_log_directories(self.broker.log_dirs)
        (found,) = (found for found in scan.live if found.partition.topic == self.topic)
        deadline = time.monotonic() + PATIENCE_S
        while list_segments(found.path)[0].log_path.stat().st_size > SEGMENT_BYTES // 2:
            assert time.monotonic() < deadline, "the cleaner has not come by"
            time.sleep(0.2)

    def tier(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            report = self.tiering.cycle()
            assert not report.problems, report.problems
            self.latest.note_topics(report.led)
            self.latest.round()
            behind = self.latest.report()
            assert behind.problems == ()
            ends = [led.table.ledger[0].end for led in report.led.values() if 0 in led.table.ledger]
            if ends == [self.produced] and behind.totals.commits and not behind.behind_offsets:
                return
            assert time.monotonic() < deadline, (ends, behind)

    def shown(self) -> dict[str, tuple[int, str]]:
        rows = self.catalog.load_table(("kafka", f"{self.topic}__latest")).scan().to_arrow().to_pylist()
        found = {row["kafka_key"]: (row["kafka_offset"], row["value"]) for row in rows}
        assert len(found) == len(rows), "no key is shown twice"
        return found

    def folded(self) -> dict[str, tuple[int, str]]:
        """By a consumer, as any keeps a table of the topic."""
        newest: dict[str, tuple[int, str]] = {}
        for offset, key, value in self.consumed():
            newest.pop(key, None)
            if value is not None:
                newest[key] = (offset, value)
        return newest

    def consumed(self) -> Iterator[tuple[int, str, str | None]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "fold",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            key, value = message.key(), message.value()
            assert key is not None
            offset = message.offset()
            assert offset is not None
            yield offset, key.decode(), None if value is None else value.decode()
        consumer.close()


@pytest.mark.timeout(600)
def test_table_shows_what_consumers_fold_of_a_topic_that_was_compacted(
    broker: LocalBroker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name, config=COMPACTED)
    stage = Stage(broker, topic_name, tmp_path)
    stage.produce(3000)
    stage.tier()
    assert stage.shown() == stage.folded()
    # Of what the cleaner has been through, and of what comes on top of it.
    stage.await_cleaner()
    assert sum(1 for _ in stage.consumed()) < stage.produced
    assert stage.shown() == stage.folded()
    stage.produce(3000)
    stage.tier()
    assert stage.shown() == stage.folded()
    # And a daemon that begins only now, with what the cleaner left.
    stage.produce(3000)
    stage.await_cleaner()
    late = Stage(broker, topic_name, tmp_path / "late")
    late.produced = stage.produced
    late.tier()
    assert late.shown() == late.folded()
    assert len(late.shown()) > 300
