"""Hard links: made once, found again, gone after the commit, never half."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import Corrupt, Unavailable
from engine.kafka_log.log_directory import format_partition_metadata
from engine.kafka_log.segment import AbortedTransaction
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tiering.spool import SPOOL_SUFFIX, Spool, SpooledSegment

PARTITION = TopicIdPartition(topic="orders.eu", topic_id="a-_AAAAAAAAAAAAAAAAAAA", partition=12)
RANGE = OffsetRange(start=7, end=19)
ABORTED = (AbortedTransaction(producer_id=4, first_offset=8, last_offset=11, last_stable_offset=12),)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log_dir = tmp_path / "kafka-logs"
    log_dir.mkdir()
    return log_dir


@pytest.fixture
def segment(log_dir: Path) -> Path:
    path = log_dir / "orders.eu-12" / "00000000000000000007.log"
    path.parent.mkdir()
    (path.parent / "partition.metadata").write_text(format_partition_metadata(PARTITION.topic_id))
    path.write_bytes(b"twelve bytes")
    return path


def hold(spool: Spool, segment: Path, log_dir: Path) -> SpooledSegment | None:
    return spool.link(
        segment, log_dir=log_dir, partition=PARTITION, segment_range=RANGE, leader_epoch=3, aborted=ABORTED
    )


def test_link_outlives_kafkas_deletion(log_dir: Path, segment: Path) -> None:
    spool = Spool([log_dir])
    held = hold(spool, segment, log_dir)
    segment.rename(segment.with_name(segment.name + ".deleted")).unlink()
    assert held is not None
    assert held.path.read_bytes() == b"twelve bytes"
    assert spool.held(PARTITION) == (held,)
    assert spool.size_bytes == 12


def test_spool_lies_outside_the_log_directory(log_dir: Path, segment: Path) -> None:
    held = hold(Spool([log_dir]), segment, log_dir)
    assert held is not None
    assert log_dir.with_name(log_dir.name + SPOOL_SUFFIX) in held.path.parents
    assert [path.name for path in log_dir.iterdir()] == ["orders.eu-12"]


def test_links_of_an_earlier_process_are_adopted(log_dir: Path, segment: Path) -> None:
    held = hold(Spool([log_dir]), segment, log_dir)
    later = Spool([log_dir])
    assert later.read() == ()
    assert later.held(PARTITION) == (held,)
    assert later.partitions() == {PARTITION}


def test_half_made_pieces_are_removed(log_dir: Path, segment: Path) -> None:
    held = hold(Spool([log_dir]), segment, log_dir)
    assert held is not None
    folder = held.path.parent
    (folder / "00000000000000000019-00000000000000000030.json").write_text("{}")
    (folder / "00000000000000000030-00000000000000000040.json.7.writing").write_text("{")
    os.link(segment, folder / "00000000000000000040-00000000000000000050.log")
    later = Spool([log_dir])
    assert later.read() == ()
    assert later.held(PARTITION) == (held,)
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".log"]


def test_unlinking_leaves_nothing_and_repeats_without_error(log_dir: Path, segment: Path) -> None:
    spool = Spool([log_dir])
    held = hold(spool, segment, log_dir)
    assert held is not None
    spool.unlink([held, held])
    assert spool.partitions() == frozenset()
    assert list(held.path.parent.iterdir()) == []
    assert segment.exists()


def test_segment_deleted_before_the_link_leaves_no_trace(log_dir: Path, segment: Path) -> None:
    segment.unlink()
    spool = Spool([log_dir])
    assert hold(spool, segment, log_dir) is None
    assert spool.held(PARTITION) == ()
    assert list(log_dir.with_name(log_dir.name + SPOOL_SUFFIX).glob("*/*/*")) == []


def test_segment_replaced_by_compaction_replaces_its_link(log_dir: Path, segment: Path) -> None:
    spool = Spool([log_dir])
    hold(spool, segment, log_dir)
    segment.unlink()
    segment.write_bytes(b"compacted")
    held = hold(spool, segment, log_dir)
    assert held is not None
    assert held.path.read_bytes() == b"compacted"
    assert held.size_bytes == 9


def test_damaged_facts_are_reported_and_the_link_not_used(log_dir: Path, segment: Path) -> None:
    held = hold(Spool([log_dir]), segment, log_dir)
    assert held is not None
    held.path.with_suffix(".json").write_text("")
    later = Spool([log_dir])
    (problem,) = later.read()
    assert isinstance(problem, Corrupt)
    assert later.partitions() == frozenset()
    assert held.path.exists()


def test_spool_that_cannot_be_written_is_unavailable_with_a_next_step(log_dir: Path, segment: Path) -> None:
    log_dir.with_name(log_dir.name + SPOOL_SUFFIX).write_text("a file where the folder should be")
    with pytest.raises(Unavailable) as caught:
        hold(Spool([log_dir]), segment, log_dir)
    assert caught.value.next_step


def test_missing_spool_is_an_empty_one(log_dir: Path) -> None:
    spool = Spool([log_dir])
    assert spool.read() == ()
    assert spool.partitions() == frozenset()


def test_second_daemon_leaves_alone_what_the_first_is_just_making_and_has_let_go_of(
    log_dir: Path, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold(Spool([log_dir]), segment, log_dir)
    assert held is not None
    folder = held.path.parent
    facts = folder / f"{100:020d}-{200:020d}.json"
    facts.write_text("{}")
    half = facts.with_suffix(".json.7.writing")
    half.touch()
    # Listed, and gone before it is read.
    gone = folder / f"{200:020d}-{300:020d}.log"
    names = [*(path.name for path in folder.iterdir()), gone.name, gone.with_suffix(".json").name]
    monkeypatch.setattr(Path, "iterdir", lambda _folder: map(folder.joinpath, names))
    second = Spool([log_dir])
    assert second.read(is_shared=True) == ()
    assert second.held(PARTITION) == (held,)
    assert facts.exists()
    assert half.exists()
