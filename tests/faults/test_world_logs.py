"""Log directories break under a running loop: said with coordinates, the others go on, nothing is lost or guessed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.kafka_log.log_directory import format_partition_metadata
from engine.topic_partition import TopicIdPartition
from tests.faults.broken_world import BrokenWorld, moved_away, unmounted
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.support.world_faults import mode
from tests.tiering.tiering_world import ranges_of

RESCAN_MS = 301_000
UNIQUE_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def world(tmp_path: Path) -> BrokenWorld:
    return BrokenWorld(tmp_path)


def cut(content: bytes) -> bytes:
    return content[:-7]


def flipped(content: bytes) -> bytes:
    """A bit of the last record's value."""
    return content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]


def wrong_crc(content: bytes) -> bytes:
    """The CRC itself, at byte 17 of the batch."""
    return content[:17] + bytes([content[17] ^ 0x80]) + content[18:]


def empty(_: bytes) -> bytes:
    return b""


def zeros(content: bytes) -> bytes:
    return bytes(len(content))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (cut, "ends inside a batch"),
    "bit_flipped": (flipped, "CRC is wrong"),
    "wrong_crc": (wrong_crc, "CRC is wrong"),
    "zeros": (zeros, "zeros where a batch should start"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_segment_stops_its_partition_with_its_coordinates_until_it_is_whole_again(
    world: BrokenWorld, damage: str
) -> None:
    spoil, words = DAMAGES[damage]
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    segment = world.segment(world.bad, 10)
    whole = segment.read_bytes()
    segment.write_bytes(spoil(whole))
    world.cycle(loop)
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.problem_is_shown(world.bad, "corrupt", words, segment.name.removesuffix(".log"))
    assert world.metric("floeberg_partition_stopped", topic="orders", partition="0") == 1
    assert world.metric("floeberg_partition_waiting", topic="orders", partition="0", reason="stopped") == 1
    assert world.status_of(world.bad).tiered_end == 10
    world.went_on(world.good)
    segment.unlink()  # the broker, or an operator, puts a whole replica's file in its place
    segment.write_bytes(whole)
    world.recover(loop)
    world.all_is_well()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_files_beside_a_segment_that_are_not_needed_may_be_missing_or_damaged(world: BrokenWorld, suffix: str) -> None:
    world.produce(world.bad, world.good)
    world.segment(world.bad, 0, suffix).write_bytes(b"\xff" * 7)
    world.cycle(world.watched_loop())
    world.all_is_well()


def test_damaged_transaction_index_stops_its_partition_for_aborted_records_would_pass_for_committed(
    world: BrokenWorld,
) -> None:
    world.produce(world.bad, world.good)
    index = world.segment(world.bad, 10, ".txnindex")
    index.write_bytes(b"\x7f" * 34)
    loop = world.watched_loop()
    world.cycle(loop)
    world.problem_is_shown(world.bad, "corrupt", "transaction index", index.name)
    world.went_on(world.good)
    index.unlink()
    world.recover(loop)
    world.all_is_well()


@contextmanager
def second_disk(world: BrokenWorld) -> Iterator[Path]:
    """A second log directory of the same broker, to which ``bad`` has been moved."""
    disk = world.root / "second-disk"
    disk.mkdir()
    shutil.copy(world.broker.log_dir / "meta.properties", disk)
    world.broker.directory(world.bad).rename(disk / "orders-0")
    yield disk
    for path in (disk / "orders-0").iterdir():
        assert path.exists()


DISK_FAULTS: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "no_permission": lambda disk: mode(disk, 0),
    "gone": moved_away,
    "unmounted": unmounted,
    "partition_unreadable": lambda disk: mode(disk / "orders-0", 0),
}


