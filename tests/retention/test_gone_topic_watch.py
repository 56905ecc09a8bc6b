"""Tables of topics that were deleted at the broker: kept, or dropped and swept after two graces."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.fault_points import FaultPoint, armed
from engine.fsck.report import Damage
from engine.table.companion_folder import auxiliary_folder, erasure_folder
from floeberg.tables.rename import rename_table
from floeberg.tables.survey import survey_tables
from latest.latest_loop import LatestLoop
from retention.sweep_planner import Reason
from tests.retention.gone_world import DROPPING, GRACE_MS, GoneWorld
from tests.tiering.tiering_world import STRINGS


@pytest.fixture
def world(tmp_path: Path) -> GoneWorld:
    return GoneWorld(tmp_path)


def test_deleted_topics_table_is_dropped_after_the_grace_and_its_files_after_another(world: GoneWorld) -> None:
    table = world.table(world.orders)
    beside = (
        f"{auxiliary_folder(table.location, 0)}/{0:020d}-{3:020d}.aux",
        f"{erasure_folder(table.location)}/r.json",
    )
    for path in beside:
        table.warehouse.write_bytes(path, b"{}")
    assert world.look() is None
    world.delete(world.orders)
    first = world.look()
    assert first is not None
    assert first.since_ms is not None
    assert (first.kept, first.drops_at_ms) == (None, first.since_ms + GRACE_MS)
    world.begin()
    world.clock.ahead_ms += GRACE_MS - 60_000
    second = world.look()
    assert second is not None
    assert (second.since_ms, world.names()) == (first.since_ms, ["orders", "stays"]), "it was noted durably"
    world.clock.ahead_ms += 60_000
    third = world.look()
    assert third is not None
    assert (third.is_dropped, world.names()) == (True, ["stays"])
    before = world.files(table.location)
    assert table.metadata_location in before
    for dropped, damages in ((world.gone.dropped, []), ((), [Damage.UNREGISTERED_TABLE])):
        survey = survey_tables(lambda: world.catalog, "kafka", dropped=dropped)
        assert [one.damage for report in survey.reports for one in report.findings] == damages
    world.sweep_all()
    assert world.files(table.location) == before, "they could be registered again"
    (swept,) = [one for one in world.sweeps.report() if one.topic == "orders"]
    assert swept.amounts[Reason.GRACE].files == len(before) - 1
    world.begin()
    world.clock.ahead_ms += GRACE_MS
    world.tiering.cycle()
    world.sweep_all()
    world.sweep_all()
    assert world.files(table.location) == [beside[1]], "reports of erasures outlive it"
    assert world.gone.dropped == ()
    assert world.look() is None
    world.begin()
    assert world.look() is None
    assert world.offsets(world.stays) == [0, 1, 2]


def test_table_is_kept_by_default_and_swept(world: GoneWorld) -> None:
    world.rules = (STRINGS,)
    world.begin()
    world.delete(world.orders)
    kept = world.look()
    assert kept is not None
    assert (kept.kept, kept.drops_at_ms, kept.is_dropped) == ('delete_on_topic_deletion = "keep"', None, False)
    world.clock.ahead_ms += 10 * GRACE_MS
    world.sweep_all()
    world.sweep_all()
    assert world.names() == ["orders", "stays"]
    assert "orders" in [one.topic for one in world.sweeps.report()]


@pytest.mark.parametrize("what", ["rule", "unreachable", "not told", "log directories", "emptied", "cluster"])
def test_what_only_looks_like_a_deletion_drops_nothing(
    world: GoneWorld, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a deletion takes is there but for one line, at the first look and after the grace."""
    if what not in {"log directories"}:
        world.delete(world.orders)
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.tiering.cycle()
        match what:
            case "rule":
                world.rules = (replace(DROPPING, pattern="stays"),)
                world.begin()
                world.tiering.cycle()
            case "unreachable":
                world.broker.port.failing = Unavailable("away")
                with pytest.raises(Unavailable):
                    world.gone.look()
                world.broker.port.failing = None
                continue
            case "not told":
                world.broker.port.undescribed = {"orders"}
            case "log directories":
                shutil.rmtree(world.broker.directory(world.orders), ignore_errors=True)
                world.tiering.cycle()
            case "emptied":
                monkeypatch.setattr(world.broker.port, "_views", {})
            case "cluster":
                monkeypatch.setattr(world.broker.port, "_cluster_id", "another")
        world.gone.look()
    assert world.names() == ["orders", "stays"]
    assert world.gone.dropped == ()


