"""Keeps the two ways of the data short: ceilings that only fall."""

from __future__ import annotations

import subprocess
import sys

from tests.house.ways import ROOT

DEEPEST_STACK = {"segment": 16, "fetch": 17}
FILES = {"segment": 90, "fetch": 58}


def test_ways_of_a_segment_and_of_a_fetch_become_no_longer() -> None:
    """In a process of its own: threads that other tests began would go unseen."""
    command = [sys.executable, "-m", "tests.house.ways", "--deepest", "--files"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    names, *rows = (line.rsplit(maxsplit=2) for line in done.stdout.partition("\n\n")[0].splitlines())
    found = {title: dict(zip(names, map(int, figures), strict=True)) for title, *figures in rows}
    for way in names:
        assert found["deepest stack"][way] <= DEEPEST_STACK[way], done.stdout
        assert found["files"][way] <= FILES[way], done.stdout
