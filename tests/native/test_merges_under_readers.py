"""Consumers read through their broker, and SQL the table, while its files are merged under them and more are added."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyiceberg.table.snapshots import Operation

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_loop import CompactionLoop
from compaction.merge_limits import Demand, MergeLimits
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from floeberg.sql.duckdb_session import DuckdbSession
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.native.clients import group
from tests.native.conftest import MERGED
from tests.native.stage import TIERED, NativeStage, Sent, eventually, sample
from tests.support.served_routes import served

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native"), pytest.mark.timeout(1200)]

MERGES = int(os.environ.get("FLOEBERG_TEST_MERGES", "20"))
"""Commits of compaction; ``make test-merges`` asks for hundreds."""
PARTITIONS = (0, 1)
ROUND = 400
"""Records that a partition gets at a time: a few of these fill a segment, which the broker then drops."""
READ = 300
LIMITS = CompactionLimits(
    cpu_share=1.0,
    merge=MergeLimits(
        target_file_bytes=1 << 20,
        files_per_group=2,
        newest_left=1,
        crowded=Demand(growth=1, files=2),
        groups_per_turn=1,
        look_interval_ms=0,
    ),
)


@dataclass
class Readers:
    """``sent`` by partition; ``tiered`` how many of these are in the table for sure; ``counts`` of compared answers."""

    stage: NativeStage
    sent: dict[int, list[Sent]] = field(default_factory=lambda: {partition: [] for partition in PARTITIONS})
    tiered: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        """A round of records, until they are in the table."""
        for partition, sent in self.sent.items():
            more = [
                replace(one, value=None if one.value is None else one.value * 6) for one in sample(len(sent), ROUND)
            ]
            sent.extend(more)
            self.stage.produce(MERGED, more, partition=partition, codec="none")
        eventually(self._is_tiered, lambda: self.stage.describe(MERGED))
        self.tiered = {partition: len(sent) for partition, sent in self.sent.items()}

    def consume(self) -> None:
        """From anywhere in the history, again and again."""
        dice = random.Random(1)
        with closing(self._consumer()) as consumer:
            while not self.stop.is_set():
                partition = dice.choice(PARTITIONS)
                start = dice.randrange(self.tiered[partition] - READ)
                self._compare_consumed(consumer, partition, start, start + READ)
                self.counts["consumed"] += 1

    def consume_all(self) -> None:
        with closing(self._consumer()) as consumer:
            for partition, end in self.tiered.items():
                self._compare_consumed(consumer, partition, 0, end)

    def query(self, door: str) -> None:
        """All rows summed up, and some of them read, again and again."""
        dice = random.Random(2)
        with DuckdbSession(door, namespace="kafka") as sql:
            while not self.stop.is_set():
                partition = dice.choice(PARTITIONS)
                self._compare_sums(sql, partition, self.tiered[partition])
                self._compare_rows(sql, partition, dice.randrange(self.tiered[partition] - READ))
                self.counts["queried"] += 2

    def _compare_sums(self, sql: DuckdbSession, partition: int, end: int) -> None:
        sums = "count(*), count(distinct kafka_offset), count(value), sum(length(value))"
        of = f"from {MERGED} where kafka_partition = {partition} and kafka_offset < {end}"
        values = [one.value for one in self.sent[partition][:end] if one.value is not None]
        assert sql.query(f"select {sums} {of}")[1] == [(end, end, len(values), sum(map(len, values)))]

    def _compare_rows(self, sql: DuckdbSession, partition: int, start: int) -> None:
        of = f"from {MERGED} where kafka_partition = {partition} and kafka_offset >= {start}"
        rows = sql.query(f"select kafka_offset, value {of} order by kafka_offset limit {READ}")[1]
        sent = self.sent[partition][start : start + READ]
        texts = [None if one.value is None else one.value.decode() for one in sent]
        assert rows == list(enumerate(texts, start))

    def _compare_consumed(self, consumer: Consumer, partition: int, start: int, end: int) -> None:
        consumer.assign([TopicPartition(MERGED, partition, start)])
        for offset in range(start, end):
            message = consumer.poll(60)
            assert message is not None, f"nothing at {offset} of partition {partition}: {self.stage.describe(MERGED)}"
            assert message.error() is None, message.error()
            expected = self.sent[partition][offset]
            assert (message.offset(), message.key(), message.value()) == (offset, expected.key, expected.value)

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.stage.broker.bootstrap, "group.id": group(), "check.crcs": True})

    def _is_tiered(self) -> bool:
        ends = {
            report.partition.partition: report.status.tiered_end or 0
            for report in self.stage.reports()
            if report.partition.topic == MERGED
        }
        return all(ends.get(partition, 0) >= len(sent) for partition, sent in self.sent.items())


def test_every_answer_is_right_while_files_are_merged(stage: NativeStage) -> None:
    stage.create(MERGED, TIERED, partitions=len(PARTITIONS))
    readers, compaction = Readers(stage), stage.compaction(LIMITS)
    readers.produce()
    with (
        closing(open_catalog(embedded_catalog_properties(stage.folder / "data"))) as catalog,
        served(table_door_routes(CatalogView(catalog))) as door,
        ThreadPoolExecutor(2) as threads,
    ):
        reading = [threads.submit(readers.consume), threads.submit(readers.query, door)]
        with stopping(readers), running(compaction):
            while replacements(stage) < MERGES:  # the loop merges other tests' topics too
                readers.produce()
                raise_what_failed(reading)
            for partition in PARTITIONS:
                stage.await_history_gone(MERGED, partition)
    raise_what_failed(reading)
    readers.consume_all()
    report = compaction.report()
    assert report.problems == ()
    assert (report.totals.given_up, report.totals.failures) == (0, 0)
    assert replacements(stage) >= MERGES
    assert min(readers.counts["consumed"], readers.counts["queried"]) >= MERGES // 4
    assert stage.fsck(MERGED).is_healthy
    print(f"{dict(readers.counts)} beside {report.totals}")


def replacements(stage: NativeStage) -> int:
    """Commits that replaced files."""
    with closing(open_catalog(embedded_catalog_properties(stage.folder / "data"))) as catalog:
        snapshots = catalog.load_table(stage.table(MERGED).identifier).metadata.snapshots
    return sum(one.summary is not None and one.summary.operation is Operation.REPLACE for one in snapshots)


@contextmanager
def running(compaction: CompactionLoop) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=compaction.run_forever, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        compaction.hurry()
        thread.join(60)
        assert not thread.is_alive(), "compaction did not end"


@contextmanager
def stopping(readers: Readers) -> Iterator[None]:
    try:
        yield
    finally:
        readers.stop.set()


def raise_what_failed(reading: list[Future[None]]) -> None:
    for one in reading:
        if one.done():
            one.result()