@pytest.mark.parametrize("fault", DISK_FAULTS)
def test_disk_that_fails_keeps_its_partitions_in_sight_and_the_others_going(world: BrokenWorld, fault: str) -> None:
    world.produce(world.bad, world.good)
    with second_disk(world) as disk:
        loop = world.watched_loop(log_dirs=[disk])
        world.cycle(loop)
        (disk / "orders-0" / f"{20:020d}.log").touch()
        with DISK_FAULTS[fault](disk):
            world.produce(world.good)
            world.cycle(loop)
            world.problem_is_shown(world.bad, "unavailable", str(disk))
            assert world.status_of(world.bad).tiered_end == 10
            assert (world.metric("floeberg_problems", kind="unavailable") or 0) >= (fault != "partition_unreadable")
            world.went_on(world.good)
        world.recover(loop)
        world.all_is_well()


def test_segment_that_cannot_be_read_fails_its_partition_only(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.cycle(loop)
    world.produce(world.bad, world.good)
    with mode(world.segment(world.bad, 0), 0):
        world.cycle(loop)
    world.problem_is_shown(world.bad, "unavailable", "Permission denied")
    world.went_on(world.good)
    world.recover(loop)
    world.all_is_well()


@pytest.mark.parametrize("state", ["future", "stray", "delete"])
def test_directory_in_another_state_is_no_log_and_hides_none(world: BrokenWorld, state: str) -> None:
    """A copy of ``bad`` with other records lies beside it, as while a replica moves between disks."""
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    other = world.broker.log_dir / f"orders-0.{UNIQUE_ID}-{state}"
    shutil.copytree(world.broker.directory(world.bad), other)
    (other / f"{0:020d}.log").write_bytes(b"no log at all")
    world.cycle(loop)
    world.all_is_well()


@pytest.mark.parametrize("state", ["stray", "delete"])
def test_partition_that_leaves_keeps_what_was_held_of_it(world: BrokenWorld, state: str) -> None:
    """The broker gives the replica up while the warehouse is away: what was ready lies in the spool."""
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    with moved_away(world.root / "data" / "warehouse"):
        world.cycle(loop)
    directory = world.broker.directory(world.bad)
    directory.rename(directory.with_name(f"orders-0.{UNIQUE_ID}-{state}"))
    world.recover(loop)
    world.all_is_well()


class DeletingWorkers(InterferingWorkers):
    """The topic is deleted in the middle of the work: the broker forgets its id and removes its files."""

    def __init__(self, world: BrokenWorld, victim: TopicIdPartition) -> None:
        self._world = world
        self._victim = victim

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        directory = self._world.broker.directory(self._victim)
        if directory.exists():
            self._world.broker.port.delete_topic(self._victim.topic)
            gone = directory.with_name(f"{directory.name}.{UNIQUE_ID}-delete")
            directory.rename(gone)
            shutil.rmtree(gone)
        return super().rewrite(tasks)


@pytest.mark.parametrize("native", [True, False])
def test_topic_that_is_deleted_in_the_middle_of_a_task_takes_nothing_else_along(
    world: BrokenWorld, native: bool
) -> None:
    (victim,) = world.broker.create_topic("victim", native=native)
    world.broker.append_segment(victim, [b"one", b"two"])
    world.produce(world.bad, world.good)
    loop = world.watched_loop(DeletingWorkers(world, victim))
    for _ in range(2):
        world.cycle(loop)
    world.went_on(world.good)
    world.recover(loop)
    # What was held by a link is tiered; what only the broker held went with the topic, as its owner wished.
    assert [one.topic for one in world.board.status().partitions if one.problem] == []
    table = world.writer().open(victim.topic, victim.topic_id)
    assert table is not None
    assert [entry.end for entry in table.ledger.values()] == ([] if native else [2])
    world.all_is_well()


METADATA_DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_text(""),
    "of_no_topic": lambda path: path.write_text("version: 0\ntopic_id: " + "A" * 22),
}


