"""``floeberg sql`` without a query: a shell at a terminal, statements from a pipe."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from floeberg.processes.tied_process import tied
from tests.floeberg.command import hear_interrupts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With settings of a catalog that has no tables yet, and no daemon."""
    (tmp_path / "floeberg.toml").write_text(
        f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{tmp_path}"]\n[table_door]\nlisten = "127.0.0.1:1"\n'
    )
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
    return {**inherited, "PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"}


class Terminal:
    """What a person types and sees."""

    def __init__(self, handle: int, process: subprocess.Popen[bytes]) -> None:
        self._handle = handle
        self._seen = b""
        self.process = process

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def works(self) -> None:
        """Returns once a query has taken some time of a processor: it runs."""
        process = psutil.Process(self.process.pid)
        before_s = process.cpu_times().user
        while process.cpu_times().user - before_s < 0.5:
            process.cpu_percent(interval=0.05)

    def until(self, wanted: str) -> str:
        """What was shown up to ``wanted``, which the next look goes on after."""
        while wanted.encode() not in self._seen:
            try:
                more = os.read(self._handle, 4096)
            except OSError as error:
                raise AssertionError(f"it ended after {self._seen!r}") from error
            self._seen += more
        before, _, self._seen = self._seen.partition(wanted.encode())
        return before.decode()


@contextmanager
def shell(folder: Path) -> Iterator[Terminal]:
    hear_interrupts()
    ours, its = pty.openpty()
    process = subprocess.Popen(
        tied([sys.executable, "-m", "floeberg", "sql"]),
        cwd=folder,
        env=environment(folder),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_shell_answers_each_statement_goes_on_after_an_error_and_remembers(folder: Path) -> None:
    with shell(folder) as terminal:
        terminal.until("floeberg> ")
        terminal.type("SELECT 6 * 7 AS answer;\n")
        terminal.until("answer\r\n")
        assert terminal.until("floeberg> ").split() == ["42"]
        terminal.type("SELECT\n")
        terminal.until("...> ")
        terminal.type("'a;b' AS t;\n")
        terminal.until("t\r\n")
        assert terminal.until("floeberg> ").split() == ["a;b"]
        terminal.type("FROM nowhere;\n")
        assert "DuckDB refuses the query" in terminal.until("floeberg> ")
        terminal.type("SELECT count(*) FROM range(100000000000) t(i) WHERE i % 3 = 1;\n")
        terminal.until("\r\n")
        terminal.works()
        terminal.process.send_signal(signal.SIGINT)
        assert "stopped" in terminal.until("floeberg> ")
        terminal.type("SELECT i FROM range(1000) t(i);\n")
        assert "more than these 40 rows" in terminal.until("floeberg> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    (history,) = folder.rglob("sql_history")
    assert "SELECT 6 * 7 AS answer;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_statements_come_from_a_pipe_or_a_file(folder: Path) -> None:
    text = "SET threads = 1; SELECT 1 AS a;\nSELECT 'b' AS b"
    (folder / "two.sql").write_text(text)
    for arguments, typed in (([], text), (["-f", "two.sql"], "")):
        done = subprocess.run(
            [sys.executable, "-m", "floeberg", "sql", "--format", "jsonl", *arguments],
            cwd=folder,
            env=environment(folder),
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.splitlines() == ['{"a": 1}', '{"b": "b"}']


def test_reader_that_has_enough_ends_the_query(folder: Path) -> None:
    query = "SELECT i FROM range(1_000_000_000_000) t(i)"
    reading = subprocess.Popen(
        tied([sys.executable, "-m", "floeberg", "sql", "--format", "csv", query]),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reading.stdout is not None
    assert reading.stderr is not None
    with reading, reading.stdout:
        assert [reading.stdout.readline() for _ in range(3)] == [b"i\n", b"0\n", b"1\n"]
        reading.stdout.close()
        assert b"Traceback" not in reading.stderr.read()
    assert reading.returncode == 1
