"""The broker port: one conformance suite, for a real broker and for the fake that other tests stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine.broker import KafkaBroker, PartitionReplicas
from engine.errors import Invalid, Unavailable
from floeberg.processes.local_broker import LocalBroker
from tests.engine.broker_suite import BrokerConformance, Cluster, wait_for_answers
from tests.support.fake_broker import FakeBroker


class ConfigurationConformance:
    """Of a port to one broker that can be asked for its settings; inherited by a class with a ``cluster`` fixture."""

    def test_brokers_settings_have_values_and_what_is_hidden_is_named(self, cluster: Cluster) -> None:
        (node_id,) = cluster.port.node_ids()
        config = cluster.port.broker_config(node_id)
        assert config.values["remote.log.storage.system.enable"] == "false"
        assert config.values["security.inter.broker.protocol"] == "PLAINTEXT"
        assert "PLAINTEXT://" in config.values["listeners"]
        assert {"listeners", "ssl.key.password"} <= config.chosen
        assert "ssl.key.password" in config.hidden
        assert "ssl.key.password" not in config.values
        assert "ssl.truststore.password" not in config.hidden

    def test_replicas_are_those_of_every_partition(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name, partitions=2)
        nodes = cluster.port.node_ids()
        (node_id,) = nodes
        one = PartitionReplicas(leader_id=node_id, replicas=nodes, in_sync=nodes)
        assert cluster.port.replicas(topic_name) == {0: one, 1: one}
        assert cluster.port.replicas(topic_name + "-missing") == {}

    def test_topic_that_is_missing_or_was_deleted_has_no_id(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        missing = topic_name + "-missing"
        (who,) = cluster.port.partitions([topic_name], offsets_of=())
        assert cluster.port.topic_ids([topic_name, missing]) == {topic_name: who.topic_id, missing: None}
        assert topic_name in cluster.port.topic_names()
        assert missing not in cluster.port.topic_names()
        cluster.delete_topic(topic_name)
        assert cluster.port.topic_ids([topic_name]) == {topic_name: None}


class FakeCluster:
    def __init__(self) -> None:
        self.port = FakeBroker()

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self.port.create_topic(topic, partitions=partitions, config=config)

    def delete_topic(self, topic: str) -> None:
        self.port.delete_topic(topic)

    def produce(self, topic: str, count: int) -> None:
        ((who, view),) = self.port.partitions([topic]).items()
        end = view.high_watermark + count
        self.port.set_view(who, high_watermark=end, last_stable_offset=end)

    def leave_transaction_open(self, topic: str, count: int) -> None:
        ((who, view),) = self.port.partitions([topic]).items()
        self.port.set_view(who, high_watermark=view.high_watermark + count)


class TestFakeBroker(BrokerConformance, ConfigurationConformance):
    @pytest.fixture
    def cluster(self) -> FakeCluster:
        return FakeCluster()


class RealCluster:
    def __init__(self, running: LocalBroker) -> None:
        self.port = KafkaBroker(bootstrap=running.bootstrap)
        self._running = running
        self._bootstrap = running.bootstrap
        self._open: list[Producer] = []

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self._running.create_topic(topic, partitions=partitions, config=config)
        wait_for_answers(self.port, topic)

    def delete_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        (deleted,) = admin.delete_topics([topic]).values()
        deleted.result(timeout=20)

    def produce(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0})
        for number in range(count):
            producer.produce(topic, value=str(number).encode())
        assert producer.flush(20) == 0

    def leave_transaction_open(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": f"open-{topic}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, value=str(number).encode())
        assert producer.flush(20) == 0
        self._open.append(producer)

    def close(self) -> None:
        for producer in self._open:
            producer.abort_transaction(20)
        self.port.close()


@pytest.mark.broker
@pytest.mark.xdist_group("broker")
class TestKafkaBroker(BrokerConformance, ConfigurationConformance):
    @pytest.fixture
    def cluster(self, broker: LocalBroker) -> Iterator[RealCluster]:
        cluster = RealCluster(broker)
        yield cluster
        cluster.close()


def test_broker_that_is_away_is_unavailable_with_a_next_step() -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1", timeout_ms=300)
    with pytest.raises(Unavailable) as caught:
        port.partitions(["orders"])
    assert "127.0.0.1:1" in str(caught.value)
    assert caught.value.next_step


def test_setting_that_librdkafka_does_not_know_is_invalid() -> None:
    with pytest.raises(Invalid) as caught:
        KafkaBroker(bootstrap="127.0.0.1:1", security={"sasl.usernames": "x"})
    assert "sasl.usernames" in str(caught.value)
