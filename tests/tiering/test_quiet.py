"""A cycle works on what changed, and nothing that changes is missed. Work is counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from engine.broker import PartitionView
from engine.errors import Unavailable
from engine.table.commit.writer import TableWriter
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.status_board import StatusBoard
from tests.tiering.broker_on_disk import NODE_ID, let_settle
from tests.tiering.tiering_world import STRINGS, TieringWorld, ranges_of, report_of
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

LIMITS = TieringLimits()
ELSEWHERE = NODE_ID + 1
COUNTED = (
    "tiering.watcher.list_segments",
    "tiering.watcher.scan_log_directories",
    "tiering.observer.PartitionState",
    "tiering.planner._plan_partition",
    "tiering.cycle.report_partition",
    "tiering.kept_reports.LedTopic",
    "floeberg.daemon.status_board.StatusBoard._partition_status",
)


class Work:
    """Counts, from when it is made, what is done for each partition, topic or directory that it is done for."""

    def __init__(self, world: TieringWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: Counter[str] = Counter()
        for name in COUNTED:
            monkeypatch.setattr(name, self._counting(name.rsplit(".", 1)[1], resolve_name(name)))
        monkeypatch.setattr(TableWriter, "open", self._counting("open_table", TableWriter.open))
        asked = world.broker.port.partitions

        def partitions(*args: Any, **named: Any) -> dict[TopicIdPartition, PartitionView]:
            answer = dict(asked(*args, **named))
            self.done["requests"] += 1
            self.done["described"] += len(answer)
            self.done["offsets"] += sum(view.is_answered for view in answer.values())
            return answer

        monkeypatch.setattr(world.broker.port, "partitions", partitions)

    def _counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.done[name] += 1
            return real(*args, **named)

        return counted


def fresh(freshness_ms: int | None) -> TopicRule:
    return replace(STRINGS, freshness_ms=freshness_ms)


def values(count: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(count)]


def second(world: TieringWorld, loop: TieringLoop) -> CycleReport:
    """The next cycle of a loop in which nobody hurries."""
    world.clock.ahead_ms += LIMITS.cycle_interval_ms
    return loop.cycle()


def quiet_loop(
    world: TieringWorld, rule: TopicRule = STRINGS, *, listener: Callable[[CycleReport], None] | None = None
) -> TieringLoop:
    """A loop with the limits of the program, after a minute in which nothing changed."""
    loop = world.loop(rules=(rule,), limits=LIMITS)
    if listener is not None:
        loop.on_cycle(listener)
    for _ in range(60):
        let_settle(world.broker.log_dir)
        second(world, loop)
    return loop


def seconds_until_tiered(world: TieringWorld, loop: TieringLoop, who: TopicIdPartition, *, at_most: int) -> int:
    for passed in range(1, at_most + 1):
        if ranges_of(second(world, loop), who):
            return passed
    raise AssertionError(f"nothing was tiered within {at_most} s")


@pytest.mark.parametrize("freshness_ms", [None, 5_000, 60_000])
def test_cycle_in_which_nothing_changed_and_nothing_is_due_does_nothing_for_any_partition(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch, freshness_ms: int | None
) -> None:
    board = StatusBoard(version="test", clock=world.clock, limits=LIMITS)
    partitions = world.broker.create_topic("many", partitions=300)
    for partition in partitions[:10]:
        world.broker.append_segment(partition, values(2))
    loop = quiet_loop(world, fresh(freshness_ms), listener=board.note_cycle)
    work = Work(world, monkeypatch)
    for _ in range(3):
        report = loop.cycle()
    assert work.done == {}
    assert [one.partition for one in report.partitions] == sorted(partitions)
    assert report_of(report, partitions[0]).status.tiered_end == 2
    assert board.status().partitions[0].rows == 2
    assert work.done == {"_partition_status": 300}


def test_quiet_minute_costs_a_turn_of_each_topic_and_a_few_questions(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        world.broker.create_topic(f"topic-{number}", partitions=4)
    loop = quiet_loop(world, fresh(60_000))
    work = Work(world, monkeypatch)
    most = 0
    for _ in range(60):
        before = work.done["PartitionState"]
        second(world, loop)
        most = max(most, work.done["PartitionState"] - before)
    # One topic every 2 s: its partitions, its table, its offsets; and who leads what, every 30 s.
    assert most == 4
    assert work.done["open_table"] <= 30
    assert work.done["offsets"] <= 30 * 4
    assert work.done["requests"] <= 30 + 2
    assert work.done["list_segments"] == 0


def test_checkpoints_that_the_broker_writes_among_the_partitions_make_nobody_read_them_all(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broker.create_topic("many", partitions=20)
    loop = quiet_loop(world)
    work = Work(world, monkeypatch)
    for _ in range(3):
        written = world.broker.log_dir / "replication-offset-checkpoint.tmp"
        written.write_text("0\n0\n")
        written.rename(world.broker.log_dir / "replication-offset-checkpoint")
        loop.cycle()
    # The first one made a file that was not there; it is no folder.
    assert work.done["scan_log_directories"] == 0
    (later,) = world.broker.create_topic("later")
    assert report_of(loop.cycle(), later).status.leader_here
    assert work.done["scan_log_directories"] == 1


def test_only_the_partition_that_changed_is_looked_at(world: TieringWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = world.broker.create_topic("many", partitions=50)
    loop = quiet_loop(world)
    work = Work(world, monkeypatch)
    world.broker.append_segment(partitions[7], values(3))
    report = loop.cycle()
    assert ranges_of(report, partitions[7]) == [(0, 3)]
    assert work.done["PartitionState"] == work.done["report_partition"] == work.done["offsets"] == 1
    assert [one.partition for one in report.attended] == [partitions[7]]
    assert len(report.partitions) == 50


@pytest.mark.parametrize(("freshness_ms", "at_most"), [(5_000, 7), (60_000, 62)])
def test_records_in_the_active_segment_are_in_the_table_when_they_have_waited_long_enough(
    world: TieringWorld, freshness_ms: int, at_most: int
) -> None:
    """Appending changes no directory's time."""
    partition, _ = world.broker.create_topic("orders", partitions=2)
    loop = quiet_loop(world, fresh(freshness_ms))
    for _ in range(3):
        world.broker.append(partition, values(5))
        seconds_until_tiered(world, loop, partition, at_most=at_most)


