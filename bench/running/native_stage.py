"""A broker with the plugin and a daemon beside it, each a process of its own: what a native installation runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx

from bench.tiering.order_topic import write_schema_folder
from engine.errors import Unavailable
from floeberg.java.plugin_jar import broker_properties, packed_jar
from floeberg.processes.child_process import end_process, start_process
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import FAST_TIERED_STORAGE, LocalBroker

HISTORY_TOPIC = "history"
HISTORY_CONFIG = {"remote.storage.enable": "true", "local.retention.ms": "1000", "file.delete.delay.ms": "500"}
_READY_TIMEOUT_SECONDS = 120.0

_SETTINGS = """\
data_dir = "{data_dir}"

[broker]
bootstrap = "{bootstrap}"
log_dirs = ["{log_dir}"]

[spark]
master = "local[2]"

[log_door]
listen = "{log_door}"
token = "{token}"

[table_door]
listen = "{table_door}"

[[topics]]
name = "{topic}"
value = "avro"
schemas = "{schemas}"
freshness_ms = "closed"
"""


class NativeStage:
    """A context manager: broker and daemon run inside. Only the topic ``history`` is tiered."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._token = os.urandom(16).hex()
        self._log_door, self._table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
        properties = broker_properties(jar=packed_jar(), door_url=f"http://{self._log_door}", token=self._token)
        self.broker = LocalBroker(directory / "broker", properties={**FAST_TIERED_STORAGE, **properties}, heap_mb=768)
        self._daemon: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        return self._directory / "data"

    @property
    def daemon_pid(self) -> int:
        assert self._daemon is not None, "the stage is entered first"
        return self._daemon.pid

    def __enter__(self) -> Self:
        self.broker.start()
        try:
            self._start_daemon()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the daemon, then the broker, by their process ids."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None and daemon.poll() is None:
            end_process(daemon)
        self.broker.stop()

    def written_files(self) -> int:
        """Data files in the warehouse: one a tiered segment."""
        return sum(1 for _ in (self.data_dir / "warehouse").rglob("*.parquet"))

    def closed_ends(self, topic: str) -> dict[int, int]:
        """By partition, where the active segment begins: what lies below is or will be tiered."""
        return {partition: max(bases, default=0) for partition, bases in self._bases(topic).items()}

    def await_dropped(self, topic: str, *, timeout_seconds: float) -> None:
        """Wait until the broker has only the active segment of each partition. Raises Unavailable."""
        deadline = time.monotonic() + timeout_seconds
        while any(len(bases) > 1 for bases in self._bases(topic).values()):
            if time.monotonic() > deadline:
                raise Unavailable(f"the broker still has closed segments of {topic}", file=str(self._log_path))
            assert self._daemon is not None, "the stage is entered first"
            if self._daemon.poll() is not None:
                raise Unavailable(f"the daemon ended with code {self._daemon.returncode}", file=str(self._log_path))
            time.sleep(0.2)

    @property
    def _log_path(self) -> Path:
        return self._directory / "daemon.log"

    def _bases(self, topic: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for path in self.broker.log_dirs[0].glob(f"{topic}-*/*.log"):
            found.setdefault(int(path.parent.name.rpartition("-")[2]), []).append(int(path.stem))
        return found

    def _start_daemon(self) -> None:
        settings = self._directory / "floeberg.toml"
        settings.write_text(
            _SETTINGS.format(
                data_dir=self.data_dir,
                bootstrap=self.broker.bootstrap,
                log_dir=self.broker.log_dirs[0],
                log_door=self._log_door,
                table_door=self._table_door,
                token=self._token,
                topic=HISTORY_TOPIC,
                schemas=write_schema_folder(self._directory / "schemas"),
            )
        )
        self._daemon = start_daemon(settings, table_door=self._table_door, log=self._log_path)


def start_daemon(settings: Path, *, table_door: str, log: Path) -> subprocess.Popen[bytes]:
    """``floeberg run``, once its doors are ready. Raises Unavailable."""
    command = [sys.executable, "-m", "floeberg", "--config", str(settings), "run"]
    daemon = start_process(command, log=log)
    deadline = time.monotonic() + _READY_TIMEOUT_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://{table_door}/readyz", timeout=5.0).is_success:
                return daemon
        time.sleep(0.1)
    if daemon.poll() is None:
        end_process(daemon)
    raise Unavailable("the daemon is not ready", file=str(log))
