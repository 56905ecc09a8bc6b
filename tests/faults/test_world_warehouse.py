"""The warehouse, the spool's disk and the catalog break: said, measured, recovered without a person, nothing lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from engine.durable_file import TEMPORARY_SUFFIX
from engine.offset_range import OffsetRange
from engine.table.data_file import FileName
from serving.status.routes import STUCK_AFTER_MS, why_not_alive
from tests.faults.broken_world import BrokenWorld, moved_away, unmounted
from tests.support.world_faults import full_disk_at, mode, no_room_for_files_over


@pytest.fixture
def world(tmp_path: Path) -> BrokenWorld:
    return BrokenWorld(tmp_path)


def warehouse(world: BrokenWorld) -> Path:
    return world.root / "data" / "warehouse"


def next_file(world: BrokenWorld, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ``bad``'s next data file is written, now that all attempts have the same id."""
    monkeypatch.setattr(world.clock, "new_id", lambda: "0" * 32)
    end = world.tiered_end(world.bad)
    name = FileName(
        partition=world.bad.partition, range=OffsetRange(start=end, end=end + 10), leader_epoch=0, attempt="0" * 32
    )
    return Path(world.table(world.bad).facts.data_path(name).removeprefix("file://") + TEMPORARY_SUFFIX)


WHOLE_WAREHOUSE: dict[str, Callable[[BrokenWorld], AbstractContextManager[None]]] = {
    "full": lambda _: no_room_for_files_over(1500),
    "gone": lambda world: moved_away(warehouse(world)),
    "unmounted": lambda world: unmounted(warehouse(world)),
}


@pytest.mark.parametrize("fault", WHOLE_WAREHOUSE)
def test_warehouse_that_takes_nothing_is_told_and_what_waited_is_stored_when_it_is_back(
    world: BrokenWorld, fault: str
) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    assert world.cycle(loop).commits == 1
    files = sorted(warehouse(world).rglob("*.writing"))
    world.produce(world.bad, world.good)
    with WHOLE_WAREHOUSE[fault](world):
        for _ in range(4):
            world.cycle(loop)
        assert world.status_of(world.bad).tiered_end == 10
        assert world.spooled_files(), "what is ready is held against Kafka's retention"
        if fault != "unmounted":
            assert sorted(warehouse(world).rglob("*.writing")) == files, "a try that failed leaves nothing behind"
        else:
            assert list(warehouse(world).rglob("*")) == [], "nothing is written beneath a mount point"
    world.problem_is_shown(world.bad, "unavailable")
    assert world.metric("floeberg_partition_lag_records", topic="orders", partition="0") == 10
    assert not world.board.status().is_healthy
    world.recover(loop)
    world.all_is_well()


ONE_FOLDER: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "full": full_disk_at,
    "read_only": lambda file: mode(file.parent, 0o500),
}


@pytest.mark.parametrize("fault", ONE_FOLDER)
def test_partition_whose_file_cannot_be_written_waits_and_the_others_are_committed(
    world: BrokenWorld, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    # A first failure ends in a plan of its own; what is planted holds for as many tries as there are.
    file = next_file(world, monkeypatch)
    for _ in range(3):
        world.produce(world.bad, world.good)
        with ONE_FOLDER[fault](file):
            world.cycle(loop)
        world.went_on(world.good)
    world.problem_is_shown(world.bad, "unavailable", str(file.parent))
    assert world.status_of(world.bad).waiting_kind in {None, "nothing_closed", "retry"}
    world.recover(loop)
    world.all_is_well()


def test_warehouse_that_hangs_shows_how_long_and_the_cycle_goes_on_when_it_answers(
    world: BrokenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    file = next_file(world, monkeypatch)
    os.mkfifo(file)
    running = threading.Thread(target=world.cycle, args=(loop,))
    running.start()
    world.clock.ahead_ms += STUCK_AFTER_MS + 1
    status = world.board.status()
    assert (world.metric("floeberg_silent_seconds") or 0) > STUCK_AFTER_MS / 1000
    assert "no tiering cycle has ended for 15 minutes" in (why_not_alive(status) or "")
    with file.open("rb") as answering:
        running.join(60)
        assert not running.is_alive()
        assert answering.read(4) in {b"PAR1", b""}
    assert why_not_alive(world.board.status()) is None
    world.went_on(world.good)
    world.recover(loop)
    world.all_is_well()


def test_spool_whose_disk_is_full_is_told_while_tiering_goes_on(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.cycle(loop)
    world.produce(world.bad, world.good)
    folder = world.spool_dir / "orders" / f"{world.bad.partition}.{world.bad.topic_id}"
    with full_disk_at(folder / f"{0:020d}-{10:020d}.json.{os.getpid()}.writing"):
        world.cycle(loop)
        (problem,) = world.board.status().problems
        assert "No space left on device" in problem
        assert str(folder) in problem
        assert world.metric("floeberg_problems", kind="unavailable") == 1
        assert (world.metric("floeberg_partition_at_risk_bytes", topic="orders", partition="0") or 0) > 0
        world.went_on(world.good)
        world.went_on(world.bad)
    world.cycle(loop)
    assert world.metric("floeberg_partition_at_risk_bytes", topic="orders", partition="0") == 0
    assert world.metric("floeberg_problems", kind="unavailable") == 0
    world.all_is_well()


def test_catalog_whose_database_is_away_is_told_and_found_again(world: BrokenWorld) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    with moved_away(world.root / "data" / "catalog.db"):
        for _ in range(3):
            world.cycle(loop)
        assert world.status_of(world.bad).tiered_end == 10
    world.problem_is_shown(world.bad, "unavailable", "catalog")
    world.recover(loop)
    world.all_is_well()
