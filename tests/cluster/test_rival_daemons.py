"""Two daemons that both believe a partition is theirs: one wakes up after it was replaced, or both were started."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import KEPT, MIB, SEGMENT_BYTES, Cluster
from tests.cluster.load import Load
from tests.native.stage import eventually

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("cluster")]


def test_daemon_that_slept_through_a_change_of_leader_is_fenced_and_says_so(cluster: Cluster) -> None:
    topic, first, third = "zombie", cluster.nodes[1], cluster.nodes[3]
    cluster.create(topic, KEPT, replicas=[[1, 3, 2], [2, 3, 1]])
    with Load(cluster.bootstrap, topic, partitions=[1], per_second=300) as load:
        # The first broker has closed three segments, the third one: its end lies within the second of those.
        first.daemon.freeze()
        load.write(0, 3 * MIB + MIB // 4)
        eventually(lambda: len(third.segments(topic, 0)) == 2, lambda: cluster.describe(topic, 0))
        first.daemon.pause_in_mid_work()
        first.daemon.thaw()
        first.daemon.await_frozen()
        assert cluster.tiered_end(topic, 0) == 0
        zombie_end, third_end = first.segments(topic, 0)[-1], third.segments(topic, 0)[-1]
        assert third_end < zombie_end

        cluster.prefer(topic, 0, 3, 1, 2)
        cluster.await_tiered(topic, 0, third_end, epoch=1)
        first.daemon.thaw()
        eventually(
            lambda: "fenced" in (first.daemon.partition(topic, 0).get("last_refusal") or ""),
            lambda: f"the zombie says {first.daemon.partition(topic, 0)}",
        )
        assert cluster.tiered_end(topic, 0) == third_end
        eventually(
            lambda: first.daemon.partition(topic, 0)["problem"] is None,
            lambda: f"what another broker leads is still this one's problem: {first.daemon.partition(topic, 0)}",
        )

        # It leads again, in an epoch of its own: it goes on in the middle of its second segment.
        cluster.prefer(topic, 0, 1, 3, 2)
        cluster.await_tiered(topic, 0, zombie_end, epoch=2)
        cluster.await_tiered(topic, 1, 1)
    cluster.audit(topic, load.told, partitions=2)


def test_two_daemons_beside_one_broker_double_nothing_and_the_operator_is_told(cluster: Cluster) -> None:
    topic, node = "twice", cluster.nodes[2]
    # Not tiered by Kafka itself: both hold its segments in one spool.
    cluster.create(topic, {}, replicas=[[2, 3, 1], [2, 1, 3]])
    with (
        Load(cluster.bootstrap, topic, partitions=[0, 1]) as load,
        cluster.another_daemon(node.node_id) as another,
    ):

        def commits() -> list[int]:
            found = (daemon.events("committed") for daemon in (node.daemon, another))
            return [sum(event["topic"] == topic for event in events) for events in found]

        eventually(lambda: min(commits()) >= 1, lambda: f"commits of the two daemons: {commits()}")
        eventually(
            lambda: any(f"(process {node.daemon.pid})" in problem for problem in another.status()["problems"]),
            lambda: f"the second daemon says {another.status()['problems']}",
        )
        assert not any("another Floeberg" in problem for problem in node.daemon.status()["problems"])
        another.kill()
        for partition in range(2):
            cluster.await_more(topic, partition)
    spool = node.log_dir.with_name(node.log_dir.name + ".floeberg-spool")
    ends = {partition: node.segments(topic, partition)[-1] for partition in range(2)}
    for partition, end in ends.items():
        cluster.await_tiered(topic, partition, end)
    eventually(
        lambda: not list(spool.glob(f"{topic}/*/*")), lambda: f"left in the spool: {list(spool.glob(f'{topic}/*/*'))}"
    )
    cluster.audit(topic, load.told, partitions=2)
    assert SEGMENT_BYTES[2] < load.told.record_count * 1_000, "several segments were closed"
