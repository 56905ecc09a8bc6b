"""A server that is a Java program, in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import httpx

from floeberg.processes.child_process import ServerProcess
from floeberg.processes.free_ports import free_ports


class JavaServer(ServerProcess):
    """A server in ``directory`` on free ports of the loopback; a context manager.

    Its data and log (``server.log``) stay in the directory: starting again goes on with the same data and ports.
    """

    port_count: ClassVar[int] = 1
    start_timeout_seconds: ClassVar[float] = 90.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._ports: list[int] = []

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

    def start(self) -> None:
        """Start and wait until the server answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ports = self._ports or free_ports(self.port_count)
        self._run(self.command(), cwd=self.directory, env=self.environment())

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.start_timeout_seconds
        # One client for all tries: a new one reads the certificates of the world, which takes 25 ms of CPU.
        with httpx.Client(timeout=5.0) as client:
            while time.monotonic() < deadline and process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    if client.get(self.health_url).is_success:
                        return
                time.sleep(0.05)
        log = self.server_log.read_text(errors="replace")
        raise AssertionError(f"{self.health_url} does not answer:\n{log[-3000:]}")
