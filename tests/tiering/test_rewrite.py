"""One segment range to one file, and everything a segment can hold against it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.errors import Corrupt, Unavailable
from engine.kafka_log.segment import AbortedTransaction
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST
from tests.tiering.broker_on_disk import BrokerOnDisk
from tests.tiering.string_table import string_table
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment


@pytest.fixture
def task(tmp_path: Path) -> RewriteTask:
    """A closed segment of 100 text records at offsets 0 to 99."""
    broker = BrokerOnDisk(tmp_path)
    (partition,) = broker.create_topic("orders")
    broker.append_segment(partition, [f"value {number}".encode() for number in range(100)])
    return RewriteTask(
        table=string_table(tmp_path / "warehouse", partition),
        partition=partition,
        range=OffsetRange(start=0, end=100),
        leader_epoch=0,
        segment_path=broker.directory(partition) / f"{0:020d}.log",
        closed=True,
        aborted=(),
        attempt="a1",
    )


def rewritten(task: RewriteTask) -> Rewritten:
    outcome = rewrite_segment(task)
    assert isinstance(outcome, Rewritten), outcome
    return outcome


def test_every_record_of_the_range_is_in_the_file(task: RewriteTask) -> None:
    outcome = rewritten(task)
    assert outcome.file is not None
    rows = pq.read_table(outcome.file.path)
    assert rows["kafka_offset"].to_pylist() == list(range(100))
    assert rows["value"].to_pylist() == [f"value {number}" for number in range(100)]
    assert outcome.file.digest == outcome.digest
    assert outcome.digest.record_count == 100
    assert outcome.settings is not None


def test_file_name_says_range_epoch_and_attempt(task: RewriteTask) -> None:
    outcome = rewritten(replace(task, leader_epoch=7))
    assert outcome.file is not None
    assert outcome.file.path.endswith(f"/data/{task.partition.topic_id}/p=0/{0:020d}-{100:020d}-e7-a1.parquet")


def test_range_inside_a_segment_takes_no_more_than_that(task: RewriteTask) -> None:
    outcome = rewritten(replace(task, range=OffsetRange(start=13, end=57)))
    assert outcome.file is not None
    assert pq.read_table(outcome.file.path)["kafka_offset"].to_pylist() == list(range(13, 57))


def test_range_without_a_record_makes_no_file(task: RewriteTask, tmp_path: Path) -> None:
    outcome = rewritten(replace(task, range=OffsetRange(start=200, end=300)))
    assert (outcome.file, outcome.digest) == (None, EMPTY_DIGEST)
    assert not (tmp_path / "warehouse").exists()


def test_log_bytes_are_those_of_the_batches_that_were_read(task: RewriteTask) -> None:
    assert rewritten(task).log_bytes == task.segment_path.stat().st_size


def test_remembered_settings_are_kept(task: RewriteTask) -> None:
    first = rewritten(task)
    assert rewritten(replace(task, table=replace(task.table, settings=first.settings), attempt="a2")).settings == (
        first.settings
    )


def test_flipped_byte_fails_with_coordinates_and_leaves_no_file(task: RewriteTask, tmp_path: Path) -> None:
    content = bytearray(task.segment_path.read_bytes())
    content[-3] ^= 1
    task.segment_path.write_bytes(content)
    with pytest.raises(Corrupt) as refused:
        rewrite_segment(task)
    assert refused.value.file == str(task.segment_path)
    assert [path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()] == []


def test_segment_that_kafka_deleted_meanwhile_is_unavailable(task: RewriteTask) -> None:
    task.segment_path.unlink()
    with pytest.raises(Unavailable):
        rewrite_segment(task)


def test_active_segment_shorter_than_the_broker_says_is_refused(task: RewriteTask) -> None:
    assert isinstance(rewrite_segment(replace(task, closed=False)), Rewritten)
    with pytest.raises(Corrupt):
        rewrite_segment(replace(task, closed=False, range=OffsetRange(start=0, end=101), attempt="a2"))


def test_task_and_outcome_travel_between_processes(task: RewriteTask) -> None:
    sent = replace(
        task, aborted=(AbortedTransaction(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=2),)
    )
    assert pickle.loads(pickle.dumps(sent)) == sent
    outcome = rewrite_segment(task)
    assert pickle.loads(pickle.dumps(outcome)) == outcome
