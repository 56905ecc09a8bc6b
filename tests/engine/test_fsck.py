"""Every kind of damage is planted in a table that was whole, and has to be named; the whole table has no finding."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.digest import RangeDigest
from engine.fsck import FsckProgress, fsck_table
from engine.fsck_report import Damage, FsckReport, Severity
from engine.offset_range import OffsetRange
from engine.table.data_file import FileDescription
from engine.table.topic_table import SKIPPED_PREFIX
from floeberg.sample_orders import sample_order_blocks
from tests.engine.stored_orders import SEGMENT_RECORDS, TOPIC, StoredOrders, order_records, store_orders, with_value

MIDDLE = OffsetRange(start=SEGMENT_RECORDS, end=2 * SEGMENT_RECORDS)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> StoredOrders:
    return store_orders(tmp_path_factory.mktemp("pristine") / "data")


@pytest.fixture
def orders(pristine: StoredOrders) -> Iterator[StoredOrders]:
    """The stored topic, put back as it was behind the test (paths in metadata are absolute: a copy has others)."""
    saved = pristine.folder.with_name("saved")
    shutil.copytree(pristine.folder, saved)
    yield pristine
    shutil.rmtree(pristine.folder)
    saved.rename(pristine.folder)


def check(orders: StoredOrders, *, with_log: bool = True, may_be_compacted: bool = False) -> FsckReport:
    log_dirs = [orders.log_dir] if with_log else []
    return fsck_table(orders.table(), log_dirs=log_dirs, may_be_compacted=may_be_compacted)


def damages(report: FsckReport) -> set[Damage]:
    return {finding.damage for finding in report.findings}


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)


def test_whole_table_has_no_finding_and_is_compared_with_the_log(orders: StoredOrders) -> None:
    report = check(orders)
    assert report.findings == ()
    assert report.is_healthy
    assert [partition.partition for partition in report.partitions] == [0, 1]
    for partition in report.partitions:
        assert partition.ledger == OffsetRange(start=0, end=3 * SEGMENT_RECORDS)
        assert partition.compared == (partition.ledger,)
        assert (partition.file_count, partition.record_count) == (3, 3 * SEGMENT_RECORDS)
        assert partition.digest == orders.table().ledger[partition.partition].digest.to_text()


def test_report_is_json_with_totals_and_findings(orders: StoredOrders) -> None:
    orders.path_of(orders.files[0][1]).unlink()
    told = json.loads(check(orders, with_log=False).to_json())
    assert told["healthy"] is False
    assert told["record_count"] == 6 * SEGMENT_RECORDS
    (finding,) = told["findings"]
    assert finding["damage"] == "missing_file"
    assert finding["range"] == [MIDDLE.start, MIDDLE.end]
    assert (finding["topic"], finding["partition"], finding["severity"]) == (TOPIC, 0, "error")


def test_progress_reaches_the_total_and_never_goes_back(orders: StoredOrders) -> None:
    seen: list[FsckProgress] = []
    fsck_table(orders.table(), log_dirs=[orders.log_dir], on_progress=seen.append)
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)
    assert seen[-1].done_bytes == seen[-1].total_bytes > 0


def test_missing_file_is_named_with_its_offsets(orders: StoredOrders) -> None:
    lost = orders.files[1][1]
    orders.path_of(lost).unlink()
    (finding,) = check(orders).findings
    assert finding.damage is Damage.MISSING_FILE
    assert (finding.partition, finding.range, finding.file) == (1, MIDDLE, lost.path)
    assert finding.next_step


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_flipped_byte_in_a_data_page_is_named(orders: StoredOrders, share: float) -> None:
    damaged = orders.files[0][0]
    path = orders.path_of(damaged)
    metadata = pq.read_metadata(path)
    last = metadata.row_group(0).column(metadata.num_columns - 1)
    pages_end = last.data_page_offset + last.total_compressed_size
    flip_byte(path, 4 + int((pages_end - 8) * share))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.DAMAGED_FILE
    assert (finding.partition, finding.range, finding.file) == (0, damaged.range, damaged.path)


def test_flipped_byte_in_the_footer_is_named(orders: StoredOrders) -> None:
    damaged = orders.files[0][0]
    path = orders.path_of(damaged)
    content = path.read_bytes()
    flip_byte(path, content.rindex(b"floeberg.digest") + 30)
    report = check(orders)
    assert Damage.DAMAGED_FILE in damages(report)
    assert {finding.file for finding in report.findings if finding.damage is Damage.DAMAGED_FILE} == {damaged.path}


def test_truncated_file_is_named_by_its_size_and_as_unreadable(orders: StoredOrders) -> None:
    damaged = orders.files[0][2]
    path = orders.path_of(damaged)
    path.write_bytes(path.read_bytes()[:-100])
    report = check(orders)
    assert damages(report) == {Damage.WRONG_SIZE, Damage.DAMAGED_FILE}
    assert {finding.file for finding in report.findings} == {damaged.path}


def test_size_that_the_manifest_has_wrong_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    orders.replace_entry(file, replace(file, size_bytes=file.size_bytes + 1))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.WRONG_SIZE
    assert str(file.size_bytes + 1) in finding.message


def test_count_that_the_manifest_has_wrong_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    orders.replace_entry(file, replace(file, record_count=file.record_count + 1))
    assert Damage.WRONG_COUNT in damages(check(orders))


def test_duplicated_range_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    again = replace(file, path=file.path.replace("-first.parquet", "-second.parquet"))
    shutil.copy(orders.path_of(file), orders.path_of(again))
    orders.add_entry(again)
    (finding,) = check(orders).findings
    assert finding.damage is Damage.DUPLICATED_RANGE
    assert (finding.partition, finding.range) == (0, MIDDLE)
    assert file.path in finding.message
    assert again.path in finding.message


def test_file_that_the_manifests_name_twice_is_a_duplicated_range(orders: StoredOrders) -> None:
    orders.add_entry(orders.files[1][0])
    (finding,) = check(orders).findings
    assert finding.damage is Damage.DUPLICATED_RANGE
    assert finding.file == orders.files[1][0].path


@pytest.mark.parametrize("index", [0, 1, 2], ids=["head", "middle", "tail"])
def test_lost_range_is_named(orders: StoredOrders, index: int) -> None:
    lost = orders.files[0][index]
    orders.drop_entry(lost)
    findings = [finding for finding in check(orders).findings if finding.damage is not Damage.LOG_DIFFERS]
    (finding,) = findings
    assert finding.damage is Damage.LOST_RANGE
    assert (finding.partition, finding.range) == (0, lost.range)
    assert str(SEGMENT_RECORDS) in finding.message


def test_two_files_with_each_others_contents_are_both_named(orders: StoredOrders) -> None:
    one, other = orders.files[0][0], orders.files[0][1]
    content = orders.path_of(one).read_bytes()
    orders.path_of(one).write_bytes(orders.path_of(other).read_bytes())
    orders.path_of(other).write_bytes(content)
    swapped = [finding for finding in check(orders).findings if finding.damage is Damage.SWAPPED_FILE]
    assert {finding.file for finding in swapped} == {one.path, other.path}
    assert str(other.range) in next(finding.message for finding in swapped if finding.file == one.path)


def test_file_of_another_partition_is_a_swapped_file(orders: StoredOrders) -> None:
    shutil.copy(orders.path_of(orders.files[1][0]), orders.path_of(orders.files[0][0]))
    report = check(orders)
    (swapped,) = [finding for finding in report.findings if finding.damage is Damage.SWAPPED_FILE]
    assert swapped.partition == 0
    assert "of partition 1" in swapped.message


def test_ledger_with_another_digest_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(1, lambda entry: replace(entry, digest=replace(entry.digest, crc32c=entry.digest.crc32c ^ 1)))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.LEDGER_MISMATCH
    assert finding.partition == 1


def test_ledger_with_an_earlier_end_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(0, lambda entry: replace(entry, end=entry.end - 10))
    report = check(orders)
    assert damages(report) == {Damage.LEDGER_MISMATCH}
    assert report.findings[0].file == orders.files[0][2].path


def test_ledger_with_a_later_end_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(0, lambda entry: replace(entry, end=entry.end + 10))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.LEDGER_MISMATCH
    assert finding.range == OffsetRange(start=3 * SEGMENT_RECORDS, end=3 * SEGMENT_RECORDS + 10)


def test_ledger_with_an_earlier_start_is_named(orders: StoredOrders) -> None:
    orders.drop_entry(orders.files[0][0])
    orders.edit_ledger(0, lambda entry: replace(entry, start=SEGMENT_RECORDS))
    assert Damage.LEDGER_MISMATCH in damages(check(orders))


def test_offsets_recorded_as_skipped_that_a_file_holds_are_named(orders: StoredOrders) -> None:
    orders.set_properties({f"{SKIPPED_PREFIX}0": "[[0, 10]]"})
    findings = check(orders).findings
    assert [finding.damage for finding in findings] == [Damage.LEDGER_MISMATCH]
    assert findings[0].range == OffsetRange(start=0, end=10)


def field_id_of(orders: StoredOrders, name: str) -> int:
    return int(orders.table().iceberg_schema.find_field(name).field_id)


@pytest.mark.parametrize(
    ("column", "upper"),
    [
        ("kafka_offset", struct.pack("<q", SEGMENT_RECORDS + 5)),
        ("amount", struct.pack("<d", 0.5)),
        ("items.element.quantity", struct.pack("<i", 1)),
        ("shipping.country", b"AT"),
        ("created_at", struct.pack("<q", 0)),
    ],
)
def test_false_upper_bound_in_the_manifest_is_named(orders: StoredOrders, column: str, upper: bytes) -> None:
    file = orders.files[0][1]
    field_id = field_id_of(orders, column)
    columns = {**file.columns, field_id: replace(file.columns[field_id], upper=upper)}
    orders.replace_entry(file, replace(file, columns=columns))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.FALSE_BOUNDS
    assert finding.file == file.path
    assert column in finding.message


@pytest.mark.parametrize("what", ["null_count", "value_count"])
def test_false_count_of_a_column_in_the_manifest_is_named(orders: StoredOrders, what: str) -> None:
    file = orders.files[0][1]
    field_id = field_id_of(orders, "note")
    stats = file.columns[field_id]
    changed = replace(stats, **{what: getattr(stats, what) + 1})
    orders.replace_entry(file, replace(file, columns={**file.columns, field_id: changed}))
    (finding,) = check(orders).findings
    assert finding.damage is Damage.FALSE_BOUNDS
    assert "note" in finding.message


def rewrite_rows(path: Path, rows: pa.Table) -> None:
    """Other rows in a valid file that still has the footer's words of the first."""
    metadata = pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({key: value for key, value in metadata.items() if key.startswith(b"floeberg.")})


