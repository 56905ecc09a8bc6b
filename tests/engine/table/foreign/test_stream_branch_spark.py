"""What only the stream has, under Spark's own procedures: not seen by queries, not expired, and put back as told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.table.manifests import ManifestReader
from engine.table.stream_branch import STREAM_BRANCH
from tests.engine.table.foreign.foreign_world import SEGMENT_RECORDS, SEGMENTS, ForeignWorld
from tests.engine.table.foreign.spark_sql_process import SparkSqlProcess

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("foreign-spark")]

TABLE = "kafka.orders"
HORIZON = 2 * SEGMENT_RECORDS


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> ForeignWorld:
    """Of each partition's three files two are the stream's alone."""
    foreign = ForeignWorld(tmp_path_factory.mktemp("foreign"))
    foreign.world.writer().move_horizons(foreign.view(), table_starts={0: HORIZON, 1: HORIZON})
    return foreign


@pytest.fixture(scope="module")
def spark(foreign: ForeignWorld) -> Iterator[SparkSqlProcess]:
    with SparkSqlProcess(foreign.world.root / "data") as process:
        yield process


def grown_old(folder: Path) -> None:
    """Spark deletes no file that is younger than a day."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10 * 86_400))


def test_queries_see_what_is_above_the_horizon(foreign: ForeignWorld, spark: SparkSqlProcess) -> None:
    rows = (SEGMENTS * SEGMENT_RECORDS - HORIZON) * len(foreign.partitions)
    assert spark.sql(f"SELECT count(*), min(kafka_offset) FROM {TABLE}") == [[str(rows), str(HORIZON)]]


def test_procedures_that_expire_and_delete_keep_what_only_the_stream_has(
    foreign: ForeignWorld, spark: SparkSqlProcess
) -> None:
    spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1')")
    grown_old(foreign.world.root / "data" / "warehouse")
    spark.sql(f"CALL system.expire_snapshots(table => '{TABLE}', older_than => now(), retain_last => 1)")
    deleted = [row[0] for row in spark.sql(f"CALL system.remove_orphan_files(table => '{TABLE}')")]
    assert not [path for path in deleted if path.endswith(".parquet")]
    assert len(ManifestReader().files(foreign.view()).stream) == 4
    foreign.check_goes_on()


def test_files_that_spark_merges_leave_the_streams_alone(foreign: ForeignWorld, spark: SparkSqlProcess) -> None:
    before = ManifestReader().files(foreign.view()).stream
    spark.sql(f"CALL system.rewrite_data_files(table => '{TABLE}', options => map('rewrite-all', 'true'))")
    foreign.check_goes_on()
    assert ManifestReader().files(foreign.view()).stream == before


def test_branch_that_is_dropped_stops_the_table_until_it_is_put_back_as_the_problem_says(
    foreign: ForeignWorld, spark: SparkSqlProcess
) -> None:
    spark.sql(f"ALTER TABLE {TABLE} DROP BRANCH `{STREAM_BRANCH}`")
    problem = foreign.check_stops()
    assert problem.next_step is not None
    spark.sql(problem.next_step.split(", or")[0])
    foreign.check_recovers()
