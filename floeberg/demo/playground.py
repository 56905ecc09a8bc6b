"""Where the demo takes place: a folder, a broker with the plugin in it, a daemon; all ended by process id."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from engine.errors import Unavailable
from floeberg.demo.orders import PARTITIONS, TOPIC
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID
from floeberg.java.plugin_jar import broker_properties, packed_jar
from floeberg.processes.child_process import end_process, start_process
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import FAST_TIERED_STORAGE, LocalBroker
from floeberg.processes.tied_process import tied
from serving.status.daemon_status import DaemonStatus

SEGMENT_BYTES = 4 << 20
"""Small, so that a minute's data closes a dozen segments; Kafka's default is 1 GiB."""

_READY_TIMEOUT_SECONDS = 90.0

TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.ms": "1000",
    "retention.ms": "-1",
    "file.delete.delay.ms": "500",
}

_SETTINGS = """\
data_dir = "floeberg-data"

[broker]
bootstrap = "{bootstrap}"
log_dirs = [{log_dirs}]

[log_door]
listen = "{log_door}"
token = "{token}"

[table_door]
listen = "{table_door}"

[[topics]]
name = "{topic}"
value = "avro"
schemas = "schemas"
freshness_ms = "closed"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLog:
    """What the broker has on disk of the topic: bytes, segments, and the first offset by partition."""

    size_bytes: int
    segment_count: int
    start: tuple[int, ...]
    closed_end: tuple[int, ...]


class Playground:
    """Nothing runs until it is started; ``close`` ends whatever does, in the opposite order.

    All of it ends with this program too, however that ends, unless it was made to be ``kept``.
    """

    def __init__(self, directory: Path, *, kept: bool = False) -> None:
        self.directory = directory
        self.settings_file = directory / "floeberg.toml"
        self.daemon_log = directory / "daemon.log"
        self.log_door, self.table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
        self._token = os.urandom(16).hex()
        self._kept = kept
        self._segment_bytes: dict[Path, int] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        properties = broker_properties(jar=packed_jar(), door_url=f"http://{self.log_door}", token=self._token)
        properties = {**FAST_TIERED_STORAGE, **properties}
        self.broker = LocalBroker(directory / "broker", properties=properties, heap_mb=768, outlives=kept)

    @property
    def table_door_url(self) -> str:
        return f"http://{self.table_door}"

    @property
    def produced_log_bytes(self) -> int:
        """Bytes of all segments that were ever seen, those the broker has dropped included."""
        return sum(self._segment_bytes.values())

    def start_broker(self) -> None:
        """A broker with the plugin, the topic, and its schema in a folder. Raises ``Unavailable``."""
        self.broker.start()
        self.broker.create_topic(TOPIC, partitions=PARTITIONS, config=TOPIC_CONFIG)
        schemas = self.directory / "schemas"
        schemas.mkdir()
        (schemas / f"{ORDER_SCHEMA_ID}.avsc").write_text(ORDER_SCHEMA)
        # It has the token in it.
        self.settings_file.touch(mode=0o600)
        self.settings_file.write_text(
            _SETTINGS.format(
                bootstrap=self.broker.bootstrap,
                log_dirs=", ".join(f'"{log_dir}"' for log_dir in self.broker.log_dirs),
                log_door=self.log_door,
                table_door=self.table_door,
                token=self._token,
                topic=TOPIC,
            )
        )

    def start_daemon(self) -> None:
        """``floeberg run`` as a process of its own; returns at once."""
        self._daemon = start_process(self.command("run"), log=self.daemon_log, outlives=self._kept)

    def await_daemon(self) -> None:
        """Wait until the daemon is ready. Raises ``Unavailable`` with the end of its log when it is not in time."""
        deadline = time.monotonic() + _READY_TIMEOUT_SECONDS
        reason = "it does not listen"
        # One client for all tries: a new one reads the certificates of the world, which takes 25 ms of CPU.
        with httpx.Client(timeout=5.0) as client:
            while time.monotonic() < deadline:
                self.raise_if_daemon_ended()
                with contextlib.suppress(httpx.HTTPError):
                    answer = client.get(f"{self.table_door_url}/readyz")
                    if answer.is_success:
                        return
                    reason = answer.text.strip()
                time.sleep(0.1)
        raise Unavailable(f"The daemon is not ready: {reason}", file=str(self.daemon_log))

    def raise_if_daemon_ended(self) -> None:
        if self._daemon is not None and self._daemon.poll() is not None:
            lines = self.daemon_log.read_text(errors="replace").strip().splitlines()
            raise Unavailable(
                f"The daemon ended with code {self._daemon.returncode}: {lines[-1] if lines else 'it says nothing'}",
                file=str(self.daemon_log),
            )

    def status(self) -> DaemonStatus:
        """Raises ``Unavailable`` when the daemon gives none."""
        self.raise_if_daemon_ended()
        try:
            return DaemonStatus.from_dict(httpx.get(f"{self.table_door_url}/status", timeout=10.0).json())
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(f"The daemon gives no status: {error}", file=str(self.daemon_log)) from error

    def local_log(self) -> LocalLog:
        """What lies in the broker's log directory now."""
        start, closed_end, size_bytes, count = [], [], 0, 0
        for partition in range(PARTITIONS):
            bases = []
            for path in self.broker.log_dirs[0].glob(f"{TOPIC}-{partition}/*.log"):
                with contextlib.suppress(FileNotFoundError):
                    size = path.stat().st_size
                    self._segment_bytes[path] = max(size, self._segment_bytes.get(path, 0))
                    size_bytes += size
                    bases.append(int(path.stem))
            count += len(bases)
            start.append(min(bases, default=0))
            closed_end.append(max(bases, default=0))
        return LocalLog(size_bytes=size_bytes, segment_count=count, start=tuple(start), closed_end=tuple(closed_end))

    def run(self, *arguments: str, timeout_seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a ``floeberg`` command as a user would. Raises ``Unavailable`` when it takes longer."""
        try:
            return subprocess.run(
                tied(self.command(*arguments)), capture_output=True, text=True, timeout=timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"floeberg {arguments[0]} took longer than {timeout_seconds:.0f} s") from error

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "floeberg", "--config", str(self.settings_file), *arguments]

    def release(self, trickle_from: int) -> Sequence[int]:
        """Leave everything running, with a trickle of orders of its own. Returns the process ids."""
        assert self._kept, "the playground was made to end with this program"
        assert self._daemon is not None, "only a whole demo is kept"
        command = [sys.executable, "-m", "floeberg.demo.trickle", self.broker.bootstrap, str(trickle_from)]
        trickle = start_process(command, log=self.directory / "trickle.log", outlives=True)
        daemon, self._daemon = self._daemon, None
        return trickle.pid, daemon.pid, self.broker.release()

    def close(self, *, gently: bool = True) -> None:
        """End the daemon, then the broker; not ``gently``: the broker at once, whose data nobody wants any more.

        A broker that is still making its remote log metadata topic would take its whole time-out to end by itself.
        """
        daemon, self._daemon = self._daemon, None
        if daemon is not None and daemon.poll() is None:
            end_process(daemon)
        if gently:
            self.broker.stop()
        else:
            self.broker.kill()
