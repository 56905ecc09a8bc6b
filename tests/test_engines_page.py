"""docs/engines.md: its Python programs run over a table that Floeberg wrote, and print what stands under them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.formats.format_facts import FORMATS
from floeberg.java.maven_jars import ICEBERG_SPARK, class_path, resolve_jars
from floeberg.sql.duckdb_session import extension_file
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.support.served_routes import served
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "engines.md").read_text()
DOOR = "http://127.0.0.1:7811"
CLICKS = 2000


def program(engine: str) -> tuple[str, str]:
    """The section's program, and what the page says that it prints."""
    found = re.search(rf"^## {engine}\n.*?^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no program for {engine}"
    assert "\n## " not in found[0], "the program is another section's"
    return found[1], found[2]


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def output_of(code: str, door: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(replaced(code, DOOR, door), "docs/engines.md", "exec"), {})
    return printed.getvalue()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TieringWorld:
    """The quickstart's clicks, tiered: three partitions, two segments each."""
    made = TieringWorld(tmp_path_factory.mktemp("engines") / "world")
    partitions = made.broker.create_topic("clicks", partitions=3)
    for half in range(2):
        for partition in partitions:
            mine = range(half * CLICKS // 2 + partition.partition + 1, (half + 1) * CLICKS // 2 + 1, 3)
            values = [b'{"user":"user-%d","url":"/item/%d","ms":%d}' % (n % 50, n % 7, n * 3 % 400) for n in mine]
            made.broker.append_segment(partition, values, keys=[b"user-%d" % (n % 50) for n in mine])
    loop = made.loop(rules=(TopicRule(pattern="*", value_format=FORMATS["json"].name),))
    for _ in range(3):
        loop.cycle()
    assert sum(made.tiered_end(partition) for partition in partitions) == CLICKS
    return made


@pytest.fixture(scope="module")
def door(world: TieringWorld) -> Iterator[str]:
    with served(table_door_routes(CatalogView(world.catalog))) as url:
        yield url


@pytest.mark.parametrize("engine", ["Polars", "PyIceberg"])
def test_program_prints_what_stands_under_it(door: str, engine: str) -> None:
    code, expected = program(engine)
    assert output_of(code, door) == expected


def test_duckdb_prints_what_stands_under_it(door: str) -> None:
    code, expected = program("DuckDB")
    loaded = "; ".join(f"LOAD '{extension_file(name)}'" for name in ("httpfs", "avro", "iceberg"))
    assert output_of(replaced(code, "INSTALL iceberg; LOAD iceberg", loaded), door) == expected


def test_clickhouse_prints_what_stands_under_it(
    world: TieringWorld, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("chdb", reason="chDB is 0.5 GB: make test-engines installs it")
    monkeypatch.chdir(world.root)
    code, expected = program("ClickHouse")
    assert output_of(code, door) == expected


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("sql_jvm")
def test_spark_prints_what_stands_under_it(door: str) -> None:
    code, expected = program("Spark")
    jar = f'"spark.driver.extraClassPath", "{class_path(resolve_jars(ICEBERG_SPARK))}"'
    code = replaced(code, f'"spark.jars.packages", "{ICEBERG_SPARK[0]}"', jar)
    try:
        assert output_of(code, door) == expected
    finally:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        assert session is not None
        session.stop()
