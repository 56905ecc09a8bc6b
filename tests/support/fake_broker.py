"""A broker in memory, for faults and elections that a real one can't be made to show on demand."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace

from engine.broker import NO_LEADER, BrokerConfig, PartitionReplicas, PartitionView
from engine.errors import FloebergError
from engine.topic_partition import TopicIdPartition

_OFFSET_FIELDS_UNKNOWN = {
    "leader_epoch": -1,
    "log_start_offset": -1,
    "last_stable_offset": -1,
    "high_watermark": -1,
}


class FakeBroker:
    """Held to the port's conformance suite in tests/engine/test_broker.py; ``failing`` is raised by every call;
    ``undescribed``: topics of which it tells nobody whether they are there."""

    def __init__(self, *, cluster_id: str = "fakeClusterId000000000", node_id: int = 1) -> None:
        self.failing: FloebergError | None = None
        self.call_count = 0
        self.undescribed: set[str] = set()
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._ids = itertools.count(1)
        self._views: dict[TopicIdPartition, PartitionView] = {}
        self._configs: dict[str, dict[str, str]] = {}
        # Kafka's own defaults, and a password that is set.
        self.set_broker_config(
            {
                "remote.log.storage.system.enable": "false",
                "security.inter.broker.protocol": "PLAINTEXT",
                "listeners": "PLAINTEXT://127.0.0.1:9092",
            },
            hidden=["ssl.key.password"],
        )

    def create_topic(
        self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None, topic_id: str | None = None
    ) -> str:
        """Returns the topic id."""
        chosen = topic_id or base64.urlsafe_b64encode(next(self._ids).to_bytes(16, "big")).rstrip(b"=").decode()
        self._configs[topic] = {"cleanup.policy": "delete", "remote.storage.enable": "false", **(config or {})}
        for partition in range(partitions):
            who = TopicIdPartition(topic=topic, topic_id=chosen, partition=partition)
            self._views[who] = PartitionView(
                leader_id=self._node_id, leader_epoch=0, log_start_offset=0, last_stable_offset=0, high_watermark=0
            )
        return chosen

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._configs[topic] |= config

    def delete_topic(self, topic: str) -> None:
        self._configs.pop(topic)
        self._views = {who: view for who, view in self._views.items() if who.topic != topic}

    def set_view(self, partition: TopicIdPartition, **fields: int) -> None:
        """Change some fields of a partition's PartitionView."""
        self._views[partition] = replace(self._views[partition], **fields)

    def cluster_id(self) -> str:
        self._answer()
        return self._cluster_id

    def node_ids(self) -> frozenset[int]:
        self._answer()
        return frozenset({self._node_id})

    def partitions(
        self, topics: Collection[str] | None = None, *, offsets_of: Collection[TopicIdPartition] | None = None
    ) -> Mapping[TopicIdPartition, PartitionView]:
        self._answer()
        views = {who: view for who, view in self._views.items() if topics is None or who.topic in topics}
        return {
            who: view
            if view.leader_id != NO_LEADER and (offsets_of is None or who in offsets_of)
            else replace(view, **_OFFSET_FIELDS_UNKNOWN)
            for who, view in views.items()
        }

    def topic_names(self) -> frozenset[str]:
        self._answer()
        return frozenset(who.topic for who in self._views)

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str | None]:
        self._answer()
        ids = {who.topic: who.topic_id for who in self._views}
        return {topic: ids.get(topic) for topic in topics if topic not in self.undescribed}

    def topic_configs(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        self._answer()
        return {name: dict(self._configs[name]) for name in topics if name in self._configs}

    def set_broker_config(self, values: Mapping[str, str], hidden: Collection[str] = ()) -> None:
        """All of it is taken to be set, none of it a default."""
        chosen = frozenset({*values, *hidden})
        self._broker_config = BrokerConfig(values=dict(values), chosen=chosen, hidden=frozenset(hidden))

    def broker_config(self, node_id: int) -> BrokerConfig:
        self._answer()
        return self._broker_config

    def replicas(self, topic: str) -> Mapping[int, PartitionReplicas]:
        self._answer()
        here = frozenset({self._node_id})
        return {
            who.partition: PartitionReplicas(leader_id=view.leader_id, replicas=here, in_sync=here)
            for who, view in self._views.items()
            if who.topic == topic
        }

    def close(self) -> None:
        pass

    def _answer(self) -> None:
        self.call_count += 1
        if self.failing is not None:
            raise self.failing
