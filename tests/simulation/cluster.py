"""The simulated Kafka cluster: nodes with real log directories, and the port through which daemons ask it."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.broker import NO_LEADER, PartitionView
from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition
from tests.simulation.batches import Batch, Kind
from tests.simulation.clock import SimulatedClock, SimulatedTime
from tests.simulation.partition import Partition
from tests.simulation.replica import Replica

CLUSTER_ID = "simulatedCluster000000"


@dataclass(slots=True, kw_only=True)
class Node:
    """``cut_off``: what a node that lost its peers still believes; None while it hears from them."""

    node_id: int
    log_dir: Path
    clock: SimulatedClock
    roll_bytes: int
    up: bool = True
    cut_off: dict[TopicIdPartition, PartitionView] | None = None
    refuses: int = 0

    @property
    def is_member(self) -> bool:
        return self.up and self.cut_off is None


@dataclass(slots=True, kw_only=True)
class TopicPlan:
    native: bool = False
    compact: bool = False
    partitions: int = 1
    replication: int = 1


class SimulatedCluster:
    """``partitions``: of every incarnation of every topic, deleted ones too; ``live`` those that exist."""

    def __init__(self, root: Path, time: SimulatedTime, roll_bytes: list[int]) -> None:
        self.nodes: dict[int, Node] = {}
        self.partitions: list[Partition] = []
        self.plans: dict[str, TopicPlan] = {}
        self._time = time
        for number, size in enumerate(roll_bytes, start=1):
            log_dir = root / f"node-{number}" / "kafka-logs"
            log_dir.mkdir(parents=True)
            (log_dir / "meta.properties").write_text(f"node.id={number}\nversion=1\ncluster.id={CLUSTER_ID}\n")
            self.nodes[number] = Node(node_id=number, log_dir=log_dir, clock=SimulatedClock(time), roll_bytes=size)

    @property
    def live(self) -> list[Partition]:
        return [partition for partition in self.partitions if not partition.is_deleted]

    def members(self) -> list[int]:
        return [node.node_id for node in self.nodes.values() if node.is_member]

    def create_topic(self, topic: str, plan: TopicPlan) -> None:
        self.plans[topic] = plan
        topic_id = base64.urlsafe_b64encode(self._time.dice.randbytes(16)).rstrip(b"=").decode()
        nodes = self.members()
        for number in range(plan.partitions):
            who = TopicIdPartition(topic=topic, topic_id=topic_id, partition=number)
            chosen = [nodes[(number + step) % len(nodes)] for step in range(min(plan.replication, len(nodes)))]
            replicas = {node: self._replica(node, who) for node in chosen}
            self.partitions.append(
                Partition(
                    who=who,
                    native=plan.native,
                    compact=plan.compact,
                    replicas=replicas,
                    leader=chosen[0],
                    isr=set(chosen),
                )
            )

    def delete_topic(self, topic: str) -> None:
        for partition in self.live:
            if partition.who.topic == topic:
                partition.is_deleted = True
                for node, replica in partition.replicas.items():
                    if self.nodes[node].is_member:
                        replica.remove()

    def leave(self, node_id: int) -> None:
        """A node dies or loses its peers: others that are in sync take over, where there are any."""
        for partition in self.live:
            if node_id in partition.isr and len(partition.isr) > 1:
                partition.isr.discard(node_id)
                if partition.leader == node_id:
                    partition.elect(min(partition.isr))
            elif partition.leader == node_id:
                partition.leader = NO_LEADER

    def come_back(self, node_id: int) -> None:
        """The node is a member again: it leads what only it can, and follows the rest."""
        for partition in self.partitions:
            replica = partition.replicas.get(node_id)
            if replica is not None and partition.is_deleted and not replica.is_removed:
                replica.remove()
            elif (
                replica is not None
                and not partition.is_deleted
                and partition.leader == NO_LEADER
                and node_id in partition.isr
            ):
                partition.elect(node_id)

    def cut_off(self, node_id: int) -> None:
        """The node loses its peers; its daemon goes on with what it last heard."""
        frozen = {partition.who: partition.view() for partition in self.live}
        self.leave(node_id)
        self.nodes[node_id].cut_off = frozen

    def views(self, node: Node) -> dict[TopicIdPartition, PartitionView]:
        if node.cut_off is not None:
            return dict(node.cut_off)
        return {partition.who: partition.view() for partition in self.live}

    def end_transaction(self, partition: Partition, producer_id: int, *, commit: bool) -> None:
        partition.append(
            Batch(
                base_offset=partition.end,
                last_offset=partition.end,
                rows=(),
                kind=Kind.COMMIT if commit else Kind.ABORT,
                producer_id=producer_id,
                transactional=True,
                epoch=partition.epoch,
            )
        )

    def _replica(self, node_id: int, who: TopicIdPartition) -> Replica:
        node = self.nodes[node_id]
        return Replica(node.log_dir, who, start=0, roll_bytes=node.roll_bytes, now_ms=node.clock.now_ms)


@dataclass(slots=True)
class SimulatedBroker:
    """The broker port (engine.broker.Broker) of the daemon beside one node."""

    cluster: SimulatedCluster
    node: Node
    asked: int = field(default=0)

    def cluster_id(self) -> str:
        self._answer()
        return CLUSTER_ID

    def node_ids(self) -> frozenset[int]:
        self._answer()
        return frozenset(node.node_id for node in self.cluster.nodes.values() if node.up)

    def partitions(
        self, topics: Collection[str] | None = None, *, offsets_of: Collection[TopicIdPartition] | None = None
    ) -> Mapping[TopicIdPartition, PartitionView]:
        self._answer()
        return {
            who: view if offsets_of is None or who in offsets_of else PartitionView(leader_id=view.leader_id)
            for who, view in self.cluster.views(self.node).items()
            if topics is None or who.topic in topics
        }

    def topic_configs(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        self._answer()
        present = {partition.who.topic for partition in self.cluster.live}
        return {
            name: {
                "cleanup.policy": "compact" if self.cluster.plans[name].compact else "delete",
                "remote.storage.enable": str(self.cluster.plans[name].native).lower(),
            }
            for name in topics
            if name in present
        }

    def close(self) -> None:
        """There are no connections."""

    def _answer(self) -> None:
        self.asked += 1
        if not self.node.up:
            raise Unavailable("the Kafka broker gave no answer: it is down")
        if self.node.refuses > 0:
            self.node.refuses -= 1
            raise Unavailable("the Kafka broker gave no answer: timed out")
