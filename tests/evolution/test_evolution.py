"""Each case in a topic of its own, tiered into a real table, read back by offset and by engines that know no more than
Iceberg."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.table.columns import value_fields
from floeberg.sql.duckdb_session import DuckdbSession
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.evolution.all_cases import CASES
from tests.evolution.case import Case
from tests.evolution.evolving_topic import Warehouse, value_of, without_nulls
from tests.evolution.played_case import PlayedCase, topic_of
from tests.support.served_routes import served

pytestmark = pytest.mark.xdist_group("evolution")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PlayedCase]:
    warehouse = Warehouse(tmp_path_factory.mktemp("evolution") / "world")
    return {str(case): PlayedCase(warehouse, case) for case in CASES}


@pytest.fixture(scope="module")
def door(played: dict[str, PlayedCase]) -> Iterator[str]:
    catalog = next(iter(played.values())).topic.warehouse.catalog
    with served(table_door_routes(CatalogView(catalog))) as url:
        yield url


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_byte_comes_back_by_offset_and_every_column_holds_its_field(
    case: Case, played: dict[str, PlayedCase]
) -> None:
    one = played[str(case)]
    topic = one.topic
    fields = value_fields(topic.reopened().iceberg_schema, topic.table.layout)
    assert {field.name: str(field.type) for field in fields} == dict(case.columns)
    rows = topic.rows()
    assert [own_of(value_of(row)) for row in rows] == [version.row for version in one.versions]
    assert ["kafka_value_raw" in row for row in rows] == [version.is_raw for version in one.versions]
    assert ["kafka_error" in row for row in rows] == [version.is_raw for version in one.versions]
    assert topic.read_back() == topic.values
    assert topic.findings() == []
    assert one.conflicts == case.conflicts


def own_of(row: dict[str, Any]) -> dict[str, Any]:
    """Without what the JSON codec adds of how the text was spelled."""
    return {name: value for name, value in row.items() if name != "kafka_form"}


def test_duckdb_sees_the_same_rows(door: str, played: dict[str, PlayedCase]) -> None:
    with DuckdbSession(door, namespace="kafka") as duckdb:
        for one in played.values():
            names, rows = duckdb.query(f"SELECT * FROM {topic_of(one.case)} ORDER BY kafka_offset")
            found = [own_of(value_of(without_nulls(dict(zip(names, row, strict=True))))) for row in rows]
            assert found == one.plain_rows(), one.case


@pytest.mark.parametrize("narrow", ["a < 0", "a <= -2147483648"])
def test_values_of_old_files_are_found_by_a_filter_of_the_promoted_type(
    narrow: str, door: str, played: dict[str, PlayedCase]
) -> None:
    one = played["promote: int to long"]
    topic = one.topic
    loaded = topic.warehouse.catalog.load_table(topic.table.identifier)
    count = sum(value == topic.values[0] for value in topic.values)
    assert loaded.scan(row_filter=narrow).to_arrow().num_rows == count
    assert loaded.scan(row_filter="a > 4611686018427387903").to_arrow().num_rows == len(topic.values) - count
    with DuckdbSession(door, namespace="kafka") as duckdb:
        assert duckdb.query(f"SELECT count(*) FROM {topic_of(one.case)} WHERE {narrow}")[1] == [(count,)]