def test_time_for_which_nobody_could_ask_counts_only_from_the_first_look(world: GoneWorld) -> None:
    world.delete(world.orders)
    world.clock.ahead_ms += 10 * GRACE_MS
    seen = world.look()
    assert seen is not None
    assert seen.drops_at_ms is not None
    assert world.names() == ["orders", "stays"]


def test_topic_that_the_broker_has_again_begins_a_new_grace(world: GoneWorld) -> None:
    """As from a backup of the cluster's metadata: the very id comes back."""
    port = world.broker.port
    views, configs = dict(port._views), dict(port._configs)
    world.delete(world.orders)
    assert world.look() is not None
    port._views, port._configs = views, configs
    assert world.look() is None
    world.broker.port.delete_topic("orders")
    world.clock.ahead_ms += GRACE_MS
    again = world.look()
    assert again is not None
    assert not again.is_dropped
    assert again.drops_at_ms is not None
    assert again.drops_at_ms >= world.clock.now_ms() + GRACE_MS - 60_000


def test_topic_of_which_something_is_still_here_is_not_gone_yet(world: GoneWorld) -> None:
    """As a segment in the spool: its records are stored before the grace begins."""
    shutil.rmtree(world.broker.directory(world.orders))
    world.broker.port.delete_topic("orders")
    doubted = world.look()
    assert doubted is not None
    assert doubted.since_ms is None
    assert doubted.kept == "a partition of it lies in the log directories or in the spool"
    world.clock.ahead_ms += 60_000
    world.tiering.cycle()
    seen = world.look()
    assert seen is not None
    assert (seen.since_ms is None, seen.kept) == (False, None)


@pytest.mark.parametrize("drops", [True, False])
def test_topic_that_is_created_again_keeps_its_own_table(world: GoneWorld, drops: bool) -> None:
    world.rules = (DROPPING if drops else STRINGS,)
    world.begin()
    old = world.table(world.orders)
    world.delete(world.orders)
    (new,) = world.broker.create_topic("orders")
    first = world.look()
    assert first is not None
    world.clock.ahead_ms += GRACE_MS
    waits = world.look()
    assert waits is not None
    assert "a new topic of its name has no table yet" in str(waits.kept)
    assert world.names() == ["orders", "stays"]
    world.broker.append_segment(new, [b"n"])
    world.tiering.cycle()
    retired = f"orders__{world.orders.topic_id}"
    assert world.names() == ["orders", retired, "stays"]
    last = world.look()
    assert last is not None
    assert world.names() == (["orders", "stays"] if drops else ["orders", retired, "stays"])
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.sweep_all()
    assert (world.files(old.location) == []) is drops
    assert world.rows(new) == [(0, "n")]


def test_newest_records_go_with_their_topic(world: GoneWorld) -> None:
    world.rules = (replace(DROPPING, latest_by_key=True),)
    world.begin()
    latest = LatestLoop(
        writer=world.writer(),
        directory=world.root / "latest",
        configs_of=world.broker.port.topic_configs,
        clock=world.clock,
    )
    latest.note_topics(world.tiering.cycle().led)
    latest.round()
    assert "orders__latest" in world.names()
    folders = [world.table(world.orders).location, world.catalog.load_table("kafka.orders__latest").location()]
    assert all(map(world.files, folders))
    world.delete(world.orders)
    world.look()
    world.clock.ahead_ms += GRACE_MS
    world.look()
    assert world.names() == ["stays", "stays__latest"]
    assert {one.is_latest for one in world.gone.dropped} == {True, False}
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.sweep_all()
    assert [world.files(folder) for folder in folders] == [[], []]
    assert world.gone.dropped == ()


def test_table_that_was_given_another_name_goes_with_its_topic(world: GoneWorld) -> None:
    table = world.table(world.orders)
    rename_table(world.catalog, table, "sales")
    world.begin()
    world.delete(world.orders)
    world.look()
    assert world.names() == ["sales", "stays"]
    world.clock.ahead_ms += GRACE_MS
    dropped = world.look()
    assert dropped is not None
    assert (dropped.table, world.names()) == (f"kafka.sales__{world.orders.topic_id}", ["stays"])
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.sweep_all()
    assert world.files(table.location) == []


