"""The table changed by Spark: Iceberg's own procedures and SQL, on the catalog that Floeberg commits to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.table.manifests import ManifestReader
from floeberg.demo.sample_orders import ORDER_SCHEMA
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from tests.engine.table.foreign.foreign_world import ForeignWorld
from tests.engine.table.foreign.spark_sql_process import SparkSqlProcess
from tiering.planner import Waiting

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("foreign-spark")]

TABLE = "kafka.orders"
SORTED = """sort_order => 'amount', options => map('rewrite-all', 'true', 'target-file-size-bytes', '20000',
    'max-file-size-bytes', '40000', 'min-file-size-bytes', '1000')"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> ForeignWorld:
    return ForeignWorld(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def spark(foreign: ForeignWorld) -> Iterator[SparkSqlProcess]:
    with SparkSqlProcess(foreign.world.root / "data") as process:
        yield process


def problem_of(foreign: ForeignWorld) -> Corrupt:
    """Why every partition stops; nothing of the table is changed meanwhile."""
    before = foreign.iceberg().metadata_location
    for _ in range(2):
        report = foreign.cycle()
    assert {item.waiting and item.waiting.kind for item in report.partitions} == {Waiting.STOPPED}
    assert foreign.iceberg().metadata_location == before
    problem = report.partitions[0].problem
    assert isinstance(problem, Corrupt)
    assert problem.problem.startswith("somebody else changed the table: ")
    return problem


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(
            [f"CALL system.rewrite_data_files(table => '{TABLE}', options => map('rewrite-all', 'true'))"],
            id="files merged",
        ),
        pytest.param(
            [
                f"CALL system.rewrite_data_files(table => '{TABLE}', strategy => 'sort', {SORTED})",
                f"CALL system.rewrite_manifests('{TABLE}')",
                f"CALL system.expire_snapshots(table => '{TABLE}', older_than => now(), retain_last => 1)",
            ],
            id="sorted by another column, manifests rewritten, history expired",
        ),
        pytest.param(
            [
                f"ALTER TABLE {TABLE} ADD COLUMN note_of_others STRING",
                f"ALTER TABLE {TABLE} RENAME COLUMN customer_name TO customer",
                f"UPDATE {TABLE} SET note_of_others = 'seen' WHERE kafka_offset % 5 = 0",
            ],
            id="columns added, filled and renamed",
        ),
    ],
)
def test_change_that_keeps_every_record_is_adopted(
    foreign: ForeignWorld, spark: SparkSqlProcess, statements: list[str]
) -> None:
    for statement in statements:
        spark.sql(statement)
    foreign.check_goes_on()
    end = foreign.view().ledger[0].end
    assert spark.sql(f"SELECT count(DISTINCT kafka_offset), count(*) FROM {TABLE} WHERE kafka_partition = 0") == [
        [str(end), str(end)]
    ]


def footer_checksums(foreign: ForeignWorld) -> dict[str, int | None]:
    return {file.path: file.footer_checksum for file in ManifestReader().files(foreign.view()).own}


def test_manifests_that_spark_rewrites_keep_the_checksums_of_files(
    foreign: ForeignWorld, spark: SparkSqlProcess
) -> None:
    foreign.check_goes_on()
    before, manifests = footer_checksums(foreign), foreign.iceberg().inspect.manifests().column("path").to_pylist()
    assert before
    assert None not in before.values()
    spark.sql(f"CALL system.rewrite_manifests('{TABLE}')")
    assert foreign.iceberg().inspect.manifests().column("path").to_pylist() != manifests
    assert footer_checksums(foreign) == before
    foreign.check_goes_on()


def grown_old(folder: Path) -> None:
    """Spark deletes no file that is younger than a day."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10 * 86_400))


def test_procedures_that_delete_files_leave_what_iceberg_does_not_know(
    foreign: ForeignWorld, spark: SparkSqlProcess
) -> None:
    long_schema = json.dumps({**json.loads(ORDER_SCHEMA), "doc": "x" * (64 << 10)})
    foreign.world.writer().add_schemas(foreign.view(), {77: long_schema})
    copied, state = OffsetRange(start=0, end=200), AuxiliaryState(leader_epochs=b"0\n1\n0 0\n", producer_snapshot=None)
    AuxiliaryStore().put(foreign.view(), 0, copied, state)
    location = foreign.view().location
    orphan = f"{location}/data/left-behind.parquet"
    foreign.view().warehouse.write_bytes(orphan, b"of nobody")
    grown_old(foreign.world.root / "data" / "warehouse")
    spark.sql(f"CALL system.expire_snapshots(table => '{TABLE}', older_than => now(), retain_last => 1)")
    deleted = [row[0] for row in spark.sql(f"CALL system.remove_orphan_files(table => '{TABLE}')")]
    assert any(path.endswith("left-behind.parquet") for path in deleted), "the procedure deletes what it does not know"
    assert not foreign.view().warehouse.exists(orphan)
    assert AuxiliaryStore().get(foreign.view(), 0, copied) == state
    assert foreign.view().codec.schemas[77] == long_schema, "a loader of its own reads the file"
    foreign.check_goes_on()


MERGE_ON_READ = f"""ALTER TABLE {TABLE} SET TBLPROPERTIES (
    'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"""


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        ([f"DELETE FROM {TABLE} WHERE kafka_partition = 1 AND kafka_offset = 333"], "1 of "),
        (
            [MERGE_ON_READ, f"DELETE FROM {TABLE} WHERE kafka_partition = 1 AND kafka_offset = 333"],
            "rows were deleted: the delete file",
        ),
        (
            [MERGE_ON_READ, f"UPDATE {TABLE} SET channel = 'door' WHERE kafka_partition = 1 AND kafka_offset = 333"],
            "rows were deleted: the delete file",
        ),
        (
            [f"INSERT INTO {TABLE} SELECT * FROM {TABLE} WHERE kafka_partition = 1 AND kafka_offset = 333"],
            "rows were added: this offset is there twice",
        ),
    ],
)
def test_change_of_rows_stops_tiering_until_it_is_rolled_back(
    foreign: ForeignWorld, spark: SparkSqlProcess, statements: list[str], named: str
) -> None:
    for statement in statements:
        spark.sql(statement)
    problem = problem_of(foreign)
    assert named in problem.problem
    assert "by spark" in problem.problem
    assert "partition 1" in problem.problem
    assert foreign.refused(0, OffsetRange(start=0, end=600)) == ""
    foreign.refused(1, OffsetRange(start=0, end=600))
    assert any(named in finding.message for finding in foreign.fsck().findings)
    # What the problem itself says is to be done.
    assert problem.next_step is not None
    spark.sql(problem.next_step.split(", then")[0])
    foreign.check_recovers()