def test_records_that_come_while_others_wait_do_not_wait_longer(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    loop = quiet_loop(world, fresh(5_000))
    appended: list[int] = []
    seen = 0
    for now in range(60):
        world.broker.append(partition, values(1))
        appended.append(now)
        for _, end in ranges_of(second(world, loop), partition):
            assert now - appended[seen] <= 6
            seen = end
    assert seen >= 54


def test_records_that_followers_confirm_late_are_tiered_though_no_file_changes(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    loop = quiet_loop(world, fresh(5_000))
    world.broker.append(partition, values(5))
    world.broker.port.set_view(partition, last_stable_offset=0, high_watermark=0)
    for _ in range(10):
        assert not ranges_of(second(world, loop), partition)
    world.broker.port.set_view(partition, last_stable_offset=5, high_watermark=5)
    assert seconds_until_tiered(world, loop, partition, at_most=11) >= 1


def test_leadership_that_comes_here_is_seen_by_the_checkpoint_it_writes(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.port.set_view(partition, leader_id=ELSEWHERE)
    world.broker.append_segment(partition, values(5))
    loop = quiet_loop(world)
    assert not world.spooled_files()
    world.broker.port.set_view(partition, leader_id=NODE_ID, leader_epoch=3)
    checkpoint = world.broker.directory(partition) / "leader-epoch-checkpoint"
    checkpoint.with_suffix(".tmp").write_text("0\n1\n3 5\n")
    checkpoint.with_suffix(".tmp").rename(checkpoint)
    assert seconds_until_tiered(world, loop, partition, at_most=2)


def test_leadership_that_moves_without_a_trace_is_seen_within_half_a_minute(world: TieringWorld) -> None:
    partition, other = world.broker.create_topic("orders", partitions=2)
    world.broker.port.set_view(partition, leader_id=ELSEWHERE)
    world.broker.append_segment(partition, values(5))
    loop = quiet_loop(world)
    world.broker.port.set_view(partition, leader_id=NODE_ID)
    world.broker.port.set_view(other, leader_id=ELSEWHERE)
    assert seconds_until_tiered(world, loop, partition, at_most=31)
    assert not report_of(second(world, loop), other).status.leader_here


def test_nothing_is_planned_under_the_leadership_that_was_remembered(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    loop = quiet_loop(world)
    world.broker.append_segment(partition, values(5))
    world.broker.port.set_view(partition, leader_id=ELSEWHERE)
    report = loop.cycle()
    assert ranges_of(report, partition) == []
    assert report_of(report, partition).status.waiting_kind == "leader_elsewhere"


def test_cycle_that_breaks_off_forgets_nothing_that_it_saw(world: TieringWorld) -> None:
    grown, closed = world.broker.create_topic("orders", partitions=2)
    loop = quiet_loop(world, fresh(5_000))
    world.broker.append(grown, values(2))
    world.broker.append_segment(closed, values(3))
    world.broker.port.failing = Unavailable("the broker does not answer")
    for _ in range(4):
        assert second(world, loop).problems
        let_settle(world.broker.log_dir)
    world.broker.port.failing = None
    report = second(world, loop)
    assert ranges_of(report, closed) == [(0, 3)]
    assert ranges_of(report, grown) or seconds_until_tiered(world, loop, grown, at_most=3)


def test_what_another_daemon_committed_shows_when_the_topic_has_its_turn(world: TieringWorld, tmp_path: Path) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(5))
    world.broker.port.set_view(partition, leader_id=ELSEWHERE)
    loop = quiet_loop(world)
    assert report_of(loop.cycle(), partition).status.tiered_end is None
    world.broker.port.set_view(partition, leader_id=NODE_ID)
    assert world.loop().cycle().commits == 1
    world.broker.port.set_view(partition, leader_id=ELSEWHERE)
    for _ in range(31):
        report = second(world, loop)
    assert report_of(report, partition).status.tiered_end == 5


def test_new_table_is_told_of_by_all_partitions_of_its_topic(world: TieringWorld) -> None:
    first, *others = world.broker.create_topic("orders", partitions=3)
    loop = quiet_loop(world)
    for _ in range(5):  # the topic has its turn within these, and not again for half a minute
        second(world, loop)
    world.broker.append_segment(first, values(2))
    assert seconds_until_tiered(world, loop, first, at_most=1)
    report = second(world, loop)
    assert {report_of(report, who).status.table for who in others} == {"kafka.orders"}


def test_deleted_partition_is_in_no_report(world: TieringWorld) -> None:
    first, second_one = world.broker.create_topic("orders", partitions=2)
    loop = quiet_loop(world)
    directory = world.broker.directory(first)
    directory.rename(directory.with_name(directory.name + ".0123456789abcdef0123456789abcdef-delete"))
    report = loop.cycle()
    assert [one.partition for one in report.partitions] == [second_one]
    assert report.led.keys() <= {second_one.topic_id}


def test_lag_grows_while_nobody_looks(world: TieringWorld) -> None:
    board = StatusBoard(version="test", clock=world.clock, limits=LIMITS)
    (partition,) = world.broker.create_topic("orders")
    loop = quiet_loop(world, listener=board.note_cycle)
    world.broker.append(partition, values(5))
    for _ in range(7):
        second(world, loop)
    before_ms = board.status().partitions[0].lag_ms
    assert before_ms >= 2_000
    world.clock.ahead_ms += 90_000
    assert 90_000 <= board.status().partitions[0].lag_ms - before_ms < 95_000
