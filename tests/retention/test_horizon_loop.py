"""The loop that moves horizons, beside tiering's: what it records when, and what leaves the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog

from engine.topic_partition import TopicIdPartition
from retention.horizon_limits import HorizonLimits
from retention.horizon_loop import HorizonLoop
from retention.horizon_planner import StayReason
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS
from tests.tiering.tiering_world import STRINGS, TieringWorld
from tiering.tiering_limits import TieringLimits
from topics.retention_rule import Keep, RetentionRule
from topics.topic_rule import TopicRule

TEN = [b"value"] * 10
TOPICS_TURN_MS = 31_000
SELDOM_MS = 10_000_000
EVER_YOUNG_MS = 100 * 365 * 86_400_000


@dataclass
class Daemon:
    """Tiering and horizons, taking turns in the test's own thread; starts with nothing in memory."""

    world: TieringWorld
    rule: TopicRule
    limits: HorizonLimits = field(default_factory=lambda: HorizonLimits(move_interval_ms=0))

    def __post_init__(self) -> None:
        writer = self.world.writer()
        limits = TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0)
        self.tiering = self.world.loop(rules=(self.rule,), limits=limits, writer=writer)
        self.horizons = HorizonLoop(writer=writer, rules=(self.rule,), clock=self.world.clock, limits=self.limits)
        self.tiering.on_cycle(lambda report: self.horizons.note_topics(report.led, report.partitions))

    def turn(self) -> int:
        """A cycle of tiering, and how many tables' horizons are moved after it."""
        self.tiering.cycle()
        return self.horizons.turn()


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path / "world")


def keeping(*, stream: Keep | None = None, table: Keep | None = None) -> TopicRule:
    return TopicRule(pattern="*", value_format="string", retention=RetentionRule(stream=stream, table=table or Keep()))


def created(world: TieringWorld, *, segments: int = 3, native: bool = False) -> TopicIdPartition:
    """A topic of one partition with closed segments of ten records, each record a millisecond younger."""
    (partition,) = world.broker.create_topic("orders", native=native)
    for _ in range(segments):
        world.broker.append_segment(partition, TEN)
    return partition


def begins_at(world: TieringWorld, partition: TopicIdPartition, log_start: int) -> None:
    """Kafka deletes what lies below, which no file shows; the topic's turn comes, and the broker is asked."""
    world.broker.port.set_view(partition, log_start_offset=log_start)
    world.clock.ahead_ms += TOPICS_TURN_MS


def horizons(world: TieringWorld, partition: TopicIdPartition) -> tuple[int, int]:
    line = world.table(partition).ledger[partition.partition]
    return line.log_start, line.table_start


def snapshots(world: TieringWorld, partition: TopicIdPartition) -> int:
    return len(world.catalog.load_table(world.table(partition).identifier).metadata.snapshots)


@pytest.mark.parametrize("native", [False, True])
def test_brokers_log_start_becomes_the_streams_horizon(world: TieringWorld, native: bool) -> None:
    partition, daemon = created(world, native=native), Daemon(world, STRINGS)
    daemon.turn()
    assert horizons(world, partition) == (0, 0)
    begins_at(world, partition, 13)
    assert daemon.turn() == 1
    assert horizons(world, partition) == (13, 0)
    assert world.offsets(partition) == list(range(30)), "the table keeps for ever what nothing bounds"


def test_log_start_beyond_what_is_tiered_is_recorded_as_far_as_that_and_then_with_the_next_append(
    world: TieringWorld,
) -> None:
    partition, daemon = created(world, native=True), Daemon(world, STRINGS)
    daemon.turn()
    begins_at(world, partition, 35)
    daemon.turn()
    assert horizons(world, partition) == (30, 0)
    world.broker.append_segment(partition, TEN)
    daemon.tiering.cycle()
    table = world.table(partition)
    assert (table.ledger[0].log_start, table.ledger[0].end) == (35, 40)
    assert [(gap.start, gap.end) for gap in table.skipped[0]] == [(30, 35)]


def test_horizon_that_moves_all_the_time_is_recorded_with_appends_or_once_in_a_while(world: TieringWorld) -> None:
    partition, daemon = created(world), Daemon(world, STRINGS, HorizonLimits(move_interval_ms=SELDOM_MS))
    daemon.turn()
    before = snapshots(world, partition)
    for log_start in range(1, 6):
        begins_at(world, partition, log_start)
        daemon.turn()
    assert snapshots(world, partition) == before
    world.broker.append_segment(partition, TEN)
    daemon.turn()
    assert (horizons(world, partition), snapshots(world, partition)) == ((5, 0), before + 1)
    begins_at(world, partition, 9)
    daemon.turn()
    assert horizons(world, partition) == (5, 0)
    world.clock.ahead_ms += SELDOM_MS
    assert daemon.turn() == 1
    assert (horizons(world, partition), snapshots(world, partition)) == ((9, 0), before + 2)


def test_all_partitions_of_a_table_are_moved_in_one_commit(world: TieringWorld) -> None:
    partitions = world.broker.create_topic("orders", partitions=3)
    for partition in partitions:
        world.broker.append_segment(partition, TEN)
    daemon = Daemon(world, STRINGS)
    daemon.turn()
    before = snapshots(world, partitions[0])
    for partition in partitions:
        begins_at(world, partition, 4)
    assert daemon.turn() == 1
    assert snapshots(world, partitions[0]) == before + 1
    assert [line.log_start for line in world.table(partitions[0]).ledger.values()] == [4, 4, 4]


