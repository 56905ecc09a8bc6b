from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt, Invalid, Unavailable
from engine.kafka_log.log_directory import (
    EPOCHS_FILE,
    METADATA_FILE,
    DirectoryName,
    DirectoryState,
    LeaderEpochs,
    format_partition_metadata,
    parse_directory_name,
    read_topic_id,
    scan_log_directories,
)

TOPIC_ID = "J5pMf1rSTsyIUFj2FdjFPw"
UNIQUE_ID = "0123456789abcdef0123456789abcdef"


def partition_directory(log_dir: Path, name: str, metadata: str | None = format_partition_metadata(TOPIC_ID)) -> Path:
    path = log_dir / name
    path.mkdir(parents=True)
    if metadata is not None:
        (path / METADATA_FILE).write_text(metadata)
    return path


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, DirectoryState.LIVE),
        ("a.b_c-d-12", "a.b_c-d", 12, DirectoryState.LIVE),
        ("orders-delete-3", "orders-delete", 3, DirectoryState.LIVE),
        ("x.1234-future-3", "x.1234-future", 3, DirectoryState.LIVE),
        ("__consumer_offsets-49", "__consumer_offsets", 49, DirectoryState.LIVE),
        (f"orders-3.{UNIQUE_ID}-future", "orders", 3, DirectoryState.FUTURE),
        (f"a.b-3.{UNIQUE_ID}-stray", "a.b", 3, DirectoryState.STRAY),
        (f"a-1-2.{UNIQUE_ID}-delete", "a-1", 2, DirectoryState.DELETED),
    ],
)
def test_names_say_topic_partition_and_state(name: str, topic: str, partition: int, state: DirectoryState) -> None:
    assert parse_directory_name(name) == DirectoryName(topic=topic, partition=partition, state=state)


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-",
        "-3",
        "orders-x",
        "orders-3-delete",
        "orders-01",
        "orders-3.-delete",
        "or ders-3",
        "orders-9999999999",
        "a-3.x-gone",
    ],
)
def test_names_that_kafka_does_not_give_say_nothing(name: str) -> None:
    assert parse_directory_name(name) is None


def test_partitions_of_several_log_directories_are_found_with_their_states(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    partition_directory(first, "orders-0")
    partition_directory(second, "orders-1")
    partition_directory(second, f"orders-0.{UNIQUE_ID}-future")
    partition_directory(second, f"gone-0.{UNIQUE_ID}-stray")
    partition_directory(first, f"gone-1.{UNIQUE_ID}-delete")
    partition_directory(first, f"gone-2.{UNIQUE_ID}-delete", metadata=None)
    partition_directory(first, f"orders-1.{UNIQUE_ID}-stray", metadata=None)
    partition_directory(first, "__cluster_metadata-0")
    partition_directory(first, "remote-log-index-cache", metadata=None)
    (first / "meta.properties").write_text("version=1\n")
    (first / "replication-offset-checkpoint").write_text("0\n0\n")
    scan = scan_log_directories([first, second])
    assert scan.problems == ()
    assert [(str(found.partition), found.path.parent.name, found.state) for found in scan.partitions] == [
        ("gone-1", "a", DirectoryState.DELETED),
        ("orders-0", "a", DirectoryState.LIVE),
        ("gone-0", "b", DirectoryState.STRAY),
        ("orders-0", "b", DirectoryState.FUTURE),
        ("orders-1", "b", DirectoryState.LIVE),
    ]
    assert [str(found.partition) for found in scan.live] == ["orders-0", "orders-1"]
    assert {found.partition.topic_id for found in scan.partitions} == {TOPIC_ID}


def test_problems_are_reported_and_hide_nothing_else(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    partition_directory(log_dir, "orders-0")
    partition_directory(log_dir, "orders-1", metadata=None)
    partition_directory(log_dir, "orders-2", metadata="version: 0\ntopic_id: short")
    partition_directory(log_dir, "lost+found")
    scan = scan_log_directories([tmp_path / "offline", log_dir])
    assert [str(found.partition) for found in scan.partitions] == ["orders-0"]
    assert [(type(problem), Path(problem.file or "").name) for problem in scan.problems] == [
        (Unavailable, "offline"),
        (Invalid, "lost+found"),
        (Unavailable, METADATA_FILE),
        (Corrupt, METADATA_FILE),
    ]


def test_partition_live_in_two_log_directories_is_a_problem_and_in_neither(tmp_path: Path) -> None:
    partition_directory(tmp_path / "a", "orders-0")
    partition_directory(tmp_path / "b", "orders-0")
    partition_directory(tmp_path / "b", "orders-1")
    scan = scan_log_directories([tmp_path / "a", tmp_path / "b"])
    assert [str(found.partition) for found in scan.partitions] == ["orders-1"]
    assert [(type(problem), problem.partition) for problem in scan.problems] == [(Invalid, 0)]


def test_topic_id_is_read_as_kafka_wrote_it(tmp_path: Path) -> None:
    assert read_topic_id(partition_directory(tmp_path, "orders-0")) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    ["", "version: 0", f"version: 1\ntopic_id: {TOPIC_ID}", "version: 0\ntopic_id: " + "A" * 22, "\N{SNOWMAN}" * 9],
)
def test_metadata_that_names_no_topic_id_is_corrupt(tmp_path: Path, text: str) -> None:
    with pytest.raises(Corrupt) as caught:
        read_topic_id(partition_directory(tmp_path, "orders-0", text))
    assert (caught.value.file or "").endswith(METADATA_FILE)


def written(entries: tuple[tuple[int, int], ...]) -> str:
    """As Kafka's CheckpointFile does."""
    return "".join(f"{line}\n" for line in ("0", len(entries), *(f"{epoch} {start}" for epoch, start in entries)))


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_checkpoint_without_entries_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / EPOCHS_FILE).write_text(text)
    assert LeaderEpochs.read(tmp_path).entries == ()


