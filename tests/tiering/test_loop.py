"""Whole cycles over segment files: what is committed, when, and what is said where nothing is."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from engine.errors import Corrupt, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tests.support.counted_reads import bytes_read
from tests.support.interfering_workers import (
    InterferingWorkers,
    ReadBackAnswers,
    ReadBackTasks,
    RewriteAnswers,
    RewriteTasks,
)
from tests.tiering.tiering_world import STRINGS, TieringWorld, ranges_of, report_of
from tiering.cycle_report import CycleReport
from tiering.planner import Waiting
from tiering.tiering_limits import TieringLimits


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


def rows(start: int, end: int) -> list[tuple[int, str]]:
    return [(number, f"value {number}") for number in range(start, end)]


@pytest.fixture
def orders(world: TieringWorld) -> TopicIdPartition:
    """One partition, segments [0, 10) and [10, 20) closed, 5 records in the active one."""
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(0, 10))
    world.broker.append_segment(partition, values(10, 20))
    world.broker.append(partition, values(20, 25))
    return partition


def test_closed_segments_are_in_the_table_after_one_cycle(world: TieringWorld, orders: TopicIdPartition) -> None:
    report = world.loop().cycle()
    assert ranges_of(report, orders) == [(0, 10), (10, 20)]
    assert (report.commits, report.files, report.records) == (1, 2, 20)
    assert world.rows(orders) == rows(0, 20)
    assert report.is_good
    seen = report_of(report, orders)
    status = seen.status
    assert (status.tiered_start, status.tiered_end, status.stable_end, status.rows) == (0, 20, 25, 20)
    assert seen.waiting is not None
    assert seen.waiting.kind is Waiting.NOTHING_CLOSED


def test_second_cycle_has_nothing_to_do_and_the_next_segment_follows(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    loop = world.loop()
    loop.cycle()
    assert loop.cycle().commits == 0
    world.broker.roll(orders)
    assert ranges_of(loop.cycle(), orders) == [(20, 25)]
    assert world.rows(orders) == rows(0, 25)


def test_several_topics_and_partitions_get_one_commit_a_table(world: TieringWorld) -> None:
    partitions = [*world.broker.create_topic("a", partitions=3), *world.broker.create_topic("b.c", partitions=2)]
    for partition in partitions:
        world.broker.append_segment(partition, values(0, 4))
    report = world.loop().cycle()
    assert report.commits == 2
    assert all(world.rows(partition) == rows(0, 4) for partition in partitions)


def test_topic_that_no_rule_selects_is_left_alone(world: TieringWorld, orders: TopicIdPartition) -> None:
    report = world.loop(rules=(replace(STRINGS, pattern="payments.*"),)).cycle()
    assert (report.partitions, report.commits) == ((), 0)
    assert world.writer().open("orders", orders.topic_id) is None


def test_open_transaction_is_waited_for_and_named(world: TieringWorld, orders: TopicIdPartition) -> None:
    world.broker.port.set_view(orders, last_stable_offset=15)
    report = world.loop().cycle()
    assert ranges_of(report, orders) == [(0, 10)]
    waiting = report_of(report, orders).waiting
    assert waiting is not None
    assert (waiting.kind, waiting.offset) == (Waiting.OPEN_TRANSACTION, 15)


def test_partition_led_elsewhere_is_left_to_that_broker(world: TieringWorld, orders: TopicIdPartition) -> None:
    world.broker.port.set_view(orders, leader_id=9)
    report = world.loop().cycle()
    assert report.commits == 0
    assert report_of(report, orders).waiting is not None
    assert not report_of(report, orders).status.leader_here


def test_leader_that_comes_back_continues_where_the_other_ended(world: TieringWorld, orders: TopicIdPartition) -> None:
    ours, theirs = world.loop(), world.loop()
    world.broker.port.set_view(orders, leader_id=9)
    ours.cycle()
    world.broker.port.set_view(orders, leader_id=1, leader_epoch=1)
    theirs.cycle()
    world.broker.append_segment(orders, values(25, 30))
    assert ranges_of(ours.cycle(), orders) == [(20, 30)]
    assert world.rows(orders) == rows(0, 30)


def test_two_loops_that_both_believe_they_own_a_partition_commit_each_record_once(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    one, two = world.loop(), world.loop()
    one.cycle()
    two.cycle()
    world.broker.roll(orders)
    # Both know the ledger at 20; the slower one finds the range there already.
    one.cycle()
    two.cycle()
    assert world.rows(orders) == rows(0, 25)
    world.broker.append_segment(orders, values(25, 30))
    two.cycle()
    one.cycle()
    one.cycle()
    assert world.rows(orders) == rows(0, 30)


def test_owner_with_an_older_epoch_is_fenced_and_says_so(world: TieringWorld, orders: TopicIdPartition) -> None:
    old = world.loop()
    world.broker.port.set_view(orders, leader_epoch=3)
    world.loop().cycle()
    world.broker.append_segment(orders, values(25, 30))
    world.broker.port.set_view(orders, leader_epoch=2)
    report = old.cycle()
    assert report.commits == 0
    waiting = report_of(report, orders).waiting
    assert waiting is not None
    assert waiting.kind is Waiting.NEWER_OWNER


def test_offsets_kafka_deleted_first_are_recorded_as_skipped(world: TieringWorld, orders: TopicIdPartition) -> None:
    world.loop().cycle()
    world.broker.append_segment(orders, values(25, 30))
    world.broker.append_segment(orders, values(30, 40))
    for _ in range(3):
        world.broker.delete_oldest_segment(orders)
    report = world.loop().cycle()
    assert ranges_of(report, orders) == [(30, 40)]
    assert report_of(report, orders).status.skipped_offsets == 10
    assert world.table(orders).skipped == {0: (OffsetRange(start=20, end=30),)}
    assert world.rows(orders) == rows(0, 20) + rows(30, 40)


def test_active_segments_stable_records_are_tiered_once_they_are_old(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    freshness_ms = 10**9  # never comes round while a test runs
    loop = world.loop(rules=(replace(STRINGS, freshness_ms=freshness_ms),))
    assert ranges_of(loop.cycle(), orders) == [(0, 10), (10, 20)]
    assert loop.cycle().commits == 0
    world.clock.ahead_ms += freshness_ms
    assert ranges_of(loop.cycle(), orders) == [(20, 25)]
    world.broker.append_segment(orders, values(25, 30))
    assert ranges_of(loop.cycle(), orders) == [(25, 30)]
    assert world.rows(orders) == rows(0, 30)


@pytest.mark.parametrize("native", [True, False])
def test_growing_segment_is_read_once_in_slices_and_its_rest_when_it_is_closed(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    """Restarts between slices included: what was read is found by Kafka's index."""
    (who,) = world.broker.create_topic("orders", native=native)
    loop = world.loop(rules=(replace(STRINGS, freshness_ms=10**9),))
    read, each = bytes_read(monkeypatch), [b"x" * 500] * 100
    for turn in range(20):
        world.broker.append(who, each)
        loop.cycle()
        world.clock.ahead_ms += 10**9
        assert ranges_of(loop.cycle(), who) == [(turn * 100, turn * 100 + 100)]
        loop = world.loop(rules=(replace(STRINGS, freshness_ms=10**9),)) if turn % 5 == 4 else loop
    segment = world.broker.directory(who) / f"{0:020d}.log"
    world.broker.append(who, each)
    world.broker.roll(who)
    assert ranges_of(loop.cycle(), who) == [(2000, 2100)]
    assert world.offsets(who) == list(range(2100))
    # A slice begins at most an entry of the index, and the batch it names, before what is new.
    assert segment.stat().st_size <= sum(read) <= 2 * segment.stat().st_size


