"""Every kind of damage is planted in a table that was whole, and has to be named; the whole table has no finding."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.fsck.check import FsckProgress, fsck_table
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.table.properties import SKIPPED_PREFIX
from tests.engine.parquet.pyarrow_files import described, rewritten
from tests.engine.stored_orders import (
    SEGMENT_RECORDS,
    TOPIC,
    StoredOrders,
    check_orders,
    damages,
    flip_byte,
)

MIDDLE = OffsetRange(start=SEGMENT_RECORDS, end=2 * SEGMENT_RECORDS)


def test_whole_table_has_no_finding_and_is_compared_with_the_log(orders: StoredOrders) -> None:
    report = check_orders(orders)
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
    told = json.loads(check_orders(orders, with_log=False).to_json())
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
    (finding,) = check_orders(orders).findings
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
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.DAMAGED_FILE
    assert (finding.partition, finding.range, finding.file) == (0, damaged.range, damaged.path)


def test_flipped_byte_in_the_footer_is_named(orders: StoredOrders) -> None:
    damaged = orders.files[0][0]
    path = orders.path_of(damaged)
    content = path.read_bytes()
    flip_byte(path, content.rindex(b"floeberg.digest") + 30)
    report = check_orders(orders)
    assert Damage.DAMAGED_FILE in damages(report)
    assert {finding.file for finding in report.findings if finding.damage is Damage.DAMAGED_FILE} == {damaged.path}


def test_truncated_file_is_named_by_its_size_and_as_unreadable(orders: StoredOrders) -> None:
    damaged = orders.files[0][2]
    path = orders.path_of(damaged)
    path.write_bytes(path.read_bytes()[:-100])
    report = check_orders(orders)
    assert damages(report) == {Damage.WRONG_SIZE, Damage.DAMAGED_FILE}
    assert {finding.file for finding in report.findings} == {damaged.path}


def test_size_that_the_manifest_has_wrong_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    orders.replace_entry(file, replace(file, size_bytes=file.size_bytes + 1))
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.WRONG_SIZE
    assert str(file.size_bytes + 1) in finding.message


def test_count_that_the_manifest_has_wrong_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    orders.replace_entry(file, replace(file, record_count=file.record_count + 1))
    assert Damage.WRONG_COUNT in damages(check_orders(orders))


def test_duplicated_range_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    again = replace(file, path=file.path.replace("-first.parquet", "-second.parquet"))
    shutil.copy(orders.path_of(file), orders.path_of(again))
    orders.add_entry(again)
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.DUPLICATED_RANGE
    assert (finding.partition, finding.range) == (0, MIDDLE)
    assert file.path in finding.message
    assert again.path in finding.message


def test_file_that_the_manifests_name_twice_is_a_duplicated_range(orders: StoredOrders) -> None:
    orders.add_entry(orders.files[1][0])
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.DUPLICATED_RANGE
    assert finding.file == orders.files[1][0].path


@pytest.mark.parametrize("index", [0, 1, 2], ids=["head", "middle", "tail"])
def test_lost_range_is_named(orders: StoredOrders, index: int) -> None:
    lost = orders.files[0][index]
    orders.drop_entry(lost)
    findings = [finding for finding in check_orders(orders).findings if finding.damage is not Damage.LOG_DIFFERS]
    (finding,) = findings
    assert finding.damage is Damage.LOST_RANGE
    assert (finding.partition, finding.range) == (0, lost.range)
    assert str(SEGMENT_RECORDS) in finding.message


def test_two_files_with_each_others_contents_are_both_named(orders: StoredOrders) -> None:
    one, other = orders.files[0][0], orders.files[0][1]
    content = orders.path_of(one).read_bytes()
    orders.path_of(one).write_bytes(orders.path_of(other).read_bytes())
    orders.path_of(other).write_bytes(content)
    swapped = [finding for finding in check_orders(orders).findings if finding.damage is Damage.SWAPPED_FILE]
    assert {finding.file for finding in swapped} == {one.path, other.path}
    assert str(other.range) in next(finding.message for finding in swapped if finding.file == one.path)


def test_file_of_another_partition_is_a_swapped_file(orders: StoredOrders) -> None:
    shutil.copy(orders.path_of(orders.files[1][0]), orders.path_of(orders.files[0][0]))
    report = check_orders(orders)
    (swapped,) = [finding for finding in report.findings if finding.damage is Damage.SWAPPED_FILE]
    assert swapped.partition == 0
    assert "of partition 1" in swapped.message


def test_ledger_with_another_digest_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(1, lambda entry: replace(entry, digest=replace(entry.digest, crc32c=entry.digest.crc32c ^ 1)))
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.LEDGER_MISMATCH
    assert finding.partition == 1


def test_ledger_with_an_earlier_end_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(0, lambda entry: replace(entry, end=entry.end - 10))
    report = check_orders(orders)
    assert damages(report) == {Damage.LEDGER_MISMATCH}
    assert report.findings[0].file == orders.files[0][2].path


def test_ledger_with_a_later_end_is_named(orders: StoredOrders) -> None:
    orders.edit_ledger(0, lambda entry: replace(entry, end=entry.end + 10))
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.LEDGER_MISMATCH
    assert finding.range == OffsetRange(start=3 * SEGMENT_RECORDS, end=3 * SEGMENT_RECORDS + 10)


def test_ledger_with_an_earlier_start_is_named(orders: StoredOrders) -> None:
    orders.drop_entry(orders.files[0][0])
    orders.edit_ledger(0, lambda entry: replace(entry, start=SEGMENT_RECORDS))
    assert Damage.LEDGER_MISMATCH in damages(check_orders(orders))


def test_offsets_recorded_as_skipped_that_a_file_holds_are_named(orders: StoredOrders) -> None:
    orders.set_properties({f"{SKIPPED_PREFIX}0": "[[0, 10]]"})
    findings = check_orders(orders).findings
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
    (finding,) = check_orders(orders).findings
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
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.FALSE_BOUNDS
    assert "note" in finding.message


def test_rows_that_are_out_of_order_are_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rows = pq.read_table(path)
    rewritten(path, lambda _: rows.take(pa.array(np.arange(len(rows))[::-1])))
    orders.replace_entry(file, described(file, path))
    assert damages(check_orders(orders)) == {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}


def test_rows_of_another_range_under_a_right_name_and_footer_are_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rewritten(path, lambda _: pq.read_table(orders.path_of(orders.files[0][1])))
    orders.replace_entry(file, described(file, path))
    found = damages(check_orders(orders))
    assert found == {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}


def test_edited_value_under_a_right_footer_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    path = orders.path_of(file)
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("amount")
    amounts = rows.column("amount").to_numpy().copy()
    amounts[17] += 0.01
    rewritten(path, lambda _: rows.set_column(at, rows.schema.field(at), pa.array(amounts)))
    orders.replace_entry(file, described(file, path))
    assert damages(check_orders(orders)) == {Damage.DAMAGED_FILE}


def test_file_that_this_program_did_not_write_is_named(orders: StoredOrders) -> None:
    file = orders.files[0][0]
    foreign = replace(file, path=file.path.replace(Path(file.path).name, "part-00000.parquet"))
    shutil.copy(orders.path_of(file), orders.path_of(foreign))
    orders.add_entry(foreign)
    (finding,) = check_orders(orders).findings
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


def test_digest_text_of_an_empty_table_is_the_empty_digest(orders: StoredOrders) -> None:
    for file in orders.files[0]:
        orders.drop_entry(file)
    summary = check_orders(orders, with_log=False).partitions[0]
    assert RangeDigest.from_text(summary.digest).record_count == 0