@pytest.mark.parametrize("damage", METADATA_DAMAGES)
def test_partition_without_a_readable_topic_id_stays_in_sight(world: BrokenWorld, damage: str) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    path = world.broker.directory(world.bad) / "partition.metadata"
    text = path.read_text()
    METADATA_DAMAGES[damage](path)
    world.clock.ahead_ms += RESCAN_MS
    world.cycle(loop)
    kind = "unavailable" if damage == "missing" else "corrupt"
    world.problem_is_shown(world.bad, kind, "partition.metadata")
    world.went_on(world.good)
    path.write_text(text)
    world.recover(loop)
    world.all_is_well()


def test_topic_id_of_another_topic_is_never_tiered_as_this_one(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    path = world.broker.directory(world.bad) / "partition.metadata"
    text = path.read_text()
    path.write_text(format_partition_metadata("MkU3OEVBNTcwNTJENDM2Qg"))
    world.clock.ahead_ms += RESCAN_MS
    for _ in range(2):
        world.cycle(loop)
    assert world.metric("floeberg_partition_waiting", topic="orders", partition="0", reason="unknown_topic") == 1
    assert world.tiered_end(world.bad) == 10
    world.went_on(world.good)
    path.write_text(text)
    world.clock.ahead_ms += RESCAN_MS
    world.recover(loop)
    world.all_is_well()


def test_broker_that_is_away_leaves_the_status_as_it_was_and_the_lag_growing(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.broker.append(world.bad, [b"not closed"])
    world.cycle(loop)
    world.broker.port.failing = Unavailable("the broker does not answer")
    world.clock.ahead_ms += 60_000
    world.cycle(loop)
    world.clock.ahead_ms += 60_000
    assert "the broker does not answer" in world.board.status().problems[0]
    assert (world.metric("floeberg_partition_lag_seconds", topic="orders", partition="0") or 0) >= 60
    assert world.status_of(world.good).tiered_end == 10
    world.broker.port.failing = None
    world.broker.roll(world.bad)
    assert ranges_of(world.cycle(loop), world.bad) == [(10, 11)]
    assert world.board.status().is_healthy


def test_cycle_that_ends_unforeseen_is_shown_and_the_next_one_goes_on(
    world: BrokenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)

    def unforeseen(*_: object) -> None:
        raise ZeroDivisionError("nobody thought of this")

    with monkeypatch.context() as patched:
        patched.setattr("tiering.segment_hold.SegmentHold.update", unforeseen)
        world.cycle(loop)
    assert "nobody thought of this" in world.board.status().problems[0]
    assert world.metric("floeberg_problems", kind="unavailable") == 1
    world.cycle(loop)
    world.all_is_well()


def test_listener_that_fails_ends_neither_the_cycle_nor_the_other_listeners(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    heard: list[object] = []

    def failing(_: object) -> None:
        raise ZeroDivisionError

    loop.on_cycle(failing)
    loop.on_cycle(heard.append)
    world.produce(world.bad, world.good)
    assert world.cycle(loop).commits == 1
    assert len(heard) == 1
    assert any(entry["event"] == "listener_failed" for entry in world.logged)


def test_offsets_that_kafka_deleted_first_are_counted_from_nothing(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    assert world.metric("floeberg_skipped_offsets_total", topic="orders") == 0
    with moved_away(world.root / "data" / "warehouse"):
        world.spool_dir.rename(world.root / "spool that was")
        world.spool_dir.write_text("no folder")
        for _ in range(2):
            world.broker.append_segment(world.bad, [b"soon deleted"] * 4)
        world.cycle(loop)
        assert (world.metric("floeberg_partition_at_risk_bytes", topic="orders", partition="0") or 0) > 0
        for _ in range(2):
            world.broker.delete_oldest_segment(world.bad)
    world.recover(loop)
    assert world.metric("floeberg_skipped_offsets_total", topic="orders") == 4
    assert any(entry["event"] == "offsets_skipped" for entry in world.logged)
