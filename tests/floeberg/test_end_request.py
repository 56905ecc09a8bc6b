"""A daemon that is asked to end while it starts ends cleanly; a Spark that can't start says why."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from floeberg.processes.free_ports import free_ports

ROOT = Path(__file__).parents[2]


def started(folder: Path, *, open_files: int | None = None) -> subprocess.Popen[str]:
    """A daemon in a session of its own, whose broker is away."""
    (folder / "logs").mkdir()
    log_door, table_door = free_ports(2)
    (folder / "floeberg.toml").write_text(
        f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{folder / "logs"}"]\n'
        f'[log_door]\nlisten = "127.0.0.1:{log_door}"\n[table_door]\nlisten = "127.0.0.1:{table_door}"\n'
    )
    limited = None if open_files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (open_files,) * 2)
    # A JVM repeats these options of the tests, and one of them has the word "error".
    environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    return subprocess.Popen(
        [sys.executable, "-m", "floeberg", "run", "--log-format", "json"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limited,  # noqa: PLW1509 - no threads in the child
    )


pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize("whole_group", [False, True])
def test_daemon_that_is_ended_while_spark_starts_ends_well_and_leaves_no_process(
    tmp_path: Path, whole_group: bool
) -> None:
    daemon = started(tmp_path)
    assert daemon.stderr is not None
    line = next(line for line in daemon.stderr if "floeberg_runs" in line)
    process = psutil.Process(daemon.pid)
    while not (children := process.children(recursive=True)):
        assert daemon.poll() is None, line
    if whole_group:
        os.killpg(daemon.pid, signal.SIGTERM)  # as a service manager does
    else:
        daemon.terminate()
    said = daemon.communicate(timeout=60)[1]
    assert daemon.returncode == 0, said
    for words in ("Traceback", "foresaw", "error:"):
        assert words not in said
    _, alive = psutil.wait_procs(children, timeout=30)
    assert [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []


def test_spark_that_may_open_too_few_files_says_so_with_the_limit_and_what_to_do(tmp_path: Path) -> None:
    said = started(tmp_path, open_files=64).communicate(timeout=60)[1]
    assert "the limit of 64 open files is too low" in said
    assert "LimitNOFILE=65536" in said
    assert "JDK" not in said[said.index("error:") :]
