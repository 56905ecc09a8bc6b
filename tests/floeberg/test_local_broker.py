"""The broker that the demo and the tests start."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from engine.errors import Invalid, Unavailable
from floeberg.processes.local_broker import LocalBroker
from tests.native.stage import eventually

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


def test_killed_broker_comes_back_with_its_records_and_address(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "broker", log_dir_count=2) as broker:
        address = broker.bootstrap
        broker.create_topic("kept", partitions=2)
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        producer.produce("kept", b"value", partition=1)
        assert producer.flush(30) == 0
        # A directory that was killed before its partition.metadata comes back as a stray, beside a new one.
        eventually(lambda: len(paths(broker, "kept-*/partition.metadata")) == 2, lambda: str(paths(broker, "kept-*/*")))

        broker.kill()
        assert broker.pid is None
        broker.start()

        assert broker.bootstrap == address
        consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
        consumer.assign([TopicPartition("kept", 1, 0)])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert message.value() == b"value"
        assert {path.name for path in paths(broker, "kept-*")} == {"kept-0", "kept-1"}


def paths(broker: LocalBroker, pattern: str) -> list[Path]:
    """In all log directories."""
    return [path for log_dir in broker.log_dirs for path in log_dir.glob(pattern)]


def test_broker_with_impossible_settings_names_what_kafka_says(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path / "broker", properties={"num.network.threads": "many"})
    with pytest.raises(Invalid, match=r"num\.network\.threads"):
        broker.start()


def test_broker_that_ends_by_itself_is_unavailable_with_its_last_words(tmp_path: Path) -> None:
    missing_plugin = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "no.such.Plugin",
    }
    broker = LocalBroker(tmp_path / "broker", properties=missing_plugin)
    with pytest.raises(Unavailable, match=r"no\.such\.Plugin|remote\.log"):
        broker.start()
    assert broker.pid is None