def test_table_that_is_registered_again_within_the_grace_stays(world: GoneWorld) -> None:
    table = world.table(world.orders)
    world.delete(world.orders)
    world.look()
    world.clock.ahead_ms += GRACE_MS
    world.look()
    world.sweep_all()
    (note,) = world.gone.dropped
    world.catalog.register_table(("kafka", note.table.split(".")[1]), note.metadata_location)
    before = world.files(table.location)
    world.rules = (STRINGS,)
    world.begin()
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.look()
        world.sweep_all()
    assert set(before) <= set(world.files(table.location))
    held = [one.held for one in world.sweeps.report() if one.topic == "orders" and one.held is not None]
    assert held
    assert "lies in its folder" in held[0]
    assert world.offsets(world.orders) == [0, 1, 2]


@pytest.mark.parametrize("what", ["settings", "broker", "catalog"])
def test_no_file_of_a_dropped_table_goes_while_the_deletion_is_in_doubt(world: GoneWorld, what: str) -> None:
    table = world.table(world.orders)
    world.delete(world.orders)
    world.look()
    world.clock.ahead_ms += GRACE_MS
    world.look()
    world.sweep_all()
    before = world.files(table.location)
    if what == "settings":
        world.rules = (STRINGS,)
        world.begin()
    for _ in range(3):
        world.clock.ahead_ms += GRACE_MS
        world.tiering.cycle()
        if what == "broker":
            world.broker.port.undescribed = {"orders"}
        elif what == "catalog":
            copy = world.root / "copy.json"
            copy.write_bytes(Path(table.metadata_location.removeprefix("file://")).read_bytes())
            if "copy" not in world.names():
                world.catalog.register_table(("kafka", "copy"), copy.as_uri())
        world.sweep_all()
    assert world.files(table.location) == before


def test_table_that_another_program_marked_is_kept(world: GoneWorld) -> None:
    with world.catalog.load_table("kafka.orders").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    world.delete(world.orders)
    world.look()
    world.clock.ahead_ms += GRACE_MS
    kept = world.look()
    assert kept is not None
    assert kept.kept == "its property gc.enabled is false"
    assert world.names() == ["orders", "stays"]


def test_clock_that_is_set_forward_ends_no_grace(world: GoneWorld) -> None:
    world.delete(world.orders)
    world.look()
    world.clock.ahead_ms += GRACE_MS
    world.clock.unseen_ms -= GRACE_MS
    seen = world.look()
    assert seen is not None
    assert not seen.is_dropped
    assert world.names() == ["orders", "stays"]


def test_damaged_notes_begin_every_grace_again(world: GoneWorld) -> None:
    world.delete(world.orders)
    world.look()
    for damage in (b"", b"{}", b"[]", b'{"since_ms": {"x": "y"}, "dropped": []}'):
        (world.root / "sweep" / "gone-topics.json").write_bytes(damage)
        world.begin()
        world.clock.ahead_ms += GRACE_MS
        seen = world.look()
        assert seen is not None
        assert not seen.is_dropped


class Killed(BaseException):
    pass


def test_killed_at_any_point_the_next_daemon_goes_on(tmp_path: Path) -> None:
    """What is dropped is noted, and what is noted goes: no folder is left that nobody knows of."""
    reached: list[FaultPoint] = []

    def history(world: GoneWorld) -> None:
        for _ in range(4):
            world.look()
            world.sweep_all()
            world.clock.ahead_ms += GRACE_MS

    def prepared(name: str) -> tuple[GoneWorld, str]:
        world = GoneWorld(tmp_path / name)
        location = world.table(world.orders).location
        world.delete(world.orders)
        return world, location

    undisturbed, location = prepared("undisturbed")
    with armed(reached.append):
        history(undisturbed)
    assert undisturbed.files(location) == []
    ours = {FaultPoint.GONE_TOPICS_NOTED, FaultPoint.GONE_TABLE_RENAMED, FaultPoint.GONE_TABLE_DROPPED}
    for point in sorted(ours):
        for nth in range(1, reached.count(point) + 1):
            world, location = prepared(f"{point}-{nth}")
            left = [nth]

            def kill(at: FaultPoint, point: FaultPoint = point, left: list[int] = left) -> None:
                left[0] -= at is point
                if at is point and left[0] == 0:
                    raise Killed

            with pytest.raises(Killed), armed(kill):
                history(world)
            world.begin()
            history(world)
            assert (world.names(), world.files(location), world.gone.dropped) == (["stays"], [], ()), (point, nth)
            assert world.offsets(world.stays) == [0, 1, 2]
