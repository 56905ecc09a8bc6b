"""The command, run as a user does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from floeberg.processes.tied_process import tied


def floeberg(*arguments: str | Path, cwd: Path, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a user types it, in a folder of its own; ``typed``: what they answer."""
    return subprocess.run(
        tied([sys.executable, "-m", "floeberg", *map(str, arguments)]),
        cwd=cwd,
        input=typed,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def hear_interrupts() -> None:
    """For what is started from here on: a job in the background ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
