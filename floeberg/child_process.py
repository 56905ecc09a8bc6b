"""A process of its own that this program starts and ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def start_process(
    command: Sequence[str], *, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start it with no input and its output appended to ``log``; ``env`` is all that it sees, None this one's own.

    Ctrl-C in a terminal goes to the whole foreground group; this process ends when its owner says so.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def end_process(
    process: subprocess.Popen[bytes], *, timeout_seconds: float, with_signal: signal.Signals = signal.SIGTERM
) -> None:
    """Ask it to end, wait, and end it by force when it takes longer. One that has ended already is no error."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(with_signal)
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
