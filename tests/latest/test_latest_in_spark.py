"""``__latest`` in Spark: read as it is, and not to be emptied of files that are not its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.table.foreign.spark_sql_process import SparkSqlProcess
from tests.latest.latest_world import LatestWorld, Record

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("foreign-spark")]

TABLE = "kafka.orders__latest"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> LatestWorld:
    world = LatestWorld(tmp_path_factory.mktemp("latest"), partitions=2)
    daemon = world.daemon()
    for number in range(6):
        records: list[Record] = [(b"k%d" % (7 * at % 11), b"%d.%d" % (number, at)) for at in range(9)]
        world.append([*records, (b"k%d" % number, None), (None, b"no key")], number % 2)
        daemon.bring_up()
    world.merge(world.files(0)[:2])
    daemon.bring_up()
    daemon.end()
    return world


@pytest.fixture(scope="module")
def spark(world: LatestWorld) -> Iterator[SparkSqlProcess]:
    with SparkSqlProcess(world.root / "data") as process:
        yield process


def shown(spark: SparkSqlProcess) -> list[tuple[int, int, bytes, bytes]]:
    rows = spark.sql(f"SELECT kafka_partition, kafka_offset, kafka_key, value FROM {TABLE}")
    return sorted((int(part), int(offset), key.encode(), value.encode()) for part, offset, key, value in rows)


def test_spark_shows_the_newest_of_each_key_and_counts_them(world: LatestWorld, spark: SparkSqlProcess) -> None:
    world.check_current()
    assert shown(spark) == world.expected()
    assert spark.sql(f"SELECT count(*) FROM {TABLE}") == [[str(len(world.expected()))]]
    (_, offset, key, _) = world.expected()[0]
    found = spark.sql(f"SELECT kafka_offset FROM {TABLE} WHERE kafka_partition = 0 AND kafka_key = '{key.decode()}'")
    assert found == [[str(offset)]]


@pytest.mark.parametrize(
    "statement",
    [
        f"CALL system.expire_snapshots(table => '{TABLE}', older_than => TIMESTAMP '2100-01-01 00:00:00')",
        f"CALL system.remove_orphan_files(table => '{TABLE}')",
        f"DROP TABLE {TABLE} PURGE",
    ],
)
def test_spark_refuses_to_remove_what_the_table_names(
    world: LatestWorld, spark: SparkSqlProcess, statement: str
) -> None:
    with pytest.raises(AssertionError, match=r"GC is disabled|gc\.enabled"):
        spark.sql(statement)
    world.check_current()