def test_lag_counts_from_when_records_were_stable(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop()
    loop.cycle()
    world.clock.ahead_ms += 5_000
    lag_ms = report_of(loop.cycle(), orders).status.lag_ms
    assert 5_000 <= lag_ms < 60_000


def test_damaged_segment_stops_its_partition_only_and_goes_on_once_repaired(world: TieringWorld) -> None:
    bad, good = world.broker.create_topic("orders", partitions=2)
    for partition in (bad, good):
        world.broker.append_segment(partition, values(0, 10))
        world.broker.append_segment(partition, values(10, 20))
    segment = world.broker.directory(bad) / f"{10:020d}.log"
    content = segment.read_bytes()
    segment.write_bytes(content[:-2] + b"!!")
    loop = world.loop()
    report = loop.cycle()
    assert (ranges_of(report, bad), ranges_of(report, good)) == ([(0, 10)], [(0, 10), (10, 20)])
    problem = report_of(loop.cycle(), bad).problem
    assert isinstance(problem, Corrupt)
    assert (problem.partition, problem.offset) == (0, 10)
    # An operator puts a good replica's file in place of the bad one.
    segment.unlink()
    segment.write_bytes(content)
    assert loop.cycle().commits == 0
    world.clock.ahead_ms += TieringLimits().stopped_retry_ms
    assert ranges_of(loop.cycle(), bad) == [(10, 20)]
    assert report_of(loop.cycle(), bad).problem is None


def test_broker_that_is_away_fails_the_cycle_and_not_the_loop(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop()
    world.broker.port.failing = Unavailable("the broker does not answer")
    report = loop.cycle()
    assert report.problems == (world.broker.port.failing,)
    world.broker.port.failing = None
    assert ranges_of(loop.cycle(), orders) == [(0, 10), (10, 20)]


def test_log_directories_of_another_cluster_are_refused(world: TieringWorld, orders: TopicIdPartition) -> None:
    properties = world.broker.log_dir / "meta.properties"
    properties.write_text(properties.read_text().replace("fakeCluster", "elseCluster"))
    (problem,) = world.loop().cycle().problems
    assert isinstance(problem, Invalid)
    assert "elseCluster" in str(problem)


def test_topic_created_again_gets_a_table_of_its_own(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop()
    loop.cycle()
    world.broker.port.delete_topic("orders")
    directory = world.broker.directory(orders)
    directory.rename(directory.with_name("orders-0.0123456789abcdef0123456789abcdef-delete"))
    (again,) = world.broker.create_topic("orders")
    world.broker.append_segment(again, values(0, 3))
    assert ranges_of(loop.cycle(), again) == [(0, 3)]
    assert world.rows(again) == rows(0, 3)
    assert world.rows(orders) == rows(0, 20)


def test_limits_leave_the_rest_for_the_next_cycle_at_once(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop(limits=TieringLimits(max_tasks_per_cycle=1, small_range_bytes=0))
    first, second = loop.cycle(), loop.cycle()
    assert (first.more, second.more) == (True, False)
    assert ranges_of(first, orders) + ranges_of(second, orders) == [(0, 10), (10, 20)]


def test_topics_with_a_little_each_are_one_cycle_once_they_have_tables(world: TieringWorld) -> None:
    partitions = [world.broker.create_topic(f"topic-{number}")[0] for number in range(5)]
    for partition in partitions:
        world.broker.append_segment(partition, values(0, 4))
    loop = world.loop(limits=TieringLimits(max_tasks_per_cycle=2))
    assert [loop.cycle().commits for _ in range(4)] == [2, 2, 1, 0], "making a table takes as long as a large range"
    for partition in partitions:
        world.broker.append_segment(partition, values(4, 8))
    assert loop.cycle().commits == 5


def test_partitions_with_little_to_do_are_committed_before_a_large_segment_is_begun(world: TieringWorld) -> None:
    large, small = world.broker.create_topic("mixed", partitions=2)
    world.broker.append_segment(large, values(0, 200))
    world.broker.append_segment(small, values(0, 5))
    committed: list[bool] = []

    class Watching(InterferingWorkers):
        def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
            if any(task.partition == large for task in tasks.values()):
                committed.append(small.partition in world.table(small).ledger)
            return super().rewrite(tasks)

    loop = world.loop(workers=Watching(), limits=TieringLimits(small_range_bytes=2000))
    report = loop.cycle()
    assert (ranges_of(report, small), ranges_of(report, large)) == ([(0, 5)], [(0, 200)])
    assert committed == [True]


def test_work_of_a_partition_that_failed_is_suspect_until_it_succeeds(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    seen: list[tuple[bool, ...]] = []

    class Failing(InterferingWorkers):
        def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
            seen.append(tuple(task.is_suspect for task in tasks.values()))
            if len(seen) == 1:
                return ((key, Unavailable("the worker was killed")) for key in tasks)
            return super().rewrite(tasks)

        def read_back(self, tasks: ReadBackTasks) -> ReadBackAnswers:
            seen.append(tuple(task.is_suspect for task in tasks.values()))
            return super().read_back(tasks)

    loop = world.loop(workers=Failing())
    for _ in range(3):
        loop.cycle()
        world.clock.ahead_ms += 60_000
    world.broker.append_segment(orders, values(25, 30))
    assert ranges_of(loop.cycle(), orders) == [(20, 30)]
    told = [suspects for suspects in seen if suspects]
    assert (told[0][0], *told[1], *told[-2], *told[-1]) == (False, True, False, False)


def test_hurry_begins_the_next_cycle_at_once(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop(limits=TieringLimits(cycle_interval_ms=60_000))
    committed, stop = threading.Event(), threading.Event()

    def heard(report: CycleReport) -> None:
        if OffsetRange(start=20, end=25) in report.committed.get(orders, ()):
            committed.set()

    loop.on_cycle(heard)
    runner = threading.Thread(target=loop.run_forever, args=(stop,))
    runner.start()
    world.broker.roll(orders)
    loop.hurry()
    assert committed.wait(20)
    stop.set()
    loop.hurry()
    runner.join(20)
    assert not runner.is_alive()
    assert loop.log_start(orders.topic_id, 0) == 0
