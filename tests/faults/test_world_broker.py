"""A real broker under the loop: restarted, and with one of its two disks gone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.daemon.status_board import StatusBoard
from floeberg.processes.local_broker import FAST_HOUSEKEEPING, LocalBroker
from tests.support.auditor import ProducersLog, Record, assert_clean, audit
from tests.support.auditor_sights import table_sights
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

pytestmark = pytest.mark.broker

DAY_MS = 86_400_000
PATIENCE_SECONDS = 90.0
TOPIC = "orders"
PARTITIONS = 4


class Stage:
    """A loop beside a broker with two disks; what producers were told of is kept for the audit."""

    def __init__(self, broker: LocalBroker, folder: Path) -> None:
        clock = SystemClock()
        limits = TieringLimits(lag_interval_ms=0)
        self.broker = broker
        self.catalog = open_catalog(embedded_catalog_properties(folder / "data"))
        self.board = StatusBoard(version="test", clock=clock, limits=limits)
        self.loop = TieringLoop(
            broker=KafkaBroker(bootstrap=broker.bootstrap, timeout_ms=3_000),
            log_dirs=broker.log_dirs,
            writer=TableWriter(self.catalog, clock),
            verifier=Verifier(),
            workers=InProcessWorkers(),
            rules=[TopicRule(pattern=TOPIC, value_format="string")],
            clock=clock,
            limits=limits,
        )
        self.loop.on_cycle(self.board.note_cycle)
        self.told = ProducersLog()
        self._days = itertools.count(1)

    def produce(self, *partitions: int) -> None:
        """Some records to each, a day later than the ones before: that closes the segment before them."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "message.timeout.ms": 60_000})
        timestamp_ms = 1_700_000_000_000 + next(self._days) * DAY_MS
        for partition, number in itertools.product(partitions, range(50)):
            record = Record(key=b"%d" % number, value=b"order %d" % number, timestamp_ms=timestamp_ms)
            producer.produce(
                TOPIC,
                record.value,
                record.key,
                partition,
                timestamp=timestamp_ms,
                on_delivery=self.told.delivery((TOPIC, partition), record),
            )
        assert producer.flush(60) == 0

    def until(self, holds: Callable[[], bool]) -> None:
        """Cycle until it is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.board.status()
            self.loop.cycle()
            time.sleep(0.05)

    def tiered(self, *partitions: int, end: int) -> bool:
        found = {one.partition: one.tiered_end for one in self.board.status().partitions}
        return all(found.get(partition) == end for partition in partitions)

    def audit(self) -> None:
        assert_clean(audit(self.told, table_sights(self.catalog, ("kafka", TOPIC))))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with LocalBroker(tmp_path / "broker", properties=FAST_HOUSEKEEPING, log_dir_count=2, heap_mb=320) as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS, config={"segment.ms": "1000"})
        yield Stage(broker, tmp_path)


def test_broker_that_restarts_and_then_loses_a_disk_loses_no_tiered_record(stage: Stage) -> None:
    everywhere = range(PARTITIONS)
    stage.produce(*everywhere)
    stage.produce(*everywhere)
    stage.until(lambda: stage.tiered(*everywhere, end=50))

    stage.broker.stop()
    stage.loop.cycle()
    status = stage.board.status()
    assert status.problems
    assert len(status.partitions) == PARTITIONS
    stage.broker.start()
    stage.produce(*everywhere)
    stage.until(lambda: stage.tiered(*everywhere, end=100))
    assert stage.board.status().is_healthy

    disk = stage.broker.log_dirs[1]
    lost = {int(path.name.rpartition("-")[2]) for path in disk.glob(f"{TOPIC}-*")}
    kept = sorted(set(everywhere) - lost)
    assert lost
    assert kept
    disk.rename(disk.with_name("the disk that was"))
    stage.produce(*kept)
    stage.until(lambda: stage.tiered(*kept, end=150))
    problems = {one.partition: one.problem or "" for one in stage.board.status().partitions}
    assert len(problems) == PARTITIONS
    assert all(str(disk) in problems[partition] for partition in lost)
    assert not any(problems[partition] for partition in kept)
    stage.audit()
