"""A table held against the broker's log: the same records, other ones, and what can't be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.fsck.check import fsck_table
from engine.fsck.report import Damage, Severity
from engine.offset_range import OffsetRange
from engine.table.manifests import ManifestReader
from engine.table.merge.merge_files import MergeTask, merge_files
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from floeberg.demo.sample_orders import sample_order_blocks
from tests.engine.stored_orders import (
    SEGMENT_RECORDS,
    StoredOrders,
    check_orders,
    damages,
    flip_byte,
    order_records,
    store_orders,
    with_value,
)
from tests.engine.table.table_examples import open_writer

MIDDLE = OffsetRange(start=SEGMENT_RECORDS, end=2 * SEGMENT_RECORDS)


def test_log_with_another_value_differs_and_its_offset_is_named(orders: StoredOrders) -> None:
    records = order_records(SEGMENT_RECORDS, SEGMENT_RECORDS)
    (other,) = sample_order_blocks(1, seed=9)
    value = other.value[0]
    assert value is not None
    orders.write_log({(1, SEGMENT_RECORDS): with_value(records, 37, value)})
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.LOG_DIFFERS
    assert (finding.partition, finding.range) == (1, MIDDLE)
    assert f"first difference is at offset {SEGMENT_RECORDS + 37}" in finding.message


def test_log_that_lost_a_record_differs_unless_it_may_be_compacted(orders: StoredOrders) -> None:
    records = order_records(SEGMENT_RECORDS, SEGMENT_RECORDS)
    orders.write_log({(0, SEGMENT_RECORDS): records.slice(0, SEGMENT_RECORDS - 1)})
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.LOG_DIFFERS
    compacted = check_orders(orders, may_be_compacted=True)
    assert compacted.is_healthy
    assert compacted.partitions[0].compared == (
        OffsetRange(start=0, end=MIDDLE.start),
        OffsetRange(start=MIDDLE.end, end=3 * SEGMENT_RECORDS),
    )


def test_damaged_segment_is_a_warning_about_the_log(orders: StoredOrders) -> None:
    path = orders.segment_path(0, SEGMENT_RECORDS)
    flip_byte(path, path.stat().st_size - 10)
    (finding,) = check_orders(orders).findings
    assert finding.damage is Damage.LOG_UNREADABLE
    assert finding.severity is Severity.WARNING
    assert finding.file == str(path)


def test_segments_that_the_broker_dropped_are_not_compared(orders: StoredOrders) -> None:
    orders.segment_path(0, 0).unlink()
    report = check_orders(orders)
    assert report.is_healthy
    assert report.partitions[0].compared == (OffsetRange(start=SEGMENT_RECORDS, end=3 * SEGMENT_RECORDS),)


def test_log_of_another_incarnation_of_the_topic_is_not_compared(orders: StoredOrders) -> None:
    for path in orders.log_dir.rglob("partition.metadata"):
        path.write_text("version: 0\ntopic_id: YW5vdGhlci10b3BpYy1pZA\n")
    report = check_orders(orders)
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
    report = check_orders(orders)
    assert report.is_healthy
    assert report.partitions[0].compared == (OffsetRange(start=0, end=3 * SEGMENT_RECORDS),)


def test_aborted_transactions_of_the_log_are_not_missed_in_the_table(tmp_path: Path) -> None:
    aborted_records = 15
    orders = store_orders(tmp_path, partitions=(0,), segment_count=2, aborted_records=aborted_records)
    report = check_orders(orders)
    assert report.is_healthy
    assert report.record_count == 2 * (SEGMENT_RECORDS - aborted_records)
    assert report.partitions[0].compared == (OffsetRange(start=0, end=2 * SEGMENT_RECORDS),)
    orders.segment_path(0, SEGMENT_RECORDS).with_suffix(".txnindex").unlink()
    assert damages(check_orders(orders)) == {Damage.LOG_DIFFERS}


def test_erased_records_that_the_log_still_has_are_no_difference_and_others_are(orders: StoredOrders) -> None:
    table = orders.table()
    (first, *_) = (file for file in ManifestReader().files(table).own if file.partition == 0)
    offsets = np.array([3, 4, 9], np.int64)
    task = MergeTask(table=table.facts, files=(first,), attempt="again", without=offsets)
    (written,) = merge_files(task).new
    verifier = Verifier()
    new = verifier.accept(written, verify_file(written.path, table.facts))
    proof = verifier.accept_erasure(table.facts, first, offsets, new)
    erased = open_writer(orders.folder).erase(table, [proof], erasure_id="e", at_ms=1).table
    report = fsck_table(erased, log_dirs=[orders.log_dir])
    assert report.findings == ()
    assert report.partitions[0].compared == (OffsetRange(start=0, end=3 * SEGMENT_RECORDS),)
    assert report.partitions[0].erased_count == 3
    forgotten = replace(erased.erased[0], offsets=erased.erased[0].offsets[:1])
    findings = fsck_table(replace(erased, erased={0: forgotten}), log_dirs=[orders.log_dir]).findings
    assert [finding.damage for finding in findings] == [Damage.LOG_DIFFERS]
    assert "first difference is at offset 9" in findings[0].message
    # A range that stands for more than was erased hides nothing that the table has.
    wider = replace(erased.erased[0], offsets=(OffsetRange(start=3, end=10),))
    assert fsck_table(replace(erased, erased={0: wider}), log_dirs=[orders.log_dir]).findings == ()
