"""The table changed by another program, through pyiceberg: what keeps every record is adopted, the rest stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from engine.table.proof.verifier import Verifier
from tests.engine.table.foreign.foreign_rewrites import rewrite_in_no_order, rewrite_one_file
from tests.engine.table.foreign.foreign_world import ForeignWorld
from tiering.planner import Waiting

# One table for all: what a test breaks it puts back, as an operator would, and tiering has to go on from there.
pytestmark = pytest.mark.xdist_group("foreign")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> ForeignWorld:
    return ForeignWorld(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> ForeignWorld:
    """For changes that stay: rows in no order are read slowly, and here are few."""
    return ForeignWorld(tmp_path_factory.mktemp("rewritten"))


def expire_all_but_the_newest(table: Table) -> None:
    current = table.metadata.current_snapshot_id
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots if snapshot.snapshot_id != current]
    with table.transaction():
        table.maintenance.expire_snapshots().by_ids(ids).commit()


def rewrite_and_expire(table: Table) -> None:
    rewrite_in_no_order(table)
    expire_all_but_the_newest(table.refresh())


def add_and_rename_columns(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note_of_others", StringType())
        update.rename_column("created_at", "made_at")
        update.rename_column("shipping.city", "town")
        update.rename_column("items.element.quantity", "pieces")


def drop_value_column(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("channel")


def set_properties(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "somebody", "write.parquet.compression-level": "9"})


def delete_one_row(table: Table) -> None:
    table.delete("kafka_partition == 1 and kafka_offset == 333")


def delete_a_segment(table: Table) -> None:
    table.delete("kafka_partition == 1 and kafka_offset >= 200 and kafka_offset < 400")


def change_one_row(table: Table) -> None:
    wanted = "kafka_partition == 1 and kafka_offset == 333"
    row = table.scan(wanted).to_arrow()
    changed = row.set_column(row.schema.get_field_index("channel"), "channel", pa.array(["door"]))
    table.overwrite(changed.cast(row.schema), overwrite_filter=wanted)


def double_some_rows(table: Table) -> None:
    table.append(table.scan("kafka_partition == 1 and kafka_offset >= 330 and kafka_offset < 340").to_arrow())


def add_rows_that_kafka_never_had(table: Table) -> None:
    rows = table.scan("kafka_partition == 1 and kafka_offset >= 590 and kafka_offset < 600").to_arrow()
    at = rows.schema.get_field_index("kafka_offset")
    later = pa.array([offset + 100_000 for offset in rows["kafka_offset"].to_pylist()])
    table.append(rows.set_column(at, rows.schema.field(at), later))


def add_rows_of_a_partition_that_is_none(table: Table) -> None:
    rows = table.scan("kafka_partition == 1 and kafka_offset >= 590 and kafka_offset < 600").to_arrow()
    at = rows.schema.get_field_index("kafka_partition")
    table.append(rows.set_column(at, rows.schema.field(at), pa.array([7] * len(rows), pa.int32())))


@pytest.mark.parametrize(
    ("change", "named", "hurt"),
    [
        (delete_one_row, "partition 1 offsets [200, 400): 1 of 200 records are missing", True),
        (delete_a_segment, "partition 1 offsets [200, 400): 200 of 200 records are missing", True),
        (change_one_row, "partition 1 offsets [200, 400): records were changed", True),
        (double_some_rows, "partition 1 offsets [330, 331): rows were added", False),
        (add_rows_that_kafka_never_had, "rows were added outside of [0, ", False),
        (add_rows_of_a_partition_that_is_none, "partition 7: 10 rows are there and no ledger line", False),
    ],
)
def test_change_of_rows_stops_tiering_and_says_which(
    foreign: ForeignWorld, change: Callable[[Table], None], named: str, hurt: bool
) -> None:
    sealed = foreign.view().snapshot_id
    change(foreign.iceberg())
    problem = foreign.check_stops()
    assert named in problem.problem
    assert str(foreign.view().snapshot_id) in problem.problem
    # What is intact is read as ever; the range that was touched gives the right records or an error.
    assert foreign.refused(0, OffsetRange(start=0, end=600)) == ""
    assert foreign.refused(1, OffsetRange(start=0, end=200)) == ""
    assert foreign.refused(1, OffsetRange(start=400, end=600)) == ""
    assert ("somebody else changed the table" in foreign.refused(1, OffsetRange(start=150, end=450))) == hurt
    with pytest.raises(Unavailable, match="somebody else changed the table"):
        Verifier().verified_range(foreign.view(), 0, OffsetRange(start=0, end=200))
    assert any(named in finding.message for finding in foreign.fsck().findings)
    assert f"rollback_to_snapshot('kafka.orders', {sealed})" in (problem.next_step or "")
    assert sealed is not None
    foreign.iceberg().manage_snapshots().rollback_to_snapshot(sealed).commit()
    foreign.check_recovers()


def edit_the_ledger(table: Table) -> None:
    with table.transaction() as transaction:
        text = table.properties["floeberg.ledger.1"].replace('"start": 0', '"start": 200')
        transaction.set_properties({"floeberg.ledger.1": text})


def remove_a_ledger_line(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.remove_properties("floeberg.ledger.1")


@pytest.mark.parametrize("change", [edit_the_ledger, remove_a_ledger_line])
def test_edited_ledger_is_named_and_its_values_are_found_again(
    foreign: ForeignWorld, change: Callable[[Table], None]
) -> None:
    before = foreign.iceberg()
    foreign.append_segments()
    change(foreign.iceberg())
    problem = foreign.check_stops()
    assert "Floeberg's own properties were edited" in problem.problem
    assert f"floeberg.ledger.1; the values before are in {before.metadata_location}" in problem.problem
    assert any("properties were edited" in finding.message for finding in foreign.fsck().findings)
    with foreign.iceberg().transaction() as transaction:
        transaction.set_properties({"floeberg.ledger.1": before.properties["floeberg.ledger.1"]})
    foreign.check_recovers()


def test_branch_set_back_before_our_commits_is_named_and_put_forward_again(foreign: ForeignWorld) -> None:
    first, end = foreign.view().snapshot_id, foreign.view().ledger[0].end
    foreign.append_segments()
    foreign.cycle()
    newest = foreign.view().snapshot_id
    assert first is not None
    assert newest not in {None, first}
    foreign.iceberg().manage_snapshots().rollback_to_snapshot(first).commit()
    problem = foreign.check_stops()
    assert f"its branch was set to snapshot {first}, whose history lacks Floeberg's newest commit" in problem.problem
    assert f"offsets [{end}, {end + 200})" in problem.problem
    assert f"set_current_snapshot('kafka.orders', {newest})" in (problem.next_step or "")
    assert foreign.refused(0, OffsetRange(start=0, end=600)) == ""
    assert "somebody else changed the table" in foreign.refused(0, OffsetRange(start=end - 100, end=end + 100))
    foreign.iceberg().manage_snapshots().set_current_snapshot(newest).commit()
    foreign.check_recovers()


def rename_a_column_of_kafka(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("kafka_key", "the_key")


def name_it_back(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("the_key", "kafka_key")


def partition_by_more(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("channel", IdentityTransform())


def partition_as_before(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("channel")


@pytest.mark.parametrize(
    ("change", "back", "named"),
    [
        (rename_a_column_of_kafka, name_it_back, "the column kafka_key was renamed to the_key"),
        (partition_by_more, partition_as_before, "no longer by kafka_partition"),
    ],
)
def test_columns_of_kafka_and_partitioning_are_not_to_be_changed(
    foreign: ForeignWorld, change: Callable[[Table], None], back: Callable[[Table], None], named: str
) -> None:
    change(foreign.iceberg())
    problem = foreign.check_stops()
    assert named in problem.problem
    foreign.check_reads(600)
    back(foreign.iceberg())
    foreign.check_recovers()


def test_dropped_table_is_not_begun_anew_over_its_files(foreign: ForeignWorld) -> None:
    table = foreign.iceberg()
    table.catalog.drop_table("kafka.orders")
    for loop in (foreign.loop, foreign.world.loop(rules=(foreign.rule,))):
        for _ in range(2):
            report = loop.cycle()
        problems = [str(item.problem) for item in report.partitions]
        assert len(problems) == 2
        assert all("somebody else changed the table: it was dropped" in problem for problem in problems)
    assert not table.catalog.table_exists("kafka.orders")
    table.catalog.register_table("kafka.orders", table.metadata_location)
    foreign.check_recovers()


@pytest.mark.parametrize(
    "change",
    [
        set_properties,
        expire_all_but_the_newest,
        rewrite_one_file,
        rewrite_in_no_order,
        add_and_rename_columns,
        rewrite_and_expire,
        drop_value_column,
    ],
)
def test_change_that_keeps_every_record_is_adopted(rewritten: ForeignWorld, change: Callable[[Table], None]) -> None:
    change(rewritten.iceberg())
    rewritten.check_goes_on()


def delete_then_expire(table: Table) -> None:
    delete_one_row(table)
    expire_all_but_the_newest(table.refresh())


def test_rows_deleted_and_the_history_expired_are_missed_all_the_same(tmp_path: Path) -> None:
    foreign = ForeignWorld(tmp_path)
    delete_then_expire(foreign.iceberg())
    problem = foreign.check_stops()
    assert "partition 1 offsets [333, 334): 1 records of 600 are missing" in problem.problem
    assert "restore the snapshot" in (problem.next_step or "")
    assert foreign.refused(1, OffsetRange(start=400, end=600)) == ""


def test_another_table_under_the_name_is_left_alone(foreign: ForeignWorld) -> None:
    table = foreign.iceberg()
    catalog, schema = table.catalog, table.schema()
    catalog.drop_table("kafka.orders")
    catalog.create_table("kafka.orders", schema=schema)
    for _ in range(2):
        report = foreign.cycle()
    assert {item.waiting and item.waiting.kind for item in report.partitions} == {Waiting.STOPPED}
    assert catalog.load_table("kafka.orders").metadata.current_snapshot_id is None
