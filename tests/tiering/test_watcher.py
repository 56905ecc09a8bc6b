"""What the watcher sees of log directories, and that it looks again exactly where something changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.errors import Invalid, Unavailable
from engine.topic_partition import TopicIdPartition
from tests.tiering.broker_on_disk import let_settle
from tiering.watcher import LogWatcher

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def partition(number: int) -> TopicIdPartition:
    return TopicIdPartition(topic="orders", topic_id=TOPIC_ID, partition=number)


def add_partition(log_dir: Path, number: int, *bases: int, suffix: str = "") -> Path:
    directory = log_dir / f"orders-{number}{suffix}"
    directory.mkdir()
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    for base in bases:
        (directory / f"{base:020d}.log").write_bytes(b"x" * 10)
    return directory


@pytest.fixture
def make_log_dir(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        log_dir = tmp_path / name
        log_dir.mkdir()
        (log_dir / "meta.properties").write_text("#\nnode.id=3\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n")
        return log_dir

    return make


def test_live_partitions_of_all_log_directories_are_seen(make_log_dir: Callable[[str], Path]) -> None:
    one, two = make_log_dir("one"), make_log_dir("two")
    add_partition(one, 0, 0, 100)
    add_partition(two, 1, 50)
    add_partition(two, 2, 0, suffix=".0123456789abcdef0123456789abcdef-future")
    seen = LogWatcher([one, two], SystemClock()).observe()
    assert set(seen.logs) == {partition(0), partition(1)}
    assert [segment.base_offset for segment in seen.logs[partition(0)].segments] == [0, 100]
    assert seen.logs[partition(0)].closed_end == 100
    assert seen.logs[partition(1)].closed_end is None
    assert seen.logs[partition(1)].log_dir == two
    assert (seen.node_ids, seen.cluster_ids) == (frozenset({3}), frozenset({"MkU3OEVBNTcwNTJENDM2Qk"}))
    assert seen.problems == ()


def test_rolled_segment_is_seen_at_once_and_after_a_quiet_time(make_log_dir: Callable[[str], Path]) -> None:
    log_dir = make_log_dir("logs")
    directory = add_partition(log_dir, 0, 0)
    watcher = LogWatcher([log_dir], SystemClock())
    assert watcher.observe().logs[partition(0)].closed_end is None
    (directory / f"{100:020d}.log").write_bytes(b"")
    assert watcher.observe().logs[partition(0)].closed_end == 100
    let_settle(log_dir)
    assert watcher.observe().logs[partition(0)].closed_end == 100
    (directory / f"{200:020d}.log").write_bytes(b"")
    assert watcher.observe().logs[partition(0)].closed_end == 200


def test_deleted_segment_and_deleted_partition_are_gone(make_log_dir: Callable[[str], Path]) -> None:
    log_dir = make_log_dir("logs")
    directory = add_partition(log_dir, 0, 0, 100)
    add_partition(log_dir, 1, 0)
    let_settle(log_dir)
    watcher = LogWatcher([log_dir], SystemClock())
    watcher.observe()
    (directory / f"{0:020d}.log").rename(directory / f"{0:020d}.log.deleted")
    (log_dir / "orders-1").rename(log_dir / "orders-1.0123456789abcdef0123456789abcdef-delete")
    seen = watcher.observe()
    assert set(seen.logs) == {partition(0)}
    assert [segment.base_offset for segment in seen.logs[partition(0)].segments] == [100]


def test_one_missing_log_directory_is_a_problem_and_the_other_is_read(make_log_dir: Callable[[str], Path]) -> None:
    log_dir = make_log_dir("logs")
    add_partition(log_dir, 0, 0)
    seen = LogWatcher([log_dir.with_name("unmounted"), log_dir], SystemClock()).observe()
    assert set(seen.logs) == {partition(0)}
    assert seen.problems
    assert all(isinstance(problem, Unavailable) and problem.next_step for problem in seen.problems)


def test_directory_of_no_broker_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    (problem,) = LogWatcher([tmp_path], SystemClock()).observe().problems
    assert isinstance(problem, Invalid)


def test_partition_in_two_log_directories_is_in_neither(make_log_dir: Callable[[str], Path]) -> None:
    one, two = make_log_dir("one"), make_log_dir("two")
    add_partition(one, 0, 0)
    add_partition(two, 0, 0)
    seen = LogWatcher([one, two], SystemClock()).observe()
    assert seen.logs == {}
    assert seen.problems


def test_quiet_look_lists_no_partition_again(
    make_log_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = make_log_dir("logs")
    for number in range(300):
        add_partition(log_dir, number, 0, 100, 200)
    let_settle(log_dir)
    watcher = LogWatcher([log_dir], SystemClock())
    first = watcher.observe()
    listed: list[object] = []
    monkeypatch.setattr("tiering.watcher.list_segments", listed.append)
    assert watcher.observe().logs == first.logs
    assert listed == []


def test_newest_leader_epoch_of_a_log_is_seen_when_kafka_replaces_its_checkpoint(
    make_log_dir: Callable[[str], Path],
) -> None:
    log_dir = make_log_dir("one")
    directory = add_partition(log_dir, 0, 0, 10)
    watcher = LogWatcher([log_dir], SystemClock())
    let_settle(log_dir)
    assert watcher.observe().logs[partition(0)].leader_epoch == -1
    for text, newest in (("0\n1\n0 0\n", 0), ("0\n2\n0 0\n7 10\n", 7)):
        written = directory / "leader-epoch-checkpoint.tmp"
        written.write_text(text)
        written.rename(directory / "leader-epoch-checkpoint")
        assert watcher.observe().logs[partition(0)].leader_epoch == newest
        let_settle(log_dir)
