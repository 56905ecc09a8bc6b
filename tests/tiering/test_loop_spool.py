"""Between ready and committed: the spool holds what Kafka's retention would take, within its bound."""

from __future__ import annotations

import shutil

import pytest

from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.tiering_limits import TieringLimits


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


class FailingWorkers(InterferingWorkers):
    """Every rewrite fails, as with a full warehouse."""

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        return ((key, Unavailable("the warehouse is full")) for key in tasks)


@pytest.fixture
def orders(world: TieringWorld) -> TopicIdPartition:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(0, 10))
    world.broker.append_segment(partition, values(10, 20))
    return partition


def test_ready_segments_are_held_until_they_are_committed(world: TieringWorld, orders: TopicIdPartition) -> None:
    failing = world.loop(workers=FailingWorkers())
    report = failing.cycle()
    assert world.spooled_files() == [f"{0:020d}-{10:020d}.log", f"{10:020d}-{20:020d}.log"]
    assert report_of(report, orders).status.spool_bytes > 0
    assert isinstance(report_of(report, orders).problem, Unavailable)
    loop = world.loop()
    loop.cycle()
    loop.cycle()
    assert world.spooled_files() == []


def test_segments_that_kafka_deletes_meanwhile_reach_the_table(world: TieringWorld, orders: TopicIdPartition) -> None:
    world.loop(workers=FailingWorkers()).cycle()
    world.broker.append_segment(orders, values(20, 30))
    world.broker.delete_oldest_segment(orders)
    world.broker.delete_oldest_segment(orders)
    report = world.loop().cycle()
    assert ranges_of(report, orders) == [(0, 10), (10, 20), (20, 30)]
    assert report_of(report, orders).status.skipped_offsets == 0
    assert world.offsets(orders) == list(range(30))


def test_segments_of_a_deleted_topic_are_finished_from_the_spool(world: TieringWorld, orders: TopicIdPartition) -> None:
    world.loop(workers=FailingWorkers()).cycle()
    world.broker.port.delete_topic("orders")
    shutil.rmtree(world.broker.directory(orders))
    assert ranges_of(world.loop().cycle(), orders) == [(0, 10), (10, 20)]
    assert world.offsets(orders) == list(range(20))


def test_nothing_is_held_in_native_mode(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("native", native=True)
    world.broker.append_segment(partition, values(0, 10))
    report = world.loop(workers=FailingWorkers()).cycle()
    assert world.spooled_files() == []
    assert report_of(report, partition).status.native
    assert report_of(report, partition).status.at_risk_bytes == 0


def test_topic_whose_copies_are_turned_off_is_held_again(world: TieringWorld) -> None:
    """KIP-950: tiered storage stays readable, and local segments fall to the topic's own retention."""
    (partition,) = world.broker.create_topic("native", native=True, copy_disabled=True)
    world.broker.append_segment(partition, values(0, 10))
    report = world.loop(workers=FailingWorkers()).cycle()
    assert world.spooled_files() == [f"{0:020d}-{10:020d}.log"]
    assert not report_of(report, partition).status.native


def test_topic_over_the_bound_is_reported_at_risk(world: TieringWorld, orders: TopicIdPartition) -> None:
    size_bytes = (world.broker.directory(orders) / f"{0:020d}.log").stat().st_size
    limits = TieringLimits(spool_max_bytes=size_bytes, lag_interval_ms=0)
    report = world.loop(workers=FailingWorkers(), limits=limits).cycle()
    assert world.spooled_files() == [f"{0:020d}-{10:020d}.log"]
    assert report_of(report, orders).status.at_risk_bytes > 0
    assert not report.is_good


def test_spool_that_is_lost_costs_no_record_that_kafka_has(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop(workers=FailingWorkers())
    loop.cycle()
    shutil.rmtree(world.spool_dir)
    assert ranges_of(world.loop().cycle(), orders) == [(0, 10), (10, 20)]


def test_link_that_is_lost_under_a_running_loop_is_made_again(world: TieringWorld, orders: TopicIdPartition) -> None:
    failing = True

    class OnceFailing(FailingWorkers):
        def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
            return super().rewrite(tasks) if failing else InterferingWorkers().rewrite(tasks)

    loop = world.loop(workers=OnceFailing())
    loop.cycle()
    failing = False
    for path in world.spool_dir.glob("*/*/*.log"):
        path.unlink()
    loop.cycle()
    loop.cycle()
    assert world.offsets(orders) == list(range(20))


def test_spool_that_cannot_be_written_is_a_problem_and_tiering_goes_on(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    world.spool_dir.write_text("a file where the folder should be")
    report = world.loop().cycle()
    assert ranges_of(report, orders) == [(0, 10), (10, 20)]
    assert report.problems
    assert report_of(report, orders).status.at_risk_bytes > 0
