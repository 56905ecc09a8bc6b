"""What waits and may, what waits and should not, and what it waits for."""

from __future__ import annotations

from structlog.testing import capture_logs

from floeberg.daemon.status_board import StatusBoard
from serving.status.waiting_words import waiting_words
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS
from tests.tiering.tiering_world import TieringWorld
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from tiering.watcher import CREATED_WITHIN_MS
from topics.partition_status import PartitionStatus
from topics.topic_rule import TopicRule

CLOSED = (TopicRule(pattern="*", value_format="string", freshness_ms=None),)
FRESH = (TopicRule(pattern="*", value_format="string", freshness_ms=60_000),)
WEEK_MS = 7 * 86_400_000


def shown(world: TieringWorld, loop: TieringLoop) -> PartitionStatus:
    """As the daemon's status has it."""
    board = StatusBoard(version="test", clock=world.clock, limits=TieringLimits())
    board.note_cycle(loop.cycle())
    (partition,) = board.status().partitions
    return partition


def test_records_of_an_open_segment_wait_in_words_and_are_not_behind(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.port.set_topic_config("orders", {"segment.bytes": str(1 << 30), "segment.ms": str(WEEK_MS)})
    world.clock.ahead_ms += FIRST_TIMESTAMP_MS - world.clock.now_ms()
    world.broker.append(partition, [b"x" * 2048] * 4)
    loop = world.loop(rules=CLOSED)
    seen = shown(world, loop)
    assert (seen.lag_records, seen.open_records, seen.behind_records, seen.behind_ms) == (4, 4, 0, 0)
    assert seen.waiting is not None
    assert seen.waiting.startswith("open segment 8.1 KiB of 1.0 GiB, closes in 6 d 23 h")
    world.clock.ahead_ms += WEEK_MS
    seen = shown(world, loop)
    assert seen.waiting == "open segment 8.1 KiB of 1.0 GiB, closes with the next record"
    assert seen.behind_ms == 0


def test_closed_segment_that_can_not_be_tiered_is_behind_from_then_on(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [b"a"] * 3)
    world.broker.append(partition, [b"b"])
    segment = min(world.broker.directory(partition).glob("*.log"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + b"\xff")
    loop = world.loop(rules=CLOSED)
    assert shown(world, loop).problem_kind == "corrupt", "in the cycle in which it is found"
    world.clock.ahead_ms += 90_000
    seen = shown(world, loop)
    assert 90_000 <= seen.behind_ms < 150_000
    assert (seen.behind_records, seen.open_records) == (4, 0)
    segment.write_bytes(whole)
    world.clock.ahead_ms += TieringLimits().stopped_retry_ms
    seen = shown(world, loop)
    assert (seen.behind_ms, seen.behind_records, seen.lag_records) == (0, 0, 1)
    # What closes later has not been behind since then.
    world.broker.roll(partition)
    seen = shown(world, loop)
    assert (seen.behind_ms, seen.lag_records) == (0, 0)


def test_records_are_behind_once_they_have_waited_longer_than_they_may(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append(partition, [b"a"])
    loop = world.loop(rules=FRESH)
    seen = shown(world, loop)
    assert (seen.lag_records, seen.behind_ms) == (1, 0)
    segment = min(world.broker.directory(partition).glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    world.clock.ahead_ms += 75_000
    seen = shown(world, loop)
    assert 15_000 <= seen.behind_ms < 60_000
    assert seen.behind_records == 1


def test_words_need_no_bounds(world: TieringWorld) -> None:
    partition = PartitionStatus(topic="t", partition=0, waiting="nothing closed", open_bytes=100)
    assert waiting_words(partition, now_ms=0) == "open segment 100 B, waits for its end"
    assert waiting_words(PartitionStatus(topic="t", partition=0), now_ms=0) is None


def test_topic_that_is_being_created_is_no_problem_and_one_that_stays_so_is(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    named = world.broker.directory(partition) / "partition.metadata"
    text = named.read_text()
    named.unlink()
    loop = world.loop(rules=CLOSED)
    with capture_logs() as told:
        assert loop.cycle().problems == ()
        named.write_text(text)
        loop.cycle()
    assert [line for line in told if line["log_level"] != "info"] == []
    named.unlink()
    another = world.loop(rules=CLOSED)
    another.cycle()
    world.clock.ahead_ms += CREATED_WITHIN_MS
    (problem,) = another.cycle().problems
    assert "has no partition.metadata yet" in str(problem)


def test_first_cycle_says_in_one_line_what_it_found(world: TieringWorld) -> None:
    first, _ = world.broker.create_topic("orders", partitions=2)
    world.broker.create_topic("payments", native=True)
    world.broker.append_segment(first, [b"a"])
    loop = world.loop(rules=CLOSED)
    with capture_logs() as told:
        loop.cycle()
        loop.cycle()
    (found,) = [line for line in told if line["event"] == "found"]
    assert {name: found[name] for name in ("topics", "partitions", "led_here", "tables", "native_topics")} == {
        "topics": 2,
        "partitions": 3,
        "led_here": 3,
        "tables": 1,
        "native_topics": 1,
    }
    assert len([line for line in told if line["event"] == "committed"]) == 1