def described_anew(file: FileDescription, path: Path) -> FileDescription:
    return replace(file, size_bytes=path.stat().st_size)


def test_rows_that_are_out_of_order_are_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rows = pq.read_table(path)
    rewrite_rows(path, rows.take(pa.array(np.arange(len(rows))[::-1])))
    orders.replace_entry(file, described_anew(file, path))
    assert damages(check(orders)) == {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}


def test_rows_of_another_range_under_a_right_name_and_footer_are_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rewrite_rows(path, pq.read_table(orders.path_of(orders.files[0][1])))
    orders.replace_entry(file, described_anew(file, path))
    found = damages(check(orders))
    assert found == {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}


def test_edited_value_under_a_right_footer_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("amount")
    amounts = rows.column("amount").to_numpy().copy()
    amounts[17] += 0.01
    rewrite_rows(path, rows.set_column(at, rows.schema.field(at), pa.array(amounts)))
    orders.replace_entry(file, described_anew(file, path))
    assert damages(check(orders)) == {Damage.DAMAGED_FILE}


def test_file_that_this_program_did_not_write_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    foreign = replace(file, path=file.path.replace(Path(file.path).name, "part-00000.parquet"))
    shutil.copy(orders.path_of(file), orders.path_of(foreign))
    orders.add_entry(foreign)
    (finding,) = check(orders).findings
    assert finding.damage is Damage.FOREIGN_FILE
    assert finding.file == foreign.path


