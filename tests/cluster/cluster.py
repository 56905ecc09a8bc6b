"""Three brokers with the plugin, a daemon beside each, one catalog and warehouse for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from engine.table.catalog.access import open_catalog
from engine.table.ledger import LedgerEntry
from engine.table.topic_table import TopicTable
from floeberg.java.plugin_jar import broker_properties
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import FAST_TIERED_STORAGE, LocalBroker, cluster_of
from floeberg.tables.topic_tables import TopicTables
from tests.cluster.daemon import DaemonPlace, DaemonProcess
from tests.native.stage import eventually
from tests.support.auditor import Dropped, ProducersLog, assert_clean, audit
from tests.support.auditor_sights import consumer_sight, dropped_by_broker, table_sights
from tests.support.current_jar import current_jar

TOKEN = "shared-with-the-brokers"
MIB = 1 << 20
SEGMENT_BYTES = {1: MIB, 2: MIB * 13 // 10, 3: MIB * 17 // 10}
"""Of each broker: replicas of one partition close their segments at offsets of their own."""

TIERED = {"remote.storage.enable": "true"}
KEPT = TIERED
DROPPED = {**TIERED, "local.retention.ms": "500"}

_QUICK = {
    "rsm.config.floeberg.copy.timeout.ms": "2000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "6000",
    # A follower appends what it fetched as one: less than a segment, or its segments would end where the leader's do.
    "replica.fetch.max.bytes": "131072",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
_HEAP_MB = 320
_START_TIMEOUT_S = 120.0


@dataclass(slots=True, kw_only=True)
class Node:
    """A broker and the daemon beside it."""

    node_id: int
    broker: LocalBroker
    daemon: DaemonProcess

    @property
    def log_dir(self) -> Path:
        return self.broker.log_dirs[0]

    def segments(self, topic: str, partition: int) -> list[int]:
        """Base offsets of the segments on this broker's disk."""
        return sorted(int(path.stem) for path in (self.log_dir / f"{topic}-{partition}").glob("*.log"))