def test_old_files_leave_the_table_and_consumers_go_on_reading_them(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, daemon = created(world), Daemon(world, keeping(table=Keep(age_ms=1000)))
    monkeypatch.setattr(world.clock, "now_ms", lambda: FIRST_TIMESTAMP_MS + 1015)
    assert daemon.turn() == 1
    assert horizons(world, partition) == (0, 10)
    assert world.offsets(partition) == list(range(10, 30))
    monkeypatch.setattr(world.clock, "now_ms", lambda: FIRST_TIMESTAMP_MS + 2000)
    daemon.turn()
    assert (horizons(world, partition), world.offsets(partition)) == ((0, 30), [])
    begins_at(world, partition, 20)
    daemon.turn()
    line = world.table(partition).ledger[0]
    assert (line.log_start, line.held.start, line.gone_digest.record_count) == (20, 20, 20)


def test_what_the_stream_alone_had_leaves_though_its_log_start_went_with_an_append(world: TieringWorld) -> None:
    partition = created(world)
    daemon = Daemon(world, keeping(table=Keep(size_bytes=1)), HorizonLimits(move_interval_ms=SELDOM_MS))
    daemon.turn()
    assert horizons(world, partition) == (0, 20)
    begins_at(world, partition, 15)
    daemon.turn()
    world.broker.append_segment(partition, TEN)
    daemon.turn()
    line = world.table(partition).ledger[0]
    assert (line.log_start, line.gone) == (15, None)
    world.clock.ahead_ms += SELDOM_MS
    daemon.turn()
    assert world.table(partition).ledger[0].held.start == 10


def test_table_bytes_leave_as_many_as_are_kept(world: TieringWorld) -> None:
    partition = created(world, segments=4)
    daemon = Daemon(world, keeping(table=Keep(size_bytes=1)))
    daemon.turn()
    assert horizons(world, partition) == (0, 30)
    assert world.offsets(partition) == list(range(30, 40))


def test_stream_of_its_own_setting_passes_whole_files_and_not_what_the_broker_says(world: TieringWorld) -> None:
    partition = created(world)
    daemon = Daemon(world, keeping(stream=Keep(size_bytes=1)))
    begins_at(world, partition, 5)
    daemon.turn()
    assert horizons(world, partition) == (20, 0)


def test_stream_that_is_kept_for_ever_outlives_the_brokers_log(world: TieringWorld) -> None:
    partition = created(world)
    daemon = Daemon(world, keeping(stream=Keep()))
    daemon.turn()
    begins_at(world, partition, 25)
    daemon.turn()
    assert horizons(world, partition) == (0, 0)


def test_stream_setting_of_a_native_topic_is_not_used_and_said_so_once(world: TieringWorld) -> None:
    partition = created(world, native=True)
    daemon = Daemon(world, keeping(stream=Keep(size_bytes=1)))
    begins_at(world, partition, 5)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            daemon.turn()
    assert horizons(world, partition) == (5, 0)
    assert [entry["event"] for entry in logged].count("stream_retention_not_used") == 1


def test_files_beyond_a_commits_bound_leave_with_the_next(world: TieringWorld) -> None:
    partition = created(world, segments=4)
    limits = HorizonLimits(move_interval_ms=0, files_per_move=2)
    daemon = Daemon(world, keeping(table=Keep(size_bytes=1)), limits)
    daemon.turn()
    assert horizons(world, partition) == (0, 20)
    daemon.turn()
    assert horizons(world, partition) == (0, 30)


def test_next_to_go_is_reported_with_its_time(world: TieringWorld) -> None:
    partition = created(world)
    daemon = Daemon(world, keeping(table=Keep(age_ms=EVER_YOUNG_MS)))
    assert daemon.turn() == 0
    found = daemon.horizons.of(partition)
    assert found is not None
    assert (found.log_start, found.table_start) == (0, 0)
    assert found.staying is not None
    assert (found.staying.file.range.end, found.staying.reason) == (10, StayReason.YOUNG)
    assert found.staying.due_ms == FIRST_TIMESTAMP_MS + 9 + EVER_YOUNG_MS


def test_file_that_can_not_be_read_keeps_its_tables_horizon_and_is_reported(world: TieringWorld) -> None:
    partition = created(world)
    Daemon(world, STRINGS).turn()
    begins_at(world, partition, 30)
    (first, *_) = sorted((world.root / "data").rglob("*.parquet"))
    first.unlink()
    daemon = Daemon(world, keeping(table=Keep(size_bytes=1)))
    for _ in range(2):
        assert daemon.turn() == 0
    (problem,) = daemon.horizons.problems()
    assert first.name in str(problem)
    assert horizons(world, partition)[1] == 0


def test_table_that_somebody_else_broke_is_left_alone(world: TieringWorld) -> None:
    partition = created(world)
    Daemon(world, STRINGS).turn()
    table = world.catalog.load_table(world.table(partition).identifier)
    table.delete("kafka_offset >= 20")
    daemon = Daemon(world, keeping(table=Keep(size_bytes=1)))
    assert daemon.turn() == 0
    assert daemon.horizons.of(partition) is None
