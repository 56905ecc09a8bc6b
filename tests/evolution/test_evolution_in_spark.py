"""A few of the cases, read by Spark."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import pytest

from floeberg.sql.spark_session import SparkSession
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.evolution.all_cases import CASES
from tests.evolution.evolving_topic import Warehouse, value_of, without_nulls
from tests.evolution.played_case import PlayedCase, topic_of
from tests.support.served_routes import served
from tests.support.spark_value import plain

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("sql_jvm")]

NAMES = frozenset(
    {
        "promote: in a struct",
        "promote: a decimal past 18 digits, which Parquet keeps otherwise",
        "promote: the values of a map",
        "sibling: in the structs of a list",
    }
)


def test_spark_sees_the_same_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "world")
    played = [PlayedCase(warehouse, case) for case in CASES if str(case) in NAMES]
    assert len(played) == len(NAMES)
    routes = table_door_routes(CatalogView(warehouse.catalog))
    with served(routes) as door, SparkSession(door, namespace="kafka") as spark:
        for one in played:
            names, rows = spark.query(f"SELECT * FROM {topic_of(one.case)}")
            # Put in order here: for Spark it is two jobs more.
            rows.sort(key=itemgetter(names.index("kafka_offset")))
            found = [value_of(without_nulls(dict(zip(names, map(plain, row), strict=True)))) for row in rows]
            assert found == one.plain_rows(), one.case
