"""What was committed is counted where it is: every byte of the log once, by the loop whose commit it was."""

from __future__ import annotations

import shutil
from dataclasses import replace

from engine.topic_partition import TopicIdPartition
from tests.tiering.tiering_world import STRINGS, TieringWorld
from topics.topic_totals import TopicTotals

VALUES = [b"x" * 500] * 100


def log_bytes(world: TieringWorld, *partitions: TopicIdPartition) -> int:
    return sum(path.stat().st_size for one in partitions for path in world.broker.directory(one).glob("*.log"))


def parquet_bytes(world: TieringWorld) -> int:
    return sum(path.stat().st_size for path in (world.root / "data" / "warehouse").rglob("p=*/*.parquet"))


def test_slices_of_a_growing_segment_add_up_to_its_bytes_and_files_to_theirs(world: TieringWorld) -> None:
    partitions = world.broker.create_topic("orders", partitions=2)
    loop = world.loop(rules=(replace(STRINGS, freshness_ms=10**9),))
    for _ in range(5):
        world.broker.append(partitions[0], VALUES)
        world.broker.append(partitions[1], VALUES[:7])
        loop.cycle()
        world.clock.ahead_ms += 10**9
        assert loop.cycle().commits == 1
    world.broker.append(partitions[0], VALUES)
    world.broker.roll(partitions[0])
    loop.cycle()
    totals = loop.totals["orders"]
    assert totals.log_bytes == log_bytes(world, *partitions)
    assert totals.parquet_bytes == parquet_bytes(world)
    assert (totals.typed_rows, totals.raw_rows, totals.undecodable_rows) == (635, 0, 0)


def test_each_topic_has_its_own_and_one_that_is_gone_has_none(world: TieringWorld) -> None:
    (orders,), (clicks,) = (world.broker.create_topic(name, native=True) for name in ("orders", "clicks"))
    world.broker.append_segment(orders, VALUES)
    world.broker.append_segment(clicks, [*VALUES[:3], b"\xff"])
    loop = world.loop()
    loop.cycle()
    assert loop.totals["orders"].log_bytes == log_bytes(world, orders)
    assert (loop.totals["clicks"].typed_rows, loop.totals["clicks"].undecodable_rows) == (3, 1)
    shutil.rmtree(world.broker.directory(orders))
    loop.cycle()
    assert set(loop.totals) == {"clicks"}


def test_range_that_two_loops_have_ready_is_counted_by_the_one_that_committed_it(world: TieringWorld) -> None:
    (orders,) = world.broker.create_topic("orders")
    world.broker.append_segment(orders, VALUES)
    one, two = world.loop(), world.loop()
    one.cycle()
    two.cycle()
    world.broker.append_segment(orders, VALUES)
    two.cycle()
    one.cycle()
    counted = [loop.totals.get("orders", TopicTotals()).log_bytes for loop in (one, two)]
    assert sum(counted) == log_bytes(world, orders)
    assert all(counted)


def test_offsets_that_kafka_deleted_first_are_counted_and_their_bytes_are_not(world: TieringWorld) -> None:
    (orders,) = world.broker.create_topic("orders")
    world.broker.append_segment(orders, VALUES)
    world.loop().cycle()
    shutil.rmtree(world.spool_dir, ignore_errors=True)
    for _ in range(2):
        world.broker.append_segment(orders, VALUES)
    for _ in range(2):
        world.broker.delete_oldest_segment(orders)
    loop = world.loop()
    loop.cycle()
    assert loop.totals["orders"].skipped_offsets == 100
    assert loop.totals["orders"].log_bytes == log_bytes(world, orders)
