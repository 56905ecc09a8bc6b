"""SQL engines that attach to the table door by its URL."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from engine.errors import Unavailable
from floeberg.sql.duckdb_session import DuckdbSession
from floeberg.sql.spark_session import SparkSession
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.support.served_routes import served

COUNT_AND_SUM = "SELECT kafka_partition, count(*), sum(amount) FROM shop.orders GROUP BY 1 ORDER BY 1"
EXPECTED = [
    (partition, len(range(partition, 1000, 3)), sum(offset / 4 for offset in range(partition, 1000, 3)))
    for partition in range(3)
]


def test_duckdb_counts_the_rows(door: str) -> None:
    with DuckdbSession(door) as duckdb:
        names, rows = duckdb.query(COUNT_AND_SUM.replace("shop.orders", "floeberg.shop.orders"))
        tables = duckdb.query("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shop' ORDER BY 1")[1]
    assert rows == EXPECTED
    assert names[0] == "kafka_partition"
    assert tables == [("empty",), ("orders",)]


def test_duckdb_finds_tables_without_their_namespace_when_it_is_named(door: str) -> None:
    with DuckdbSession(door, namespace="shop") as duckdb:
        assert duckdb.query("SELECT count(*) FROM orders")[1] == [(1000,)]


def test_duckdb_has_the_values_columns_first_where_a_table_has_no_namespace_before_it(door: str) -> None:
    with DuckdbSession(door, namespace="shop", kafka_columns_last=True) as duckdb:
        stored = duckdb.query("SELECT * FROM floeberg.shop.orders LIMIT 1")[0]
        value_columns = [name for name in stored if not name.startswith("kafka_")]
        kafka_columns = [name for name in stored if name.startswith("kafka_")]
        assert stored == kafka_columns + value_columns
        for statement in ("SELECT * FROM orders LIMIT 1", "WITH a AS (FROM orders) FROM a, orders b LIMIT 1"):
            assert duckdb.query(statement)[0][: len(stored)] == value_columns + kafka_columns
        assert duckdb.query(COUNT_AND_SUM.replace("shop.orders", "orders"))[1] == EXPECTED
        assert duckdb.query("SHOW TABLES")[1] == [("empty",), ("orders",)]
        duckdb.query("CREATE TEMP TABLE orders AS SELECT 1 AS mine")
        assert duckdb.query("FROM temp.orders") == (["mine"], [(1,)])


def test_duckdb_with_the_token_is_let_in_and_without_it_is_not(catalog: Catalog) -> None:
    with served(table_door_routes(CatalogView(catalog), tokens=("secret",))) as url:
        with DuckdbSession(url, token="secret", namespace="shop") as duckdb:
            assert duckdb.query("SELECT count(*) FROM orders")[1] == [(1000,)]
        with pytest.raises(Unavailable, match="Unauthorized"):
            DuckdbSession(url)


def test_pyiceberg_reads_and_is_refused_to_write(door: str) -> None:
    catalog = RestCatalog("floeberg", uri=door)
    assert sorted(catalog.list_namespaces()) == [("bare",), ("shop",)]
    table = catalog.load_table("shop.orders")
    assert table.scan(row_filter="kafka_offset >= 990").to_arrow().num_rows == 10
    assert catalog.table_exists("shop.orders")
    assert not catalog.table_exists("shop.none")
    with pytest.raises(NotImplementedError, match="does not support endpoint: POST"):
        table.transaction().set_properties({"a": "b"}).commit_transaction()


def test_polars_reads_through_pyiceberg(door: str) -> None:
    import polars

    frame = polars.scan_iceberg(RestCatalog("floeberg", uri=door).load_table("shop.orders"))
    assert frame.select(polars.len()).collect().item() == 1000


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("sql_jvm")
def test_spark_counts_the_rows_and_walks_the_catalog(door: str) -> None:
    with SparkSession(door, namespace="shop") as spark:
        assert spark.query(COUNT_AND_SUM)[1] == EXPECTED
        assert spark.query("SELECT count(*) FROM orders")[1] == [(1000,)]
        assert sorted(row[0] for row in spark.query("SHOW NAMESPACES")[1]) == ["bare", "shop"]
        assert sorted(row[1] for row in spark.query("SHOW TABLES IN shop")[1]) == ["empty", "orders"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("sql_jvm")
def test_spark_has_the_token_and_not_among_what_a_jvm_is_started_with(catalog: Catalog) -> None:
    with (
        served(table_door_routes(CatalogView(catalog), tokens=("secret",))) as url,
        SparkSession(url, token="secret", namespace="shop") as spark,
    ):
        assert spark.query("SELECT count(*) FROM orders")[1] == [(1000,)]
        # These are the words of the JVM's command line.
        started_with = spark._session.sparkContext.getConf().getAll()
        assert not any("secret" in value for _, value in started_with)
