"""The clock goes back by a day and forth by a year: no wait is stuck, negative or over, no table unreadable."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Self

import pyiceberg.table.update as iceberg_updates
import pytest

from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.tiering.tiering_world import STRINGS, TieringWorld, ranges_of, report_of
from tiering.planner import Waiting

DAY_MS = 86_400_000
JUMPS_MS = (-DAY_MS, 365 * DAY_MS)


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


@pytest.fixture
def orders(world: TieringWorld) -> TopicIdPartition:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(0, 10))
    world.broker.append(partition, values(10, 15))
    return partition


class WallClock:
    """The wall clock of this process, ours and the libraries', ``jump_ms`` off; the monotonic one goes on."""

    def __init__(self, world: TieringWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jump_ms = 0
        real_time, real_ns, clock = time.time, time.time_ns, self

        class Shifted(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls.fromtimestamp(time.time(), tz)

        monkeypatch.setattr(time, "time", lambda: real_time() + clock.jump_ms / 1000)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + clock.jump_ms * 1_000_000)
        monkeypatch.setattr(iceberg_updates, "datetime", Shifted)


@pytest.fixture
def wall(world: TieringWorld, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(world, monkeypatch)


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_lag_and_freshness_go_by_what_has_truly_passed(
    world: TieringWorld, orders: TopicIdPartition, wall: WallClock, jump_ms: int
) -> None:
    loop = world.loop(rules=(replace(STRINGS, freshness_ms=10**9),))
    loop.cycle()
    wall.jump_ms = jump_ms
    report = loop.cycle()
    assert ranges_of(report, orders) == []
    assert 0 <= report_of(report, orders).status.lag_ms < 60_000
    world.clock.ahead_ms += 10**9
    assert ranges_of(loop.cycle(), orders) == [(10, 15)]
    assert report_of(loop.cycle(), orders).status.lag_ms == 0


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_partition_that_waits_for_its_next_try_waits_no_longer_and_no_less(
    world: TieringWorld, orders: TopicIdPartition, wall: WallClock, jump_ms: int
) -> None:
    class Failing(InterferingWorkers):
        calls = 0

        def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
            self.calls += 1
            return ((key, Unavailable("the warehouse does not answer")) for key in tasks)

    failing = Failing()
    loop = world.loop(workers=failing)
    for _ in range(3):
        loop.cycle()
    wall.jump_ms = jump_ms
    waiting = report_of(loop.cycle(), orders).waiting
    assert waiting is not None
    assert (waiting.kind, failing.calls) == (Waiting.RETRY, 3)
    world.clock.ahead_ms += 30_000
    loop.cycle()
    assert failing.calls == 4


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_segment_that_is_rolled_around_a_jump_is_seen(
    world: TieringWorld, orders: TopicIdPartition, wall: WallClock, jump_ms: int
) -> None:
    loop = world.loop()
    loop.cycle()
    wall.jump_ms = jump_ms
    loop.cycle()
    world.broker.roll(orders)
    assert ranges_of(loop.cycle(), orders) == [(10, 15)]


def test_table_stays_in_the_order_that_readers_insist_on(
    world: TieringWorld, orders: TopicIdPartition, wall: WallClock
) -> None:
    """Java readers refuse a table whose snapshots, or whose last change, go back by more than a minute."""
    loop = world.loop()
    for jump_ms in (0, -DAY_MS, 365 * DAY_MS, 0, -DAY_MS):
        wall.jump_ms = jump_ms
        world.broker.append_segment(orders, values(15, 20))
        assert loop.cycle().commits == 1
        world.writer().add_schemas(world.table(orders), {1000 + abs(jump_ms): "kept with the table"})
        metadata = world.catalog.load_table(world.table(orders).identifier).metadata
        log_ms = [entry.timestamp_ms for entry in metadata.snapshot_log]
        older_ms = [entry.timestamp_ms for entry in metadata.metadata_log]
        assert log_ms == sorted(log_ms)
        assert older_ms == sorted(older_ms)
        assert metadata.last_updated_ms >= max(log_ms[-1], older_ms[-1])
    assert world.offsets(orders) == list(range(world.tiered_end(orders)))
