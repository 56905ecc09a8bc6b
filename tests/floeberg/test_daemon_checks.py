"""What would end a daemon as it starts is found before."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from engine.errors import Unavailable
from floeberg.daemon.data_dir_lock import lock_data_dir
from floeberg.processes.free_ports import free_ports
from floeberg.settings import Settings
from floeberg.setup.check_result import Verdict
from floeberg.setup.daemon_checks import check_daemon


def settings(folder: Path, *, log_door: int, table_door: int) -> Settings:
    return Settings(
        broker={"bootstrap": "b:1", "log_dirs": ["/l"]},
        data_dir=folder / "data",
        log_door={"listen": f"127.0.0.1:{log_door}"},
        table_door={"listen": f"127.0.0.1:{table_door}"},
    )


def test_address_that_is_taken_is_wrong_and_one_that_is_free_is_left_so(tmp_path: Path) -> None:
    (free,) = free_ports(1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        for _ in range(2):
            found = {one.name: one for one in check_daemon(settings(tmp_path, log_door=free, table_door=taken))}
            assert {name: one.verdict for name, one in found.items()} == {
                "data directory": Verdict.GOOD,
                "[log_door] listen": Verdict.GOOD,
                "[table_door] listen": Verdict.WRONG,
            }
    assert f"Nothing can listen at 127.0.0.1:{taken}" in found["[table_door] listen"].message
    assert found["[table_door] listen"].next_step is not None


def test_daemon_that_runs_is_named_and_its_addresses_are_not_called_taken(tmp_path: Path) -> None:
    asked = settings(tmp_path, log_door=0, table_door=0)
    with lock_data_dir(asked.data_dir):
        (found,) = check_daemon(asked)
    assert found.verdict is Verdict.NOTE
    assert f"(process {os.getpid()}): floeberg run would end at once" in found.message


def test_data_directory_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(Unavailable, match="data directory can't be written"):
        next(check_daemon(settings(tmp_path, log_door=0, table_door=0)))
