"""A one-node Kafka broker (KRaft) of our own, for the demo and the tests: started, awaited, ended by its process id."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from engine.errors import Invalid, Unavailable
from floeberg.jdk import java_command
from floeberg.maven_jars import KAFKA_BROKER, class_path, resolve_jars

START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 30.0
_CLUSTER_ID = "RmxvZWJlcmdMb2NhbEJyb2"
"""22 characters of base64, as Kafka wants a cluster id; the same every time, a directory is one cluster."""

FAST_HOUSEKEEPING: Mapping[str, str] = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "500",
}
"""Kafka looks for segments to delete every 5 minutes; these make it see to them within seconds."""

FAST_TIERED_STORAGE: Mapping[str, str] = {
    **FAST_HOUSEKEEPING,
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "1000",
    # A copy that timed out is tried again after 1 s, not after half a minute.
    "remote.log.manager.task.retry.backoff.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
}
"""Tiered storage (KIP-405) on one node with the timings of a demo. The plugin's own lines come on top."""


class LocalBroker:
    """A broker in ``directory`` on free ports of the loopback; a context manager.

    ``properties`` are added to server.properties and win over the defaults; ``class_path_entries`` join the jars of
    the broker. Data, settings and the log (``server.log``) stay in the directory after the end: starting again goes
    on with the same data and ports. Memory is about ``heap_mb`` plus 150 MB.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_dir_count: int = 1,
        heap_mb: int = 512,
        class_path_entries: tuple[Path, ...] = (),
    ) -> None:
        if log_dir_count < 1:
            raise Invalid("A broker needs at least one log directory")
        self.directory = directory.absolute()
        self.log_dirs = tuple(self.directory / f"log-{number}" for number in range(log_dir_count))
        self.server_log = self.directory / "server.log"
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._class_path_entries = class_path_entries
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the started broker."""
        if self._ports is None:
            raise Invalid("The broker was never started: it has no address")
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        """Process id while the broker runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until the broker answers a request.

        Raises ``Unavailable`` with the end of its log when it ends by itself or does not answer in time.
        """
        if self.pid is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._ports is None:
            self._ports = _free_ports()
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings(self._ports).items()))
        classes = class_path((*self._class_path_entries, *resolve_jars(KAFKA_BROKER)))
        if not (self.log_dirs[0] / "meta.properties").exists():
            self._format(classes, settings)
        with self.server_log.open("ab") as log:
            self._process = subprocess.Popen(
                [java_command(), *self._jvm_options(), "-cp", classes, "kafka.Kafka", str(settings)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                # Ctrl-C in a terminal goes to the whole foreground group; the broker ends when its owner says so.
                start_new_session=True,
            )
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the broker cleanly; by force when it takes longer than ``STOP_TIMEOUT_SECONDS``."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic. Its records stay whatever their timestamps say (``retention.ms=-1``) unless ``config``
        says otherwise. Raises ``Invalid`` when the broker refuses."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(config or {})})
        try:
            admin.create_topics([topic])[name].result(timeout=30)
        except KafkaException as error:
            raise Invalid(f"The broker refuses the topic: {error.args[0].str()}", topic=name) from error

    def release(self) -> int:
        """Leave the broker running when this program ends. Returns its process id."""
        pid = self.pid
        if pid is None:
            raise Invalid("The broker does not run")
        self._process = None
        return pid

    def _end(self, with_signal: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(with_signal)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _settings(self, ports: tuple[int, int]) -> dict[str, str]:
        client, controller = ports
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker may come back when its old session is over (9 s by default).
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "1000",
            **self._properties,
        }

    def _jvm_options(self) -> tuple[str, ...]:
        return (
            f"-Xmx{self._heap_mb}m",
            "-Xms128m",
            "-XX:+UseSerialGC",
            "-Djava.awt.headless=true",
            *_quiet_log("info"),
        )

    def _format(self, classes: str, settings: Path) -> None:
        """Write the metadata every log directory starts with (``kafka-storage.sh format``)."""
        command = [java_command(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_quiet_log("error")]
        command += ["-cp", classes, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_SECONDS, check=False)
        if done.returncode != 0:
            raise Invalid(
                f"The broker's storage can't be formatted: {_last_line(done.stdout + done.stderr, mark='Exception: ')}",
                file=str(settings),
                next_step="look at the properties that were added to the file",
            )

    def _await_answer(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        process = self._process
        assert process is not None, "only called after the start"
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not _accepts(self.bootstrap):
            self._raise_if_ended(process)
            if time.monotonic() > deadline:
                raise self._not_started(f"no answer within {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=2.0).brokers:
                    return
            self._raise_if_ended(process)
            if time.monotonic() > deadline:
                raise self._not_started(f"it does not answer metadata requests within {START_TIMEOUT_SECONDS:.0f} s")

    def _raise_if_ended(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            raise self._not_started(f"it ended with code {process.returncode}")

    def _not_started(self, why: str) -> Unavailable:
        last = _last_line(self.server_log.read_text(errors="replace"), mark="Exception: ")
        return Unavailable(f"The local broker did not start: {why}. It says: {last}", file=str(self.server_log))


def _quiet_log(level: str) -> tuple[str, ...]:
    """Settings of slf4j-simple: one line a message with its time; the chatty parts only from warnings on."""
    prefix = "-Dorg.slf4j.simpleLogger."
    return (
        f"{prefix}defaultLogLevel={level}",
        f"{prefix}showDateTime=true",
        f"{prefix}dateTimeFormat=HH:mm:ss.SSS",
        f"{prefix}log.org.apache.kafka.clients=warn",
        f"{prefix}log.org.apache.kafka.common=warn",
        f"{prefix}log.state.change.logger=warn",
        f"{prefix}log.org.apache.kafka.image=warn",
        f"{prefix}log.org.apache.kafka.raft=warn",
        f"{prefix}log.org.apache.kafka.metadata=warn",
        f"{prefix}log.org.apache.kafka.controller=warn",
    )


def _last_line(text: str, *, mark: str = "") -> str:
    """The last line that holds ``mark``, or the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if mark in line]
    return (marked or lines or ["nothing"])[-1]


def _free_ports() -> tuple[int, int]:
    """Two ports that are free now; held together, so that they differ."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _accepts(bootstrap: str) -> bool:
    host, port = bootstrap.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False
