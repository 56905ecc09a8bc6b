"""The end of a process that this program started."""

from __future__ import annotations

import contextlib
import signal
import subprocess


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
