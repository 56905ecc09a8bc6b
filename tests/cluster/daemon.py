"""A Floeberg daemon beside a broker, as a test holds it: started, asked, paused, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from floeberg.processes.child_process import end_process, start_process
from tests.cluster.daemon_process import PAUSE_FILE
from tests.native.stage import eventually

_STOP_TIMEOUT_S = 40.0

_SETTINGS = """\
data_dir = "{data_dir}"

[broker]
bootstrap = "{bootstrap}"
log_dirs = ["{log_dir}"]

[catalog]
type = "sql"
uri = "sqlite:///{shared}/catalog.db"
warehouse = "file://{shared}/warehouse"

[log_door]
listen = "127.0.0.1:{log_door}"
token = "{token}"

[table_door]
listen = "127.0.0.1:{table_door}"

[tiering]
cycle_interval_ms = 300

[[topics]]
name = "*"
freshness_ms = "closed"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPlace:
    """Where a daemon lives and what it looks at; ``shared`` has the catalog and the warehouse of all daemons."""

    data_dir: Path
    shared: Path
    bootstrap: str
    log_dir: Path
    log_door: int
    table_door: int
    token: str

    @property
    def door_url(self) -> str:
        return f"http://127.0.0.1:{self.log_door}"


class DaemonProcess:
    """One at a time lives in ``place``; what is on its disk outlives it."""

    def __init__(self, place: DaemonPlace) -> None:
        self.place = place
        self.log_path = place.data_dir.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the daemon was started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns at once."""
        assert not self.is_alive, "one process a place"
        settings = self.place.data_dir.with_suffix(".toml")
        settings.parent.mkdir(parents=True, exist_ok=True)
        place = self.place
        settings.write_text(
            _SETTINGS.format(
                data_dir=place.data_dir,
                bootstrap=place.bootstrap,
                log_dir=place.log_dir,
                shared=place.shared,
                log_door=place.log_door,
                table_door=place.table_door,
                token=place.token,
            )
        )
        command = [sys.executable, "-m", "tests.cluster.daemon_process", str(settings)]
        self._process = start_process(command, log=self.log_path)

    def await_ready(self) -> None:
        eventually(self._is_ready, lambda: f"the daemon is not ready: {self.log_path.read_text()[-2000:]}")

    def stop(self) -> None:
        """End it cleanly, paused or not; by force when that takes too long."""
        if self.is_alive:
            assert self._process is not None
            self._process.send_signal(signal.SIGCONT)
            end_process(self._process, timeout_seconds=_STOP_TIMEOUT_S)

    def kill(self) -> None:
        """As a crash does: SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP, wherever it is."""
        os.kill(self.pid, signal.SIGSTOP)
        self.await_frozen()

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def pause_in_mid_work(self) -> None:
        """It will stop itself when it next has files that are verified and not committed."""
        (self.place.data_dir / PAUSE_FILE).touch()

    def await_frozen(self) -> None:
        process = psutil.Process(self.pid)
        eventually(lambda: process.status() == psutil.STATUS_STOPPED, lambda: f"the daemon is {process.status()}")

    def status(self) -> dict[str, Any]:
        """What ``/status`` says."""
        answer = httpx.get(f"http://127.0.0.1:{self.place.table_door}/status", timeout=10)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """What the operator sees of one partition; empty where the daemon has nothing to say of it."""
        for found in self.status()["partitions"]:
            if (found["topic"], found["partition"]) == (topic, partition):
                return dict(found)
        return {}

    def events(self, name: str) -> list[dict[str, Any]]:
        """Lines of the daemon's log, all starts of it."""
        lines = (line for line in self.log_path.read_text().splitlines() if line.startswith("{"))
        return [event for event in map(json.loads, lines) if event.get("event") == name]

    def _is_ready(self) -> bool:
        assert self.is_alive, f"the daemon ended: {self.log_path.read_text()[-4000:]}"
        try:
            return httpx.get(f"http://127.0.0.1:{self.place.table_door}/readyz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False
