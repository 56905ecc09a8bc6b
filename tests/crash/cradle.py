"""Daemons without Spark, one life after the other, each a process of its own that nothing is waited for in.

``python -m tests.crash.cradle SETTINGS``: every line of the input, a fault point's ``<point>[#<n>]`` or nothing, is a
life, forked from this process, which has paid for the imports and started no thread. It prints ``born <pid>`` and,
when the daemon has ended, however it did, ``died <wait status>``.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.clock import SystemClock
from engine.fault_points import KillAt, arm
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.end_request import EndRequest
from floeberg.daemon.log_output import configure_logging
from floeberg.processes.tied_process import end_with_parent, tied
from floeberg.settings.file import load_settings

_LOADED_ON_THE_WAY = (
    "engine.formats.avro.codec",
    "engine.formats.plain",
    "engine.warehouse.durable_file_io",
    "anyio._backends._asyncio",
    "numpy.ma",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What a daemon imports when it first needs it: here once, for all the lives to come."""

ROOT = Path(__file__).resolve().parents[2]
_END_S = 60.0


def main(settings: Path) -> None:
    for module in _LOADED_ON_THE_WAY:
        importlib.import_module(module)
    for line in sys.stdin:
        cradle, pid = os.getpid(), os.fork()
        if pid == 0:
            end_with_parent(cradle)
            try:
                live(settings, line.strip())
            except BaseException:  # noqa: BLE001 - the process ends here, and says why
                traceback.print_exc()
            finally:
                os._exit(1)
        print(f"born {pid}", flush=True)
        print(f"died {os.waitpid(pid, 0)[1]}", flush=True)


def live(settings: Path, order: str) -> None:
    os.dup2(2, 1)
    configure_logging(log_format="json")
    if order:
        arm(KillAt(order))
    with Daemon(load_settings(settings), SystemClock(), in_process=True) as daemon:
        daemon.wait(EndRequest(signal.SIGTERM))
    os._exit(0)


class Cradle:
    """The other end: a context manager over one such process. One life at a time."""

    def __init__(self, settings: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                tied([sys.executable, "-m", "tests.crash.cradle", str(settings)]),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._pid = 0

    def bear(self, order: str = "") -> int:
        """A daemon begins to live; its process id."""
        assert not self.is_alive, "one life at a time"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        self._pid = self._told("born")
        return self._pid

    def kill(self) -> None:
        """Returns at once."""
        os.kill(self._pid, signal.SIGKILL)

    def end(self) -> None:
        """As an operator ends it."""
        os.kill(self._pid, signal.SIGTERM)
        assert self.death_within(_END_S) == 0, self.log.read_text()[-3000:]

    @property
    def is_alive(self) -> bool:
        return self._pid != 0

    def death_within(self, seconds: float) -> int | None:
        """The signal that ended it, 0 for an end of its own accord; None while it lives."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        status = self._told("died")
        self._pid = 0
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_alive:
            os.kill(self._pid, signal.SIGTERM if kind is None else signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _told(self, what: str) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().split()
        assert line[:1] == [what], f"{line}: {self.log.read_text()[-3000:]}"
        return int(line[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