class Cluster:
    """A context manager; nodes are numbered from 1. Daemons start with the brokers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self._starting: list[Future[None]] = []
        self._starters = ThreadPoolExecutor(len(SEGMENT_BYTES), thread_name_prefix="starts-brokers")
        ports = iter(free_ports(2 * len(SEGMENT_BYTES)))
        self.nodes: dict[int, Node] = {}
        jar = current_jar(folder)
        for membership in cluster_of(tuple(SEGMENT_BYTES)):
            node_id = membership.node_id
            place = DaemonPlace(
                data_dir=folder / f"daemon-{node_id}",
                shared=self.shared,
                bootstrap=f"127.0.0.1:{membership.own.client}",
                log_dir=folder / f"broker-{node_id}" / "log-0",
                log_door=next(ports),
                table_door=next(ports),
                token=TOKEN,
            )
            properties = {
                **FAST_TIERED_STORAGE,
                **_QUICK,
                **broker_properties(jar=jar, door_url=place.door_url, token=TOKEN),
                "log.segment.bytes": str(SEGMENT_BYTES[node_id]),
                # A node whose topics' disk is lost keeps its vote.
                "metadata.log.dir": str(folder / f"broker-{node_id}" / "metadata"),
            }
            broker = LocalBroker(
                folder / f"broker-{node_id}",
                properties=properties,
                heap_mb=_HEAP_MB,
                membership=membership,
            )
            self.nodes[node_id] = Node(node_id=node_id, broker=broker, daemon=DaemonProcess(place))

    @property
    def bootstrap(self) -> str:
        return ",".join(node.broker.bootstrap for node in self.nodes.values())

    def __enter__(self) -> Self:
        self.shared.mkdir(parents=True)
        try:
            self.heal()
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            properties = {"type": "sql", "uri": f"sqlite:///{self.shared}/catalog.db"}
            self.catalog = open_catalog({**properties, "warehouse": f"file://{self.shared}/warehouse"})
            self._tables = TopicTables(self.catalog, "kafka")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._starters.shutdown(wait=True)
        for node in self.nodes.values():
            node.daemon.stop()
        # They would wait for each other's controllers: together, and a controller's last quorum needs no goodbye.
        for node in self.nodes.values():
            node.broker.kill()

    def heal(self) -> None:
        """Start what does not run."""
        for node in self.nodes.values():
            self.bring_back(node)
            if node.daemon.is_alive:
                node.daemon.thaw()
            else:
                node.daemon.start()
        for started in self._starting:
            started.result(_START_TIMEOUT_S)
        self._starting.clear()
        for node in self.nodes.values():
            node.daemon.await_ready()

    def bring_back(self, node: Node) -> None:
        """Start its broker beside what the test does next."""
        self._starting.append(self._starters.submit(node.broker.start))

    def create(self, topic: str, config: Mapping[str, str], *, replicas: Sequence[Sequence[int]]) -> None:
        self.nodes[1].broker.create_topic(topic, replicas=replicas, config={**config})
        eventually(lambda: self.leader(topic, 0) is not None, lambda: f"{topic} has no leader")

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads, by the metadata of a broker that is up; None while none does."""
        found = self._admin.list_topics(topic, timeout=10).topics[topic].partitions.get(partition)
        return None if found is None or found.leader < 0 else int(found.leader)

    def in_sync(self, topic: str, partition: int) -> set[int]:
        return set(self._admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].isrs)

    def await_leader(self, topic: str, partition: int, node_id: int) -> None:
        eventually(
            lambda: self.leader(topic, partition) == node_id,
            lambda: f"{self.leader(topic, partition)} leads {topic}-{partition}, not {node_id}",
        )

    def await_in_sync(self, topic: str, partition: int, node_id: int) -> None:
        eventually(
            lambda: node_id in self.in_sync(topic, partition),
            lambda: f"in sync for {topic}-{partition}: {self.in_sync(topic, partition)}",
        )

    def prefer(self, topic: str, partition: int, *nodes: int) -> None:
        """Change the order of the replicas and have the first one elected."""
        self.await_in_sync(topic, partition, nodes[0])
        who = PythonPartition(topic, partition)
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        try:
            admin.alter_partition_reassignments({who: list(nodes)})

            def is_elected() -> bool:
                admin.elect_leaders(0, {topic: [partition]}, raise_errors=False)
                return self.leader(topic, partition) == nodes[0]

            eventually(is_elected, lambda: f"{self.leader(topic, partition)} leads {topic}-{partition}")
        finally:
            admin.close()

    def set_config(self, topic: str, **values: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def table(self, topic: str) -> TopicTable:
        return self._tables.named(topic)

    def ledger(self, topic: str, partition: int) -> LedgerEntry | None:
        """The ledger's line; None before the first commit."""
        found = next((table for table in self._tables.all() if table.topic == topic), None)
        return None if found is None else found.ledger.get(partition)

    def tiered_end(self, topic: str, partition: int) -> int:
        entry = self.ledger(topic, partition)
        return 0 if entry is None else entry.end

    def await_tiered(self, topic: str, partition: int, end: int, *, epoch: int = 0) -> None:
        """Until offsets below ``end`` are in the table and somebody committed under ``epoch`` or a newer one."""

        def is_there() -> bool:
            entry = self.ledger(topic, partition)
            return entry is not None and entry.end >= end and entry.epoch >= epoch

        eventually(is_there, lambda: f"{end} in epoch {epoch}: {self.describe(topic, partition)}")

    def await_dropped(self, topic: str, *, partitions: int) -> None:
        """Until every leader has given up its closed segments: what they held is read from the table."""

        def is_gone(partition: int) -> bool:
            leader = self.leader(topic, partition)
            local = [] if leader is None else self.nodes[leader].segments(topic, partition)
            return len(local) == 1 and local[0] > 0

        for partition in range(partitions):
            eventually(lambda: is_gone(partition), lambda: self.describe(topic, partition))  # noqa: B023

    def audit(self, topic: str, told: ProducersLog, *, partitions: int) -> int:
        """What producers were told, what a consumer reads from the beginning, and what the table has are the same; no
        broker has dropped what is not proven to be in the table. Returns the number of records."""
        places = [(topic, partition) for partition in range(partitions)]
        table = self.table(topic)
        sights = table_sights(self.catalog, table.identifier)
        assert {sight.place for sight in sights} == set(places), "every partition has rows in the table"
        with ThreadPoolExecutor(partitions) as pool:
            sights += pool.map(lambda place: consumer_sight(self.bootstrap, place), places)
        dropped: list[Dropped] = []
        for node in self.nodes.values():
            found = (dropped_by_broker([node.log_dir], place, self.table(topic)) for place in places)
            dropped += [item for item in found if item is not None]
        assert_clean(audit(told, sights, dropped))
        consumed = sum(len(sight.records) for sight in sights if sight.door == "consumer")
        assert consumed == told.record_count, f"{consumed} of {told.record_count} records were read"
        print(f"\n{topic}: {told.record_count} records audited, {len(dropped)} logs with dropped segments")
        return told.record_count

    def await_more(self, topic: str, partition: int, *, epoch: int = 0) -> None:
        """Until something is committed behind what is in the table now."""
        self.await_tiered(topic, partition, self.tiered_end(topic, partition) + 1, epoch=epoch)

    def describe(self, topic: str, partition: int) -> str:
        """Where a partition stands, for a test that waited in vain."""
        lines = [f"leader {self.leader(topic, partition)}, ledger {self.ledger(topic, partition)}"]
        for node in self.nodes.values():
            lines.append(f"node {node.node_id}: segments {node.segments(topic, partition)}")
            with suppress(Exception):
                lines.append(f"  its daemon: {node.daemon.partition(topic, partition)}")
            log = node.broker.server_log.read_text(errors="replace").splitlines()
            lines += [f"  {line[:400]}" for line in log if topic in line or "io.floeberg" in line][-5:]
        return "\n".join(lines)

    def lose_disk(self, node_id: int) -> None:
        """Everything that a stopped broker held of its topics is gone."""
        assert self.nodes[node_id].broker.pid is None
        shutil.rmtree(self.nodes[node_id].log_dir)

    @contextmanager
    def another_daemon(self, node_id: int) -> Iterator[DaemonProcess]:
        """A second daemon beside a broker, with a data directory and doors of its own: an operator's mistake."""
        place = self.nodes[node_id].daemon.place
        log_door, table_door = free_ports(2)
        other = DaemonProcess(
            DaemonPlace(
                data_dir=self.folder / f"another-{node_id}",
                shared=self.shared,
                bootstrap=place.bootstrap,
                log_dir=place.log_dir,
                log_door=log_door,
                table_door=table_door,
                token=TOKEN,
            )
        )
        other.start()
        try:
            yield other
        finally:
            other.stop()
