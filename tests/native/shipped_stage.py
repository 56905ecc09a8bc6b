"""Brokers as Kafka ships them, set up for native mode by nothing but what ``floeberg plugin`` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from engine.clock import SystemClock
from floeberg.daemon.daemon import Daemon
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import Membership
from floeberg.settings import Settings
from floeberg.settings.file import load_settings
from tests.floeberg.command import floeberg
from tests.native.clients import group
from tests.native.shipped_broker import ShippedBroker, properties_of
from tests.native.stage import eventually
from tests.support.certificates import Authority

SOONER: Mapping[str, str] = {
    # A line of the shipped file: how often the broker looks for segments to drop (there 5 min).
    "log.retention.check.interval.ms": "1000",
    # Not in the shipped file, Kafka's own 30 s each: the first such look, and the pause between looks for copies.
    "log.initial.task.delay.ms": "1000",
    "remote.log.manager.task.interval.ms": "1000",
}
"""Timings and nothing else: with those that Kafka ships a segment takes up to six minutes from its end to its drop."""

RECORDS = 3_000
_TIERED = {"remote.storage.enable": "true", "local.retention.ms": "1000", "segment.bytes": str(1 << 20)}
_VALUE_BYTES = 1_000


class ShippedNode:
    """A broker and the settings of the daemon beside it, as a user would write them.

    ``with_tls``: its log door has a certificate of an authority that nobody knows but who is told of it.
    """

    def __init__(self, folder: Path, membership: Membership, *, shared: Path, with_tls: bool = False) -> None:
        self.folder = folder
        self.broker = ShippedBroker(folder / "broker", membership=membership)
        self.broker.more = SOONER
        self.log_door, table_door = free_ports(2)
        folder.mkdir(parents=True)
        shared.mkdir(exist_ok=True)
        (folder / "floeberg.toml").write_text(
            f'[broker]\nbootstrap = "{self.broker.bootstrap}"\nlog_dirs = ["{self.broker.log_dirs[0]}"]\n'
            f'[log_door]\nlisten = "127.0.0.1:{self.log_door}"\n{self._tls() if with_tls else ""}'
            f'[table_door]\nlisten = "127.0.0.1:{table_door}"\n'
            f'[catalog]\ntype = "sql"\nuri = "sqlite:///{shared}/catalog.db"\nwarehouse = "file://{shared}/warehouse"\n'
        )

    def _tls(self) -> str:
        authority = Authority(self.folder)
        authority.issue(self.folder)
        return 'tls = {cert_file = "door.pem", key_file = "door.key", ca_file = "ca.pem"}\n'

    def printed(self) -> str:
        """What ``floeberg plugin`` prints for this broker."""
        done = floeberg("plugin", "-o", self.folder / "jar", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def append(self, printed: str) -> None:
        """Lines at the end of server.properties; they count from the next start."""
        self.broker.more = {**SOONER, **properties_of(printed)}

    def settings(self) -> Settings:
        settings = load_settings(self.folder / "floeberg.toml")
        # Relative to the folder that the command runs in.
        return settings.model_copy(update={"data_dir": self.folder / "floeberg-data"})

    def daemon(self) -> Daemon:
        return Daemon(self.settings(), SystemClock(), in_process=True)

    def dropped(self, topic: str, partition: int) -> bool:
        """The broker has dropped every closed segment of the partition."""
        names = sorted(path.stem for path in (self.broker.log_dirs[0] / f"{topic}-{partition}").glob("*.log"))
        return len(names) == 1 and int(names[0]) > 0

    def checked(self, *options: str) -> list[dict[str, str]]:
        """What ``floeberg check`` finds, Spark left out."""
        return list(json.loads(floeberg("check", "--no-spark", "--json", *options, cwd=self.folder).stdout)["checks"])


def start_all(nodes: Sequence[ShippedNode]) -> None:
    """Nodes of one cluster, which answer once most of them are up."""
    with ThreadPoolExecutor(len(nodes)) as starters:
        for started in [starters.submit(node.broker.start) for node in nodes]:
            started.result()


def stop_all(nodes: Sequence[ShippedNode]) -> None:
    with ThreadPoolExecutor(len(nodes)) as stoppers:
        for stopped in [stoppers.submit(node.broker.stop) for node in nodes]:
            stopped.result()


def set_up_by_what_is_printed(nodes: Sequence[ShippedNode]) -> None:
    """As a user does: ask each running broker, append what was printed, start all again."""
    for node in nodes:
        node.append(node.printed())
    stop_all(nodes)
    start_all(nodes)


def history_is_read_from_the_table(nodes: Sequence[ShippedNode], topic: str) -> None:
    """A topic, one partition led by each node: its segments close, are copied and dropped, and a consumer reads all."""
    ids = [node.broker.membership.node_id for node in nodes]
    replicas = [[*ids[first:], *ids[:first]] for first in range(len(ids))]
    nodes[0].broker.create_topic(topic, config=_TIERED, replicas=replicas)
    bootstrap = ",".join(node.broker.bootstrap for node in nodes)
    # Idempotent: a batch that is sent again, as leaders are still being made known, keeps its place.
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 100, "enable.idempotence": True}
    )
    sent = [number.to_bytes(4, "big") * (_VALUE_BYTES // 4) for number in range(RECORDS)]
    for partition in range(len(nodes)):
        for value in sent:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
    assert producer.flush(60) == 0
    for partition, node in enumerate(nodes):
        eventually(lambda node=node, partition=partition: node.dropped(topic, partition), node.printed)
        found = read_from_start(bootstrap, topic, partition, len(sent))
        wrong = [offset for offset, value in enumerate(found) if value != sent[offset]]
        assert not wrong, f"{len(wrong)} records of partition {partition} differ, from offset {wrong[0]} on"


def read_from_start(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group(), "enable.auto.commit": False})
    found: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while len(found) < count:
            messages = consumer.consume(1000, 20)
            assert messages, f"nothing came after offset {len(found)}"
            for message in messages:
                assert message.error() is None, message.error()
                found.append(message.value())
        return found
    finally:
        consumer.close()
