"""A table that is dropped: its names and its files go, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Invalid, Unavailable
from engine.table.companion_folder import auxiliary_folder, erasure_folder
from engine.warehouse.warehouse import Warehouse
from floeberg.tables.drop import AbandonedFolder, remove_files, require_no_only_copy, take_from_catalog
from tests.tiering.tiering_world import TieringWorld, report_of
from topics.topic_rule import TopicRule


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)


def test_dropped_table_begins_again_in_another_format_and_others_stay(world: TieringWorld) -> None:
    orders, notes = (world.broker.create_topic(name)[0] for name in ("orders", "notes"))
    for partition in (orders, notes):
        world.broker.append_segment(partition, [b"a", b"b"])
    world.loop().cycle()
    table = world.table(orders)
    beside = (f"{auxiliary_folder(table.location, 0)}/0.aux", f"{erasure_folder(table.location)}/report.json")
    for path in beside:
        with table.warehouse.create(path) as file:
            file.write(b"{}")
            file.commit()
    assert remove_files(take_from_catalog(world.catalog, table)) > 3
    assert list(table.warehouse.list(table.location)) == []
    assert list(map(table.warehouse.exists, beside)) == [False, True], "reports of erasures outlive it"
    world.loop(
        rules=(TopicRule(pattern="orders", value_format="raw"), TopicRule(pattern="*", value_format="string"))
    ).cycle()
    assert world.rows(orders) == [(0, b"a"), (1, b"b")]
    assert world.rows(notes) == [(0, "a"), (1, "b")]


def test_power_that_fails_between_the_two_steps_leaves_a_partition_that_says_so(world: TieringWorld) -> None:
    (orders,) = world.broker.create_topic("orders")
    world.broker.append_segment(orders, [b"a"])
    world.loop().cycle()
    folders = take_from_catalog(world.catalog, world.table(orders))
    problem = report_of(world.loop().cycle(), orders).problem
    assert "it was dropped" in str(problem)
    assert "remove the folder and start Floeberg again" in str(problem)
    remove_files(folders)
    world.loop().cycle()
    assert world.rows(orders) == [(0, "a")]


def test_folder_with_another_table_in_it_is_not_removed(world: TieringWorld) -> None:
    (orders,) = world.broker.create_topic("orders")
    world.broker.append_segment(orders, [b"a"])
    world.loop().cycle()
    table = world.table(orders)
    loaded = world.catalog.load_table(table.identifier)
    world.catalog.register_table(("kafka", "copy"), loaded.metadata_location)
    with pytest.raises(Invalid, match=r"Another table lies in its folder: kafka\.copy"):
        take_from_catalog(world.catalog, table)
    assert world.rows(orders) == [(0, "a")]


def test_native_topic_keeps_what_may_be_its_only_copy(world: TieringWorld) -> None:
    world.broker.create_topic("native", native=True)
    world.broker.create_topic("watched")
    with pytest.raises(Invalid, match="what the broker has dropped is nowhere else"):
        require_no_only_copy(world.broker.port, "native")
    require_no_only_copy(world.broker.port, "watched")
    require_no_only_copy(world.broker.port, "deleted-in-kafka")


class StuckWarehouse(Warehouse):
    def delete_batch(self, paths: object) -> dict[str, str]:
        return {str(path): "held by somebody" for path in list(paths)[:1]}  # type: ignore[call-overload]


def test_file_that_stays_is_told_with_its_folder(world: TieringWorld) -> None:
    (orders,) = world.broker.create_topic("orders")
    world.broker.append_segment(orders, [b"a"])
    world.loop().cycle()
    folder = AbandonedFolder(warehouse=StuckWarehouse(properties={}), location=world.table(orders).location)
    with pytest.raises(Unavailable, match="1 of its files stay: held by somebody") as caught:
        remove_files([folder])
    assert folder.location in str(caught.value)
