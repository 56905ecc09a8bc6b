"""Files that appear whole: replaced or left as they are, and nothing half-made stays after an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.durable_file import write_durably
from engine.fault_points import FaultPoint, armed


@pytest.mark.parametrize(("replaces", "kept"), [(True, b"second"), (False, b"first")])
def test_file_that_is_there_is_replaced_or_left_as_it_is(tmp_path: Path, replaces: bool, kept: bytes) -> None:
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_durably(path, content, replaces=replaces)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]


def test_points_are_reached_before_the_name_and_after_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    seen: list[tuple[FaultPoint, bool]] = []
    with armed(lambda point: seen.append((point, path.exists()))):
        write_durably(path, b"x", synced=FaultPoint.FILE_SYNCED, named=FaultPoint.FILE_RENAMED)
    assert seen == [(FaultPoint.FILE_SYNCED, False), (FaultPoint.FILE_RENAMED, True)]


def test_file_that_cannot_take_its_name_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a folder in the way"
    (folder / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="a folder in the way"):
        write_durably(folder, b"x")
    assert list(tmp_path.iterdir()) == [folder]
