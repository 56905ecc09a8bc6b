"""The leader of a partition moves, in every way it can, while producers write: its table goes on as one."""

from __future__ import annotations

import time

import pytest

from engine.table.data_file import parse_file_name
from tests.cluster.cluster import DROPPED, KEPT, Cluster
from tests.cluster.load import Load

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("cluster")]


def files_in_mid_segment(cluster: Cluster, topic: str, partition: int, *, of_node: int, epoch: int) -> list[int]:
    """Starts of files that were committed in an epoch and lie within a segment of its leader."""
    table = cluster.catalog.load_table(cluster.table(topic).identifier)
    names = (parse_file_name(task.file.file_path) for task in table.scan().plan_files())
    starts = {name.range.start for name in names if name.partition == partition and name.leader_epoch == epoch}
    return sorted(starts - set(cluster.nodes[of_node].segments(topic, partition)))


def test_leader_that_moves_by_election_stop_and_kill_loses_and_doubles_nothing(cluster: Cluster) -> None:
    topic, first, second, third = "moving", *cluster.nodes.values()
    cluster.create(topic, KEPT, replicas=[[3, 1, 2], [1, 2, 3], [2, 3, 1]])
    with Load(cluster.bootstrap, topic, partitions=[0, 1, 0, 2], per_second=800) as load:
        # Three daemons commit to one table.
        for partition in range(3):
            cluster.await_tiered(topic, partition, 1)

        # A clean stop.
        third.broker.stop()
        cluster.await_more(topic, 0, epoch=1)
        cluster.bring_back(third)

        # A daemon that is killed: its broker keeps what is not tiered, and it goes on from the ledger.
        first.daemon.kill()
        first.daemon.start()
        cluster.await_more(topic, 0)

        # An election: the leader goes, and stays up.
        cluster.prefer(topic, 0, 2, 1, 3)
        cluster.await_more(topic, 0, epoch=2)

        # A broker that is killed, while the third may still be on its way back.
        cluster.await_in_sync(topic, 0, 3)
        end, killed_at = cluster.tiered_end(topic, 0), time.monotonic()
        second.broker.kill()
        cluster.await_tiered(topic, 0, end + 1, epoch=3)
        print(f"\nfailover.first_commit_ms {1000 * (time.monotonic() - killed_at):.0f}")
        cluster.bring_back(second)
        cluster.await_in_sync(topic, 0, 2)

    leaders = {1: 1, 2: 2, 3: 1}
    bases = {node_id: node.segments(topic, 0) for node_id, node in cluster.nodes.items()}
    assert len({tuple(found) for found in bases.values()}) == 3, f"replicas close their segments at the same: {bases}"
    in_the_middle = {
        epoch: files_in_mid_segment(cluster, topic, 0, of_node=leader, epoch=epoch) for epoch, leader in leaders.items()
    }
    assert any(in_the_middle.values()), f"no file begins within a segment of its leader: {in_the_middle}, {bases}"

    # From now on a consumer gets the history from the table.
    cluster.set_config(topic, local_retention_ms=DROPPED["local.retention.ms"])
    cluster.await_dropped(topic, partitions=3)
    cluster.audit(topic, load.told, partitions=3)
    # 20 attempts are the bound: three writers are far from it.
    for node in cluster.nodes.values():
        assert any(event["topic"] == topic for event in node.daemon.events("committed"))
        assert all(event["attempt"] < 10 for event in node.daemon.events("commit_conflict"))
