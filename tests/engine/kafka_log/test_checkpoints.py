from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt, Unavailable
from engine.kafka_log.checkpoints import (
    HIGH_WATERMARK_FILE_NAME,
    LOG_START_FILE_NAME,
    format_offset_checkpoint,
    read_high_watermarks,
    read_log_starts,
    read_offset_checkpoint,
)
from engine.kafka_log.leader_epochs import FILE_NAME, LeaderEpochs

_TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
_KEYS = st.tuples(_TOPICS, st.integers(0, 2**31 - 1))


@given(offsets=st.dictionaries(_KEYS, st.integers(0, 2**63 - 1), max_size=5))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_offsets_are_read_as_written(offsets: dict[tuple[str, int], int], tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(format_offset_checkpoint(offsets))
    assert read_offset_checkpoint(path) == offsets


def test_files_of_a_log_directory_are_read_by_their_names(tmp_path: Path) -> None:
    (tmp_path / HIGH_WATERMARK_FILE_NAME).write_text("0\n2\norders 0 17\na.b 11 4\n")
    assert read_high_watermarks(tmp_path) == {("orders", 0): 17, ("a.b", 11): 4}
    assert read_log_starts(tmp_path) == {}
    (tmp_path / LOG_START_FILE_NAME).write_text("0\n1\norders 0 3\n")
    assert read_log_starts(tmp_path) == {("orders", 0): 3}


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_checkpoint_without_entries_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoint").write_text(text)
    assert read_offset_checkpoint(tmp_path / "checkpoint") == {}


@pytest.mark.parametrize(
    "text",
    [
        "1\n1\norders 0 17\n",
        "0\n2\norders 0 17\n",
        "0\n0\norders 0 17\n",
        "0\n1\norders 17\n",
        "0\n1\norders x 17\n",
        "0\n1\norders 0 9223372036854775808\n",
        "0\nmany\norders 0 17\n",
    ],
)
def test_damaged_checkpoint_is_corrupt(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(Corrupt) as caught:
        read_offset_checkpoint(path)
    assert caught.value.file == str(path)


def test_checkpoint_that_is_not_text_is_corrupt_and_an_unreadable_one_unavailable(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Corrupt):
        read_offset_checkpoint(tmp_path / "checkpoint")
    with pytest.raises(Unavailable):
        read_offset_checkpoint(tmp_path)


@given(
    epochs=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=5),
    starts=st.lists(st.integers(0, 2**63 - 1), unique=True, min_size=5, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_leader_epochs_are_read_as_written(epochs: list[int], starts: list[int]) -> None:
    known = LeaderEpochs(entries=tuple(zip(sorted(epochs), sorted(starts), strict=False)))
    assert LeaderEpochs.from_text(known.to_text(), file="x") == known


def test_epoch_of_an_offset_is_the_last_that_started_at_or_before_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("0\n3\n0 5\n2 10\n7 11\n")
    epochs = LeaderEpochs.read(tmp_path)
    assert [epochs.epoch_at(offset) for offset in (0, 4, 5, 9, 10, 11, 99)] == [-1, -1, 0, 0, 2, 7, 7]
    assert LeaderEpochs.read(tmp_path / "gone").entries == ()


@pytest.mark.parametrize("lines", ["1 5\n1 6", "2 5\n1 6", "1 5\n2 5", "1 6\n2 5"])
def test_leader_epochs_that_do_not_rise_are_corrupt(lines: str) -> None:
    with pytest.raises(Corrupt):
        LeaderEpochs.from_text(f"0\n2\n{lines}\n", file="x")
