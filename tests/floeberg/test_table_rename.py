"""A table that is given another name: daemons, engines and commands find it, and its ``__latest`` table with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.fault_points import FaultPoint, armed
from engine.fsck.catalog import exchanged_names
from engine.table.catalog import access as catalogs
from floeberg.tables.rename import rename_table
from floeberg.tables.topic_tables import TopicTables
from retention.swept_table import SweptState, SweptTable
from tests.latest.latest_world import TOPIC, LatestWorld
from tests.support.fault_hooks import once
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of

RECORDS = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]


@pytest.fixture
def world(tmp_path: Path) -> LatestWorld:
    world = LatestWorld(tmp_path)
    world.append(RECORDS)
    daemon = world.daemon()
    daemon.bring_up()
    daemon.end()
    return world


def names(world: TieringWorld) -> set[str]:
    return {name for _, name in world.catalog.list_tables(("kafka",))}


def test_running_daemon_and_a_new_one_go_on_under_the_new_name(world: LatestWorld) -> None:
    tiering = world.tiering
    daemon = world.daemon("running")
    daemon.bring_up()
    assert rename_table(tiering.catalog, world.stream(), "events") == ("kafka", "events")
    assert names(tiering) == {"events", "events__latest"}
    world.append(RECORDS)
    daemon.bring_up()
    daemon.end()
    assert names(tiering) == {"events", "events__latest"}
    assert tiering.catalog.load_table(("kafka", "events__latest")).scan().to_arrow().num_rows == 2
    tables = TopicTables(tiering.catalog, "kafka")
    assert tables.named(TOPIC).ledger[0].end == 6
    loaded = TopicTables(tiering.catalog, "kafka", topic_of=lambda _: TOPIC).load(world.partitions[0].topic_id)
    assert loaded is not None
    assert exchanged_names(tables.all()) == {}
    later = tiering.loop()
    tiering.broker.append_segment(world.partitions[0], [b"more"])
    assert ranges_of(later.cycle(), world.partitions[0]) == [(6, 7)]


def test_name_changes_between_a_commit_and_its_look(world: LatestWorld) -> None:
    tiering = world.tiering
    tiering.broker.append_segment(world.partitions[0], [b"more"])
    table = world.stream()
    with armed(once(FaultPoint.COMMIT_DECIDED, lambda: rename_table(tiering.catalog, table, "events"))):
        assert ranges_of(tiering.loop().cycle(), world.partitions[0]) == [(3, 4)]
    assert names(tiering) == {"events", "events__latest"}


def test_rename_that_ended_in_between_is_found_and_goes_on(world: LatestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = world.tiering.catalog
    rename, done = catalogs.rename, []

    def first_alone(*arguments: object) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(arguments)
        rename(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(catalogs, "rename", first_alone)
        with pytest.raises(KeyboardInterrupt):
            rename_table(catalog, world.stream(), "events")
    assert names(world.tiering) == {TOPIC, "events__latest"}
    world.append(RECORDS)
    daemon = world.daemon("new")
    daemon.bring_up()
    daemon.end()
    rename_table(catalog, world.stream(), "events")
    assert names(world.tiering) == {"events", "events__latest"}


def test_topic_that_is_created_again_keeps_the_name_and_a_name_can_be_taken_back(world: LatestWorld) -> None:
    tiering = world.tiering
    rename_table(tiering.catalog, world.stream(), "events")
    older = world.partitions[0].topic_id
    world.create_again()
    world.append(RECORDS)
    assert names(tiering) == {"events", f"events__{older}", "events__latest"}
    rename_table(tiering.catalog, world.stream(), TOPIC)
    assert {TOPIC, f"events__{older}"} <= names(tiering)
    assert catalogs.given_identifier(tiering.catalog, "kafka", TOPIC) is None


def test_sweep_finds_the_latest_table_whatever_either_is_called(world: LatestWorld) -> None:
    catalog = world.tiering.catalog

    def swept(*, is_latest: bool = False) -> SweptState:
        return SweptTable(catalog, "kafka", TOPIC, world.partitions[0].topic_id, is_latest=is_latest).load()

    catalogs.give_name(catalog, ("kafka", "events"), TOPIC)
    catalogs.rename(catalog, ("kafka", TOPIC), ("kafka", "events"))
    assert swept().latest_name is not None
    rename_table(catalog, world.stream(), "events")
    rename_table(catalog, world.stream(), "again")
    assert names(world.tiering) == {"again", "again__latest"}
    assert swept().latest_name is not None
    assert [table.name() for table in swept(is_latest=True).related] == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("taken", "There is a table kafka.taken of the topic taken"),
        ("two__parts", "A table's name is"),
        ("a.b", "A table's name is"),
        ("", "A table's name is"),
    ],
)
def test_name_that_cant_be_had_changes_nothing(world: LatestWorld, name: str, why: str) -> None:
    tiering = world.tiering
    (taken,) = tiering.broker.create_topic("taken")
    tiering.broker.append_segment(taken, [b"x"])
    tiering.loop().cycle()
    with pytest.raises(Invalid, match=why):
        rename_table(tiering.catalog, world.stream(), name)
    assert TOPIC in names(tiering)
    rename_table(tiering.catalog, tiering.table(taken), "other")
    with pytest.raises(Invalid, match="That is the name of the topic taken"):
        rename_table(tiering.catalog, world.stream(), "taken")


def test_topic_that_comes_under_a_name_that_was_given_to_another_table_says_what_to_do(world: LatestWorld) -> None:
    tiering = world.tiering
    rename_table(tiering.catalog, world.stream(), "events")
    (events,) = tiering.broker.create_topic("events")
    tiering.broker.append_segment(events, [b"x"])
    problem = report_of(tiering.loop().cycle(), events).problem
    assert f"floeberg table rename {TOPIC} NAME" in str(problem)
    rename_table(tiering.catalog, world.stream(), "old_events")
    assert ranges_of(tiering.loop().cycle(), events) == [(0, 1)]
