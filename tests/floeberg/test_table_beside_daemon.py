"""A table gets another format and another name while a daemon tiers its topic, beside a broker as Kafka ships it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from engine.clock import SystemClock
from engine.fsck.check import fsck_table
from engine.table.catalog.access import open_catalog
from engine.table.topic_table import TopicTable
from floeberg.daemon.client import ask_daemon
from floeberg.daemon.daemon import Daemon
from floeberg.processes.free_ports import free_ports
from floeberg.settings import Settings
from floeberg.settings.file import load_settings
from floeberg.tables.topic_tables import TopicTables
from tests.floeberg.command import floeberg
from tests.native.shipped_broker import ShippedBroker

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("table-beside-daemon")]

PATIENCE_SECONDS = 90.0


def until(holds: Callable[[], bool], told: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.1)


class Topic:
    """``clicks``, of one partition."""

    def __init__(self, broker: ShippedBroker, settings: Settings) -> None:
        self.settings = settings
        self.count = 0
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})

    def produce(self, count: int = 20) -> None:
        for number in range(self.count, self.count + count):
            self._producer.produce("clicks", json.dumps({"page": number}).encode())
        assert self._producer.flush(30) == 0
        self.count += count

    def table(self) -> TopicTable | None:
        tables = TopicTables(open_catalog(self.settings.catalog_properties), "kafka").all()
        return next((table for table in tables if table.topic == "clicks"), None)

    def is_tiered(self) -> bool:
        table = self.table()
        return table is not None and 0 in table.ledger and table.ledger[0].end == self.count

    def told(self) -> object:
        status = ask_daemon(self.settings)
        return self.table(), None if status is None else status.partitions


def test_daemon_that_leaves_the_format_open_goes_on_in_another_format_and_under_another_name(tmp_path: Path) -> None:
    log_door, table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
    with ShippedBroker(tmp_path / "broker") as broker, capture_logs() as logs:
        file = tmp_path / "floeberg.toml"
        file.write_text(
            f'[broker]\nbootstrap = "{broker.bootstrap}"\nlog_dirs = {json.dumps(list(map(str, broker.log_dirs)))}\n'
            f'[log_door]\nlisten = "{log_door}"\n[table_door]\nlisten = "{table_door}"\n'
            '[[topics]]\nname = "*"\nfreshness_ms = 500\n'
        )
        settings = load_settings(file)
        with Daemon(settings, SystemClock(), in_process=True):
            broker.create_topic("clicks")
            topic = Topic(broker, settings)
            topic.produce()
            until(topic.is_tiered, topic.told)
            topic.produce()
            done = floeberg("table", "retype", "clicks", "--value", "string", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            topic.produce()
            until(topic.is_tiered, topic.told)
            table = topic.table()
            assert table is not None
            assert (table.codec.name, table.value_fields[0].name) == ("string", "value")
            assert floeberg("table", "rename", "clicks", "page_views", cwd=tmp_path).returncode == 0
            topic.produce()
            until(topic.is_tiered, topic.told)
            found = floeberg("sql", "--json", "SELECT value FROM page_views ORDER BY kafka_offset", cwd=tmp_path)
            assert [json.loads(row["value"])["page"] for row in json.loads(found.stdout)] == list(range(topic.count))
            status = ask_daemon(settings)
            assert status is not None
            assert status.is_healthy, status.all_problems
            (partition,) = (one for one in status.partitions if one.topic == "clicks")
            assert (partition.table, partition.value_format) == ("kafka.page_views", "string")
        table = topic.table()
        assert table is not None
        assert fsck_table(table, log_dirs=broker.log_dirs).findings == ()
    fenced = [log for log in logs if "takes no older files" in str(log.get("error"))]
    assert [log for log in logs if log["log_level"] != "info" and log not in fenced] == []