@pytest.mark.parametrize(
    "text",
    [
        "1\n1\n3 17\n",
        "0\n2\n3 17\n",
        "0\n0\n3 17\n",
        "0\n1\n17\n",
        "0\n1\n3 x\n",
        "0\n1\n3 9223372036854775808\n",
        "0\n1\n2147483648 17\n",
        "0\nmany\n3 17\n",
    ],
)
def test_damaged_checkpoint_is_corrupt(tmp_path: Path, text: str) -> None:
    path = tmp_path / EPOCHS_FILE
    path.write_text(text)
    with pytest.raises(Corrupt) as caught:
        LeaderEpochs.read(tmp_path)
    assert caught.value.file == str(path)


def test_checkpoint_that_is_not_text_is_corrupt_and_an_unreadable_one_unavailable(tmp_path: Path) -> None:
    (tmp_path / EPOCHS_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Corrupt):
        LeaderEpochs.read(tmp_path)
    (tmp_path / "other" / EPOCHS_FILE).mkdir(parents=True)
    with pytest.raises(Unavailable):
        LeaderEpochs.read(tmp_path / "other")


@given(
    epochs=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=5),
    starts=st.lists(st.integers(0, 2**63 - 1), unique=True, min_size=5, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_leader_epochs_are_read_as_written(epochs: list[int], starts: list[int]) -> None:
    known = tuple(zip(sorted(epochs), sorted(starts), strict=False))
    assert LeaderEpochs.from_text(written(known), file="x").entries == known


def test_partition_without_the_file_has_no_epochs(tmp_path: Path) -> None:
    (tmp_path / EPOCHS_FILE).write_text("0\n3\n0 5\n2 10\n7 11\n")
    assert LeaderEpochs.read(tmp_path).entries == ((0, 5), (2, 10), (7, 11))
    assert LeaderEpochs.read(tmp_path / "gone").entries == ()


@pytest.mark.parametrize("lines", ["1 5\n1 6", "2 5\n1 6", "1 5\n2 5", "1 6\n2 5"])
def test_leader_epochs_that_do_not_rise_are_corrupt(lines: str) -> None:
    with pytest.raises(Corrupt):
        LeaderEpochs.from_text(f"0\n2\n{lines}\n", file="x")
