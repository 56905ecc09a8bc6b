"""What ``floeberg check`` says of the tables there are: which can't be read, which were made for other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from floeberg.settings import BrokerSettings, Settings
from floeberg.settings.topic import TopicSettings
from floeberg.setup.check_result import Verdict
from floeberg.setup.checks import check_tables
from floeberg.tables.topic_tables import TopicTables
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    world = TieringWorld(tmp_path)
    for topic in ("orders", "payments"):
        (partition,) = world.broker.create_topic(topic)
        world.broker.append_segment(partition, [b"a"])
    assert world.loop(rules=(TopicRule(pattern="*", value_format="string"),)).cycle().commits == 2
    return world


def checked(world: TieringWorld, folder: Path, **topic: Any) -> list[tuple[str, Verdict, str]]:
    settings = Settings(
        broker=BrokerSettings(bootstrap="b:1", log_dirs=(folder,)),
        data_dir=folder / "data",
        topics=(TopicSettings(name="orders", **topic), TopicSettings(name="*", value="string")),
    )
    found = check_tables(
        TopicTables(open_catalog(embedded_catalog_properties(folder / "data")), "kafka"), settings, world.clock
    )
    return [(one.name, one.verdict, one.message) for one in found]


def test_tables_of_these_settings_are_good(world: TieringWorld, tmp_path: Path) -> None:
    ((name, verdict, _),) = checked(world, tmp_path, value="string")
    assert (name, verdict) == ("tables", Verdict.GOOD)


def test_table_that_was_made_for_another_format_is_named_before_the_daemon_runs(
    world: TieringWorld, tmp_path: Path
) -> None:
    ((name, verdict, message),) = checked(world, tmp_path, value="json")
    assert (name, verdict) == ("table of orders", Verdict.WRONG)
    assert 'the settings say value = "json", ' in message


def test_table_that_cannot_be_read_is_named_and_the_others_are_looked_at(world: TieringWorld, tmp_path: Path) -> None:
    location = world.catalog.load_table(("kafka", "payments")).metadata_location
    Path(location.removeprefix("file://")).write_bytes(b"{")
    other, damaged = checked(world, tmp_path, value="json")
    assert damaged[:2] == ("table kafka.payments", Verdict.WRONG)
    assert other[:2] == ("table of orders", Verdict.WRONG)


def test_columns_that_rows_cannot_be_sorted_by_are_named_with_what_becomes_of_the_others(
    world: TieringWorld, tmp_path: Path
) -> None:
    lacking, has_parts = checked(world, tmp_path, value="string", cluster_by=("vlaue", "kafka_headers", "value"))
    assert lacking[:2] == has_parts[:2] == ("cluster_by of orders", Verdict.NOTE)
    assert "by vlaue: it has no such column; it is clustered by value alone" in lacking[2]
    assert "by kafka_headers, a column of type list<" in has_parts[2]
    ((_, verdict, message),) = checked(world, tmp_path, value="string", cluster_by=("vlaue",))
    assert (verdict, "its rows stay in stream order" in message) == (Verdict.NOTE, True)


def test_columns_that_rows_can_be_sorted_by_are_good(world: TieringWorld, tmp_path: Path) -> None:
    ((name, verdict, _),) = checked(world, tmp_path, value="string", cluster_by=("value", "kafka_timestamp"))
    assert (name, verdict) == ("tables", Verdict.GOOD)
