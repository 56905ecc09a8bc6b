"""Runs the programs that kill processes at fault points, each in a process that has started no thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from floeberg.processes.tied_process import tied

ROOT = Path(__file__).resolve().parents[2]
EVERY = ["every"] if os.environ.get("FLOEBERG_TEST_EVERY_CRASH") else []
"""Each of the hundreds of kills, in place of one of the times that a point is reached."""


def told_by(program: str, folder: Path, *, patience_s: int) -> list[dict[str, Any]]:
    """The lines that ``python -m tests.crash.<program>`` prints, which has to end well."""
    ended = subprocess.run(
        tied([sys.executable, "-m", f"tests.crash.{program}", str(folder), *EVERY]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]
