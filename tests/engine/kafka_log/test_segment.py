from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.kafka_log.segment import base_offset_in, list_segments, segment_file_name


def test_only_live_segments_are_listed_by_rising_base_offset(tmp_path: Path) -> None:
    for base in (700, 0, 5):
        (tmp_path / segment_file_name(base)).write_bytes(b"x" * base)
    stem = f"{9:020d}"
    others = [f"{stem}.log.deleted", f"{stem}.log.cleaned", f"{stem}.log.swap", f"{stem}.index", f"{stem}.timeindex"]
    others += [
        f"{stem}.txnindex",
        f"{stem}.snapshot",
        "9.log",
        "partition.metadata",
        "leader-epoch-checkpoint",
        "x.log",
    ]
    for name in others:
        (tmp_path / name).touch()
    segments = list_segments(tmp_path)
    assert [(segment.base_offset, segment.size_bytes) for segment in segments] == [(0, 0), (5, 5), (700, 700)]
    assert segments[1].modified_ms == segments[1].log_path.stat().st_mtime_ns // 1_000_000


def test_files_beside_a_segment_have_its_name(tmp_path: Path) -> None:
    (tmp_path / segment_file_name(17)).touch()
    (segment,) = list_segments(tmp_path)
    assert segment.transaction_index_path == tmp_path / "00000000000000000017.txnindex"
    assert segment.offset_index_path == tmp_path / "00000000000000000017.index"
    assert segment.time_index_path == tmp_path / "00000000000000000017.timeindex"


def test_file_that_vanishes_meanwhile_is_left_out(tmp_path: Path) -> None:
    (tmp_path / segment_file_name(0)).touch()
    # A dangling link is listed and has no status, as a file that was deleted in between.
    (tmp_path / segment_file_name(5)).symlink_to(tmp_path / "gone")
    assert [segment.base_offset for segment in list_segments(tmp_path)] == [0]


def test_directory_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        list_segments(tmp_path / "gone")


def test_names_state_their_base_offset() -> None:
    assert base_offset_in(Path("/x") / segment_file_name(123)) == 123
    assert base_offset_in(Path(f"{1:020d}-{9:020d}.log")) is None
