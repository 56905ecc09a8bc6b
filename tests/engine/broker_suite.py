"""What every implementation of the broker port does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from engine.broker import Broker, PartitionView
from engine.topic_partition import TopicIdPartition


class Cluster(Protocol):
    """What a test does to the cluster behind the port."""

    port: Broker

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def produce(self, topic: str, count: int) -> None: ...
    def leave_transaction_open(self, topic: str, count: int) -> None: ...


class BrokerConformance:
    """Inherited by a class with a ``cluster`` fixture."""

    def test_new_topic_has_id_leader_epoch_and_offsets(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name, partitions=2)
        views = cluster.port.partitions([topic_name])
        assert {who.partition for who in views} == {0, 1}
        (topic_id,) = {who.topic_id for who in views}
        assert len(topic_id) == 22
        for view in views.values():
            assert view.leader_id in cluster.port.node_ids()
            assert view.is_answered
            assert (view.log_start_offset, view.last_stable_offset, view.high_watermark) == (0, 0, 0)

    def test_produced_records_move_the_last_stable_offset(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        cluster.produce(topic_name, 7)
        (view,) = cluster.port.partitions([topic_name]).values()
        assert (view.last_stable_offset, view.high_watermark) == (7, 7)

    def test_open_transaction_holds_the_last_stable_offset(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        cluster.produce(topic_name, 5)
        cluster.leave_transaction_open(topic_name, 4)
        (view,) = cluster.port.partitions([topic_name]).values()
        assert (view.last_stable_offset, view.high_watermark) == (5, 9)

    def test_offsets_are_given_only_where_asked(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name, partitions=2)
        first, second = sorted(cluster.port.partitions([topic_name], offsets_of=()))
        views = cluster.port.partitions([topic_name], offsets_of=[second])
        assert not views[first].is_answered
        assert views[first].leader_id in cluster.port.node_ids()
        assert views[second].is_answered

    def test_missing_topic_is_left_out(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        missing = topic_name + "-missing"
        assert {who.topic for who in cluster.port.partitions([topic_name, missing])} == {topic_name}
        assert set(cluster.port.topic_configs([topic_name, missing])) == {topic_name}

    def test_every_topic_is_listed_when_none_is_named(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        assert topic_name in {who.topic for who in cluster.port.partitions(None, offsets_of=())}

    def test_topic_created_again_has_another_id_and_no_old_offsets(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name)
        cluster.produce(topic_name, 3)
        (old,) = cluster.port.partitions([topic_name])
        cluster.delete_topic(topic_name)
        cluster.create_topic(topic_name)
        views = wait_for_answers(cluster.port, topic_name)
        (new,) = views
        assert new.topic_id != old.topic_id
        assert views[new].high_watermark == 0

    def test_topic_configs_are_kafkas_own(self, cluster: Cluster, topic_name: str) -> None:
        cluster.create_topic(topic_name, config={"cleanup.policy": "compact"})
        config = cluster.port.topic_configs([topic_name])[topic_name]
        assert config["cleanup.policy"] == "compact"
        assert config["remote.storage.enable"] == "false"

    def test_cluster_has_an_id(self, cluster: Cluster) -> None:
        assert len(cluster.port.cluster_id()) == 22


def wait_for_answers(port: Broker, topic: str) -> Mapping[TopicIdPartition, PartitionView]:
    """Ask until every partition answers: a topic that was just created may still be electing its leaders."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        views = port.partitions([topic])
        if views and all(view.is_answered for view in views.values()):
            return views
    raise AssertionError(f"{topic} gave no offsets within 20 s")
