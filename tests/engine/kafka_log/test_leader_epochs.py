from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt, Unavailable
from engine.kafka_log.leader_epochs import FILE_NAME, LeaderEpochs


def written(entries: tuple[tuple[int, int], ...]) -> str:
    """As Kafka's CheckpointFile does."""
    return "".join(f"{line}\n" for line in ("0", len(entries), *(f"{epoch} {start}" for epoch, start in entries)))


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_checkpoint_without_entries_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
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
    path = tmp_path / FILE_NAME
    path.write_text(text)
    with pytest.raises(Corrupt) as caught:
        LeaderEpochs.read(tmp_path)
    assert caught.value.file == str(path)


def test_checkpoint_that_is_not_text_is_corrupt_and_an_unreadable_one_unavailable(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Corrupt):
        LeaderEpochs.read(tmp_path)
    (tmp_path / "other" / FILE_NAME).mkdir(parents=True)
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
    (tmp_path / FILE_NAME).write_text("0\n3\n0 5\n2 10\n7 11\n")
    assert LeaderEpochs.read(tmp_path).entries == ((0, 5), (2, 10), (7, 11))
    assert LeaderEpochs.read(tmp_path / "gone").entries == ()


@pytest.mark.parametrize("lines", ["1 5\n1 6", "2 5\n1 6", "1 5\n2 5", "1 6\n2 5"])
def test_leader_epochs_that_do_not_rise_are_corrupt(lines: str) -> None:
    with pytest.raises(Corrupt):
        LeaderEpochs.from_text(f"0\n2\n{lines}\n", file="x")
