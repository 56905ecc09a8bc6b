"""A broker that lost its disk comes back when the leader has only the tail: it starts from what the daemons keep."""

from __future__ import annotations

import re

import pytest

from engine.kafka_log.log_directory import LeaderEpochs
from tests.cluster.cluster import DROPPED, MIB, Cluster
from tests.cluster.load import Load
from tests.native.stage import eventually

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("cluster")]


def test_follower_without_a_disk_starts_from_tiered_storage_and_can_lead(cluster: Cluster) -> None:
    topic, first, second = "bootstrap", cluster.nodes[1], cluster.nodes[2]
    cluster.create(topic, DROPPED, replicas=[[3, 1, 2]])
    with Load(cluster.bootstrap, topic, partitions=[0], per_second=200) as load:
        load.write(0, 2 * MIB)
        # Records of two epochs, told by the daemons of two brokers.
        cluster.prefer(topic, 0, 1, 2, 3)
        second.broker.stop()
        cluster.lose_disk(2)
        load.write(0, 3 * MIB)
        eventually(
            lambda: first.segments(topic, 0)[0] > 0 and cluster.ledger(topic, 0).epoch >= 1,
            lambda: cluster.describe(topic, 0),
        )
        second.broker.start()
        cluster.await_in_sync(topic, 0, 2)
        assert second.segments(topic, 0)[0] > 0, "the follower has the whole log: nothing came from tiered storage"
        told = second.broker.server_log.read_text()
        assert re.search(rf"Updated the epoch cache from remote tier till offset: \d+ .*Topic: {topic};", told)

        folders = [node.log_dir / f"{topic}-0" for node in (first, second)]
        of_leader, of_follower = (LeaderEpochs.read(folder).entries for folder in folders)
        assert of_follower == of_leader
        assert len(of_follower) > 1, "one epoch would be there without any auxiliary state"

        # It leads; the producer's sequences go on, and its daemon from the ledger.
        cluster.prefer(topic, 0, 2, 1, 3)
        load.write(0, 2 * MIB)
        cluster.await_more(topic, 0, epoch=2)
    cluster.await_dropped(topic, partitions=1)
    cluster.audit(topic, load.told, partitions=1)