def test_missing_manifest_list_is_named_and_nothing_else_is_claimed(orders: StoredOrders) -> None:
    table = orders.table()
    for path in orders.folder.rglob("snap-*.avro"):
        path.unlink()
    (finding,) = fsck_table(table).findings
    assert finding.damage is Damage.DAMAGED_METADATA
    assert finding.file is not None
    assert "snap-" in finding.file


def test_log_with_another_value_differs_and_its_offset_is_named(orders: StoredOrders) -> None:
    records = order_records(SEGMENT_RECORDS, SEGMENT_RECORDS)
    (other,) = sample_order_blocks(1, seed=9)
    value = other.value[0]
    assert value is not None
    orders.write_log({(1, SEGMENT_RECORDS): with_value(records, 37, value)})
    (finding,) = check(orders).findings
    assert finding.damage is Damage.LOG_DIFFERS
    assert (finding.partition, finding.range) == (1, MIDDLE)
    assert f"first difference is at offset {SEGMENT_RECORDS + 37}" in finding.message


def test_log_that_lost_a_record_differs_unless_it_may_be_compacted(orders: StoredOrders) -> None:
    records = order_records(SEGMENT_RECORDS, SEGMENT_RECORDS)
    orders.write_log({(0, SEGMENT_RECORDS): records.slice(0, SEGMENT_RECORDS - 1)})
    (finding,) = check(orders).findings
    assert finding.damage is Damage.LOG_DIFFERS
    compacted = check(orders, may_be_compacted=True)
    assert compacted.is_healthy
    assert compacted.partitions[0].compared == (
        OffsetRange(start=0, end=MIDDLE.start),
        OffsetRange(start=MIDDLE.end, end=3 * SEGMENT_RECORDS),
    )


