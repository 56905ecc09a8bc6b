"""A server that is a Java program, in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import httpx

from floeberg.child_process import end_process, start_process
from floeberg.free_ports import free_ports

STOP_TIMEOUT_SECONDS = 30.0
SMALL_AND_SOON_UP = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaServer(ABC):
    """A server in ``directory`` on free ports of the loopback; a context manager.

    Its data and log (``server.log``) stay in the directory: starting again goes on with the same data and ports.
    """

    port_count: ClassVar[int] = 1
    start_timeout_seconds: ClassVar[float] = 90.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ports(self) -> list[int]:
        assert self._ports, "the server was never started: it has no address"
        return self._ports

    @property
    @abstractmethod
    def health_url(self) -> str:
        """Answered with success as soon as the server can be used."""

    @abstractmethod
    def command(self) -> list[str]:
        """Asked for at each start, when the ports are known."""

    def environment(self) -> Mapping[str, str] | None:
        """All that the process sees; None for this one's own."""
        return None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until the server answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ports = self._ports or free_ports(self.port_count)
        self._process = start_process(
            self.command(), log=self.directory / "server.log", cwd=self.directory, env=self.environment()
        )
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL)

    def _await_answer(self) -> None:
        assert self._process is not None, "only a started server answers"
        deadline = time.monotonic() + self.start_timeout_seconds
        # One client for all tries: a new one reads the certificates of the world, which takes 25 ms of CPU.
        with httpx.Client(timeout=5.0) as client:
            while time.monotonic() < deadline and self._process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    if client.get(self.health_url).is_success:
                        return
                time.sleep(0.05)
        log = (self.directory / "server.log").read_text(errors="replace")
        raise AssertionError(f"{self.health_url} does not answer:\n{log[-3000:]}")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, timeout_seconds=STOP_TIMEOUT_SECONDS, with_signal=number)
