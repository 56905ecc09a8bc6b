"""The loop repairs what it can when it has nothing to tier, and asks for nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from engine.table.repair.candidates import KeptRows, RepairCandidates
from engine.topic_partition import TopicIdPartition
from floeberg.commands.status import _kept_rows, _partitions_of
from floeberg.topic_tables import TopicTables
from serving.status.daemon_status import DaemonStatus, PartitionStatus, Phase
from tests.tiering.test_loop_schemas import TEXTS, KnownSchemas, avro, columns, order
from tests.tiering.test_topic_repair import damage
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits


def note(number: int) -> bytes:
    return order(2, {"id": number, "note": f"n{number}"})


@pytest.fixture
def source() -> KnownSchemas:
    return KnownSchemas({1: TEXTS[1]})


@pytest.fixture
def partition(world: TieringWorld) -> TopicIdPartition:
    (partition,) = world.broker.create_topic("orders")
    return partition


@pytest.fixture
def loop(world: TieringWorld, source: KnownSchemas, partition: TopicIdPartition) -> TieringLoop:
    """Two segments in the table, of a schema that nobody had."""
    loop = world.loop(rules=avro(source))
    for number in (0, 1):
        world.broker.append_segment(partition, [note(number)])
    assert loop.cycle().commits == 1
    return loop


def ids(world: TieringWorld) -> list[object]:
    return columns(world, "orders").get("id", [])


def test_schema_that_was_given_up_is_asked_for_again_and_its_records_repaired(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop
) -> None:
    assert loop.cycle().repaired_files == 0
    source.texts = TEXTS
    assert loop.cycle().repaired_files == 0, "it was given up a moment ago"
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    report = loop.cycle()
    assert (report.repaired_files, report.repaired_records, report.more) == (2, 2, False)
    assert ids(world) == [0, 1]
    assert source.asked.count(2) == 2


def test_schema_that_a_later_segment_brought_repairs_the_earlier_ones(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    world.broker.append_segment(partition, [note(2)])
    report = loop.cycle()
    assert (ranges_of(report, partition), report.repaired_files) == ([(2, 3)], 0), "what is new goes first"
    assert ids(world) == [None, None, 2]
    assert loop.cycle().repaired_files == 2
    assert ids(world) == [0, 1, 2]
    assert source.asked.count(2) == 2


def test_repair_goes_on_at_once_while_files_are_left(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop
) -> None:
    source.texts = TEXTS
    again = world.loop(rules=avro(source), limits=TieringLimits(repair_bytes_per_cycle=1))
    first, second, third = again.cycle(), again.cycle(), again.cycle()
    assert [(one.repaired_files, one.more) for one in (first, second, third)] == [(1, True), (1, False), (0, False)]
    assert ids(world) == [0, 1]


def test_files_of_a_partition_led_elsewhere_are_left_to_its_leaders_daemon(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    world.broker.port.set_view(partition, leader_id=9)
    again = world.loop(rules=avro(source))
    assert again.cycle().repaired_files == 0
    world.broker.port.set_view(partition, leader_id=1, leader_epoch=1)
    assert again.cycle().repaired_files == 2


def test_table_is_looked_at_again_only_when_it_has_changed_or_a_schema_is_due(
    world: TieringWorld, loop: TieringLoop, partition: TopicIdPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    look = RepairCandidates.look

    def counted(self: RepairCandidates, *args: Any, **named: Any) -> Any:
        looks.append(args)
        return look(self, *args, **named)

    monkeypatch.setattr(RepairCandidates, "look", counted)
    for _ in range(3):
        loop.cycle()
    assert len(looks) == 1
    world.broker.append_segment(partition, [order(1, {"id": 2})])
    for _ in range(3):
        loop.cycle()
    assert len(looks) == 2
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    for _ in range(3):
        loop.cycle()
    assert len(looks) == 3


def test_damaged_file_is_left_for_a_while_and_tiering_goes_on(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    stored = set(Path(world.root).rglob("*.parquet"))
    content = {path: path.read_bytes() for path in stored}
    damaged = min(stored)
    damage(f"file://{damaged}")
    again = world.loop(rules=avro(source))
    report = again.cycle()
    assert (report.repaired_files, report.is_good) == (1, True)
    world.broker.append_segment(partition, [note(2)])
    assert ranges_of(again.cycle(), partition) == [(2, 3)]
    damaged.write_bytes(content[damaged])
    assert again.cycle().repaired_files == 0
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    assert again.cycle().repaired_files == 1
    assert ids(world) == [0, 1, 2]


def test_what_a_schema_would_help_is_counted_apart_from_what_is_so_for_good_and_again_after_a_restart(
    world: TieringWorld, source: KnownSchemas, loop: TieringLoop, partition: TopicIdPartition
) -> None:
    world.broker.append_segment(partition, [b"no header", b"\0\0\0\0\1\xff", order(1, {"id": 5})])
    loop.cycle()
    restarted = world.loop(rules=avro(source))
    for one in (loop, restarted):
        assert report_of(one.cycle(), partition).kept == KeptRows(with_reason=4, awaiting_schema=2)
    without_a_daemon = list(_partitions_of(world.table(partition)))
    assert [(one.reason_rows, one.awaiting_rows, one.problem) for one in without_a_daemon] == [(4, 2, None)]
    source.texts = TEXTS
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    assert restarted.cycle().repaired_files == 2
    assert report_of(restarted.cycle(), partition).kept == KeptRows(with_reason=2, awaiting_schema=0)


@pytest.mark.parametrize(
    ("reasons", "awaiting", "advised"), [(0, 0, []), (4, 2, ["2", "floeberg repair t", "2", "for good"]), (2, 0, ["2"])]
)
def test_repair_is_advised_for_nothing_but_what_it_can_mend(reasons: int, awaiting: int, advised: list[str]) -> None:
    part = PartitionStatus(topic="t", partition=0, reason_rows=reasons, awaiting_rows=awaiting, undecodable_rows=9)
    found = DaemonStatus(version="1", phase=Phase.RUNNING, started_ms=0, now_ms=0, partitions=(part,))
    said = " ".join(_kept_rows(found))
    assert all(words in said for words in advised)
    assert ("floeberg repair" in said) == bool(awaiting)
    assert ("for good" in said) == (reasons > awaiting)


def test_damaged_table_is_told_by_a_status_without_a_daemon(world: TieringWorld, loop: TieringLoop) -> None:
    (table,) = TopicTables(world.catalog, "kafka").all()
    assert table.manifest_list is not None
    Path(urlparse(table.manifest_list).path).unlink()
    (part,) = _partitions_of(table)
    assert part.tiered_end == 2
    assert part.problem is not None
    assert "topic orders, partition 0" in part.problem
