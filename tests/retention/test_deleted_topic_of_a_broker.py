"""A topic that is deleted at a real broker and created again: the old table ends, the new one stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine.broker import KafkaBroker
from engine.errors import Unavailable
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.companion_folder import companion_folder
from engine.table.proof.verifier import Verifier
from floeberg.daemon.assembly import seen_here
from floeberg.processes.local_broker import LocalBroker
from retention.gone_topic_watch import GoneTopicWatch
from retention.sweep_limits import SweepLimits
from retention.sweep_loop import FIRST_LOOK_MS, SweepLoop
from tests.tiering.tiering_world import SettableClock
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.gone_topic_status import GoneTopicStatus
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]

LIMITS = SweepLimits()
PATIENCE_S = 60


class Stage:
    """A daemon's loops over the broker's own files, with a clock that tests move."""

    def __init__(self, broker: LocalBroker, topic: str, root: Path) -> None:
        self.broker, self.topic, self.root = broker, topic, root
        self.clock = SettableClock()
        self.catalog = open_catalog(embedded_catalog_properties(root / "data"))
        self.writer = TableWriter(self.catalog, self.clock)
        self.port = KafkaBroker(bootstrap=broker.bootstrap)
        self.rules = (TopicRule(pattern=topic, value_format="string", freshness_ms=1, drops_with_topic=True),)
        self.tiering = TieringLoop(
            broker=self.port,
            log_dirs=broker.log_dirs,
            writer=self.writer,
            verifier=Verifier(),
            workers=InProcessWorkers(),
            rules=self.rules,
            clock=self.clock,
            limits=TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0),
        )
        self.gone = self.watch(self.port)
        self.sweeps = SweepLoop(
            catalog=self.catalog,
            namespace="kafka",
            writer=self.writer,
            clock=self.clock,
            limits=LIMITS,
            folder=root / "sweep",
            gone=self.gone,
        )

    def watch(self, port: KafkaBroker) -> GoneTopicWatch:
        return GoneTopicWatch(
            broker=port,
            catalog=self.catalog,
            namespace="kafka",
            rules=self.rules,
            clock=self.clock,
            limits=LIMITS,
            folder=self.root / "sweep",
            here=lambda: seen_here(self.tiering.report),
        )

    def create(self, *values: str) -> None:
        """The topic with these records, and a table that has them."""
        self.broker.create_topic(self.topic)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 0})
        for value in values:
            producer.produce(self.topic, value=value)
        assert producer.flush(20) == 0
        self.until(lambda: self.values(self.topic) == list(values))

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        (deleted,) = admin.delete_topics([self.topic]).values()
        deleted.result(timeout=20)

    def values(self, table: str) -> list[str]:
        if table not in self.names():
            return []
        found = self.catalog.load_table(("kafka", table)).scan().to_arrow().sort_by("kafka_offset")
        return [str(value) for value in found["value"].to_pylist()]

    def names(self) -> list[str]:
        return sorted(name for _, name in self.catalog.list_tables("kafka")) if self.catalog.list_namespaces() else []

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, (self.tiering.report, self.gone.report())
            self.tiering.cycle()
            # A folder that the broker has removed is missed at the next whole look.
            self.clock.unseen_ms += 1_000

    def look(self) -> list[GoneTopicStatus]:
        self.gone.look()
        return list(self.gone.report())


def test_table_of_a_deleted_topic_ends_and_that_of_the_next_one_stays(
    broker: LocalBroker, topic_name: str, tmp_path: Path
) -> None:
    stage = Stage(broker, topic_name, tmp_path)
    broker.create_topic(f"{topic_name}-other")
    stage.create("a", "b")
    assert stage.look() == []
    old = stage.catalog.load_table(("kafka", topic_name))
    table = stage.writer.open(topic_name, old.properties["floeberg.topic_id"])
    assert table is not None
    folders = (table.location, companion_folder(table.location))
    stage.delete()
    stage.until(lambda: [one.drops_at_ms is not None for one in stage.look()] == [True])
    stage.create("c")
    retired = f"{topic_name}__{table.topic_id}"
    assert stage.names() == [topic_name, retired]
    with pytest.raises(Unavailable):
        stage.watch(KafkaBroker(bootstrap="127.0.0.1:1", timeout_ms=300)).look()
    stage.clock.ahead_ms += LIMITS.grace_ms
    stage.tiering.cycle()
    (dropped,) = stage.look()
    assert (dropped.is_dropped, stage.names()) == (True, [topic_name])
    for _ in range(4):
        stage.tiering.cycle()
        while stage.sweeps.turn():
            pass
        stage.clock.ahead_ms += LIMITS.grace_ms + FIRST_LOOK_MS + LIMITS.interval_ms
    assert [file.path for folder in folders for file in table.warehouse.list(folder)] == []
    assert stage.look() == []
    assert stage.values(topic_name) == ["c"]
