"""The daemon repairs what it can when it has nothing to tier, and asks for nothing twice."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from compaction.repair_limits import RepairLimits
from engine.table.merge.candidates import KeptRows, RepairCandidates
from engine.topic_partition import TopicIdPartition
from floeberg.commands.status import _kept_rows, _partitions_of
from floeberg.tables.topic_tables import TopicTables
from serving.status.daemon_status import DaemonStatus, Phase
from tests.compaction.damaged_file import damage
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.order_schemas import TEXTS, KnownSchemas, avro, columns, order
from tests.tiering.tiering_world import TieringWorld, ranges_of
from tiering.tiering_limits import TieringLimits
from topics.partition_status import PartitionStatus


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
def daemon(world: TieringWorld, source: KnownSchemas, partition: TopicIdPartition) -> RepairingDaemon:
    """Two segments in the table, of a schema that nobody had."""
    daemon = RepairingDaemon(world, avro(source))
    for number in (0, 1):
        world.broker.append_segment(partition, [note(number)])
    assert daemon.cycle()[0].commits == 1
    return daemon


def ids(world: TieringWorld) -> list[object]:
    return columns(world, "orders").get("id", [])


def test_schema_that_was_given_up_is_asked_for_again_and_its_records_repaired(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon
) -> None:
    assert daemon.repaired_files() == 0
    source.texts = TEXTS
    assert daemon.repaired_files() == 0, "it was given up a moment ago"
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    _, turn = daemon.cycle()
    assert (turn.replaced, turn.gained, turn.goes_on) == (2, 2, False)
    assert ids(world) == [0, 1]
    assert source.asked.count(2) == 2


def test_schema_that_a_later_segment_brought_repairs_the_earlier_ones(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    world.broker.append_segment(partition, [note(2)])
    report, turn = daemon.cycle()
    assert (ranges_of(report, partition), turn.replaced) == ([(2, 3)], 2)
    assert ids(world) == [0, 1, 2]
    assert source.asked.count(2) == 2


def test_repair_goes_on_at_once_while_files_are_left(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon
) -> None:
    source.texts = TEXTS
    again = RepairingDaemon(world, avro(source), repair_limits=RepairLimits(bytes_per_turn=1))
    again.loop.cycle()
    turns = [again.compaction.turn().repair for _ in range(3)]
    assert [(one.replaced, one.goes_on) for one in turns] == [(1, True), (1, False), (0, False)]
    assert ids(world) == [0, 1]


def test_files_of_a_partition_led_elsewhere_are_left_to_its_leaders_daemon(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    world.broker.port.set_view(partition, leader_id=9)
    again = RepairingDaemon(world, avro(source))
    assert again.repaired_files() == 0
    world.broker.port.set_view(partition, leader_id=1, leader_epoch=1)
    assert again.repaired_files() == 2


def test_table_is_looked_at_again_only_when_it_has_changed_or_a_schema_is_due(
    world: TieringWorld, daemon: RepairingDaemon, partition: TopicIdPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    look = RepairCandidates.look

    def counted(self: RepairCandidates, *args: Any, **named: Any) -> Any:
        looks.append(args)
        return look(self, *args, **named)

    monkeypatch.setattr(RepairCandidates, "look", counted)
    for _ in range(3):
        daemon.cycle()
    assert not looks, "it was looked at after the first cycle"
    world.broker.append_segment(partition, [order(1, {"id": 2})])
    for _ in range(3):
        daemon.cycle()
    assert len(looks) == 1
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    for _ in range(3):
        daemon.cycle()
    assert len(looks) == 2


def test_damaged_file_is_left_for_a_while_and_tiering_goes_on(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    stored = set(Path(world.root).rglob("*.parquet"))
    content = {path: path.read_bytes() for path in stored}
    damaged = min(stored)
    damage(f"file://{damaged}")
    again = RepairingDaemon(world, avro(source))
    report, turn = again.cycle()
    assert (turn.replaced, report.is_good) == (1, True)
    world.broker.append_segment(partition, [note(2)])
    assert ranges_of(again.cycle()[0], partition) == [(2, 3)]
    damaged.write_bytes(content[damaged])
    assert again.repaired_files() == 0
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    assert again.repaired_files() == 1
    assert ids(world) == [0, 1, 2]


def test_what_a_schema_would_help_is_counted_apart_from_what_is_so_for_good_and_again_after_a_restart(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon, partition: TopicIdPartition
) -> None:
    world.broker.append_segment(partition, [b"no header", b"\0\0\0\0\1\xff", order(1, {"id": 5})])
    daemon.cycle()
    restarted = RepairingDaemon(world, avro(source))
    for one in (daemon, restarted):
        one.cycle()
        assert one.compaction.kept(partition) == KeptRows(with_reason=4, awaiting_schema=2)
    without_a_daemon = list(_partitions_of(world.table(partition)))
    assert [(one.reason_rows, one.awaiting_rows, one.problem) for one in without_a_daemon] == [(4, 2, None)]
    source.texts = TEXTS
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    assert restarted.repaired_files() == 2
    restarted.cycle()
    assert restarted.compaction.kept(partition) == KeptRows(with_reason=2, awaiting_schema=0)


def test_thread_takes_turns_while_tiering_keeps_up_and_ends_when_it_is_told(
    world: TieringWorld, source: KnownSchemas, daemon: RepairingDaemon, partition: TopicIdPartition
) -> None:
    source.texts = TEXTS
    stop, gained = threading.Event(), threading.Semaphore(0)
    limits = RepairLimits(bytes_per_turn=1)
    behind = TieringLimits(max_bytes_per_cycle=1)
    again = RepairingDaemon(world, avro(source), limits=behind, repair_limits=limits, on_gain=gained.release)
    thread = threading.Thread(target=again.compaction.run_forever, args=(stop,))
    thread.start()
    for number in (2, 3):
        world.broker.append_segment(partition, [order(1, {"id": number})])
    assert again.loop.cycle().more
    assert not gained.acquire(timeout=0.3), "what is new goes first"
    assert not again.loop.cycle().more
    assert gained.acquire(timeout=60)
    assert gained.acquire(timeout=60), "it goes on by itself while files are left"
    stop.set()
    again.compaction.hurry()
    thread.join(60)
    assert not thread.is_alive()
    assert ids(world) == [0, 1, 2, 3]


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


def test_damaged_table_is_told_by_a_status_without_a_daemon(world: TieringWorld, daemon: RepairingDaemon) -> None:
    (table,) = TopicTables(world.catalog, "kafka").all()
    assert table.manifest_list is not None
    Path(urlparse(table.manifest_list).path).unlink()
    (part,) = _partitions_of(table)
    assert part.tiered_end == 2
    assert part.problem is not None
    assert "topic orders, partition 0" in part.problem
