"""A process of its own that this program starts and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from floeberg.tied_process import tied


def start_process(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    outlives: bool = False,
) -> subprocess.Popen[bytes]:
    """Start it with no input and its output appended to ``log``; ``env`` is all that it sees, None this one's own.

    It ends when its owner says so, not by Ctrl-C, which a terminal sends to the whole foreground group; and, unless it
    ``outlives`` this program, with this program, however that ends.
    """
    with log.open("ab") as output:
        # The tie is to the thread that starts it: one that lives as long as this program.
        return (
            _starter(os.getpid())
            .submit(
                subprocess.Popen,
                command if outlives else tied(command),
                cwd=cwd,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            .result()
        )


@cache
def _starter(_pid: int) -> ThreadPoolExecutor:
    """One a process: a fork has the executor of the process it came from, and not its thread."""
    return ThreadPoolExecutor(1, thread_name_prefix="starts-processes")


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