def test_damaged_segment_is_a_warning_about_the_log(orders: StoredOrders) -> None:
    path = orders.segment_path(0, SEGMENT_RECORDS)
    flip_byte(path, path.stat().st_size - 10)
    (finding,) = check(orders).findings
    assert finding.damage is Damage.LOG_UNREADABLE
    assert finding.severity is Severity.WARNING
    assert finding.file == str(path)


def test_segments_that_the_broker_dropped_are_not_compared(orders: StoredOrders) -> None:
    orders.segment_path(0, 0).unlink()
    report = check(orders)
    assert report.is_healthy
    assert report.partitions[0].compared == (OffsetRange(start=SEGMENT_RECORDS, end=3 * SEGMENT_RECORDS),)


def test_log_of_another_incarnation_of_the_topic_is_not_compared(orders: StoredOrders) -> None:
    for path in orders.log_dir.rglob("partition.metadata"):
        path.write_text("version: 0\ntopic_id: YW5vdGhlci10b3BpYy1pZA\n")
    report = check(orders)
    assert report.is_healthy
    assert all(partition.compared == () for partition in report.partitions)


def test_segments_with_other_bounds_than_the_files_are_compared_by_offset(orders: StoredOrders) -> None:
    for base in (0, SEGMENT_RECORDS, 2 * SEGMENT_RECORDS):
        orders.segment_path(0, base).unlink()
    whole = [order_records(base, SEGMENT_RECORDS) for base in (0, SEGMENT_RECORDS, 2 * SEGMENT_RECORDS)]
    cut = 50
    orders.write_log({(0, 0): whole[0].slice(0, SEGMENT_RECORDS - cut)})
    orders.write_log({(0, SEGMENT_RECORDS - cut): whole[0].slice(SEGMENT_RECORDS - cut, SEGMENT_RECORDS)})
    path = orders.segment_path(0, SEGMENT_RECORDS - cut)
    for base in (SEGMENT_RECORDS, 2 * SEGMENT_RECORDS):
        orders.write_log({(0, base): whole[base // SEGMENT_RECORDS]})
        behind = orders.segment_path(0, base)
        path.write_bytes(path.read_bytes() + behind.read_bytes())
        behind.unlink()
    report = check(orders)
    assert report.is_healthy
    assert report.partitions[0].compared == (OffsetRange(start=0, end=3 * SEGMENT_RECORDS),)


def test_digest_text_of_an_empty_table_is_the_empty_digest(orders: StoredOrders) -> None:
    for file in orders.files[0]:
        orders.drop_entry(file)
    summary = check(orders, with_log=False).partitions[0]
    assert RangeDigest.from_text(summary.digest).record_count == 0


def test_aborted_transactions_of_the_log_are_not_missed_in_the_table(tmp_path: Path) -> None:
    aborted_records = 15
    orders = store_orders(tmp_path, partitions=(0,), segment_count=2, aborted_records=aborted_records)
    report = check(orders)
    assert report.is_healthy
    assert report.record_count == 2 * (SEGMENT_RECORDS - aborted_records)
    assert report.partitions[0].compared == (OffsetRange(start=0, end=2 * SEGMENT_RECORDS),)
    orders.segment_path(0, SEGMENT_RECORDS).with_suffix(".txnindex").unlink()
    assert damages(check(orders)) == {Damage.LOG_DIFFERS}
