"""Processes that this program starts and ends: any, and a server that is awaited."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Self

from floeberg.processes.tied_process import tied

STOP_TIMEOUT_SECONDS = 30.0


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
    process: subprocess.Popen[bytes],
    *,
    timeout_seconds: float = STOP_TIMEOUT_SECONDS,
    with_signal: signal.Signals = signal.SIGTERM,
) -> None:
    """Ask it to end, wait, and end it by force when it takes longer. One that has ended already is no error."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(with_signal)
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class ServerProcess(ABC):
    """A server whose data and log (``server.log``) stay in ``directory`` after its end; a context manager.

    It ends with this program, however that ends, unless it ``outlives`` it.
    """

    def __init__(self, directory: Path, *, outlives: bool = False) -> None:
        self.directory = directory.absolute()
        self.server_log = self.directory / "server.log"
        self._outlives = outlives
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while the server runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start, with ``_run``, and wait until the server answers."""

    def stop(self) -> None:
        """End the server cleanly; by force when it takes longer than ``STOP_TIMEOUT_SECONDS``."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def _run(self, command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start the process as ``start_process`` does; one that does not answer is ended again."""
        self._process = start_process(command, log=self.server_log, cwd=cwd, env=env, outlives=self._outlives)
        try:
            self._await_answer(self._process)
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        """Return when the server can be used. Raises when it ends by itself or does not answer in time."""

    def _end(self, with_signal: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, with_signal=with_signal)
