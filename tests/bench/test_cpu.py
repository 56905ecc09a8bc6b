"""CPU-seconds of a process tree: none is lost with the process that used it, and none counts twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.cpu import ProcessTree, measured
from floeberg.processes.tied_process import tied

BURNT_SECONDS = 0.3
TOLERANCE_SECONDS = BURNT_SECONDS / 2
"""Interpreters use some when they begin and end. What counts twice is twice as much."""

BURNER = f"import time\nwhile time.process_time() < {BURNT_SECONDS}: pass\nprint('burnt', flush=True)\ninput()"
PARENT = """
import signal, subprocess, sys
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
input()
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), end="", flush=True)
input()
child.communicate(b"\\n")
print("ended", flush=True)
input()
"""


@contextmanager
def parent_of_a_burner(how: str) -> Iterator[subprocess.Popen[str]]:
    """A line in makes it start the child, the next end it; each is answered."""
    command = tied([sys.executable, "-I", "-S", "-c", PARENT, BURNER, how])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate("\n")


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.parametrize("how", ["waited for", "ignored"])
def test_process_that_ended_counts_once_whether_its_parent_waited_for_it_or_not(how: str) -> None:
    with parent_of_a_burner(how) as process:
        tree = ProcessTree(process.pid)
        before = tree.cpu_seconds
        assert told(process) == "burnt\n"
        tree.look()
        alive = tree.cpu_seconds
        assert told(process) == "ended\n"
        tree.look()
        for spent in (alive - before, tree.cpu_seconds - before):
            assert BURNT_SECONDS - TOLERANCE_SECONDS <= spent <= BURNT_SECONDS + TOLERANCE_SECONDS


def test_process_that_nobody_saw_counts_when_its_parent_waited_for_it() -> None:
    with parent_of_a_burner("waited for") as process, measured(process.pid) as spent:
        assert told(process) == "burnt\n"
        assert told(process) == "ended\n"
    assert spent.cpu_seconds >= BURNT_SECONDS - TOLERANCE_SECONDS
    assert spent.wall_seconds > 0


def test_process_that_was_measured_from_its_start_may_end_in_the_middle() -> None:
    with parent_of_a_burner("waited for") as process:
        assert told(process) == "burnt\n"
        with measured(process.pid) as spent:
            assert told(process) == "ended\n"
        assert 0 <= spent.cpu_seconds <= TOLERANCE_SECONDS, "what it had used before does not count"
