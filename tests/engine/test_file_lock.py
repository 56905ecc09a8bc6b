"""File locks: one holder at a time, across processes; a dead holder's lock is free."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.file_lock import FileLock, owner_of

HOLD = """
import sys
from pathlib import Path
from engine.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]), is_process_wide=sys.argv[2] == "True")
print(lock.take(sign=True), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_process_wide", [False, True])
def test_lock_of_another_process_can_be_taken_once_that_is_dead(tmp_path: Path, is_process_wide: bool) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path), str(is_process_wide)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
        FileLock(path, is_process_wide=is_process_wide) as lock,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not lock.take()
        assert owner_of(path) == holder.pid
        holder.kill()
        assert lock.take(wait=True)


def test_two_objects_of_a_process_exclude_each_other_unless_the_lock_is_the_processs(tmp_path: Path) -> None:
    for is_process_wide in (False, True):
        path = tmp_path / f"lock-{is_process_wide}"
        with FileLock(path, is_process_wide=is_process_wide) as first:
            assert first.take()
            with FileLock(path, is_process_wide=is_process_wide) as second:
                assert second.take() == is_process_wide


def test_signature_goes_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path) as lock:
        assert lock.take(sign=True)
        assert owner_of(path) is not None
    assert owner_of(path) is None
    assert owner_of(tmp_path / "missing") is None
