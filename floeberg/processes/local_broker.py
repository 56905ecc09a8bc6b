"""A Kafka broker (KRaft) of our own, for the demo and the tests: started, awaited, ended by its process id."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import Invalid, Unavailable
from floeberg.java.jdk import SHORT_LIFE_OPTIONS, java_command
from floeberg.java.maven_jars import KAFKA_BROKER, class_path, resolve_jars
from floeberg.processes.child_process import ServerProcess
from floeberg.processes.free_ports import free_ports
from floeberg.processes.tied_process import tied

START_TIMEOUT_SECONDS = 90.0
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
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "1000",
    # A copy that timed out is tried again after 1 s, not after half a minute.
    "remote.log.manager.task.retry.backoff.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
}
"""Tiered storage (KIP-405) with the timings of a demo. The plugin's own lines come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where one broker listens on the loopback."""

    client: int
    controller: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Which node of a cluster a broker is; ``ports`` of all its nodes. Each is broker and controller in one."""

    node_id: int
    ports: Mapping[int, Ports]

    @property
    def own(self) -> Ports:
        return self.ports[self.node_id]


def cluster_of(node_ids: Sequence[int]) -> tuple[Membership, ...]:
    """One membership a node, on ports that are free now."""
    free = iter(free_ports(2 * len(node_ids)))
    ports = {node_id: Ports(client=next(free), controller=next(free)) for node_id in node_ids}
    return tuple(Membership(node_id=node_id, ports=ports) for node_id in node_ids)


class LocalBroker(ServerProcess):
    """A broker in ``directory`` on free ports of the loopback; a context manager.

    ``properties`` are added to server.properties and win over the defaults; ``class_path_entries`` join the jars of
    the broker. Data, settings and the log (``server.log``) stay in the directory after the end: starting again goes on
    with the same data and ports. Memory is about ``heap_mb`` plus 150 MB.

    Alone it is a cluster of one. With a ``membership`` it is one node of several (``cluster_of``), which must be
    started together: none answers before most of them are up.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_dir_count: int = 1,
        heap_mb: int = 512,
        class_path_entries: tuple[Path, ...] = (),
        membership: Membership | None = None,
        outlives: bool = False,
    ) -> None:
        if log_dir_count < 1:
            raise Invalid("A broker needs at least one log directory")
        super().__init__(directory, outlives=outlives)
        self.log_dirs = tuple(self.directory / f"log-{number}" for number in range(log_dir_count))
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._class_path_entries = class_path_entries
        self._membership = membership

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the started broker."""
        if self._membership is None:
            raise Invalid("The broker was never started: it has no address")
        return f"127.0.0.1:{self._membership.own.client}"

    def start(self) -> None:
        """Start and wait until the broker answers a request.

        Raises ``Unavailable`` with the end of its log when it ends by itself or does not answer in time.
        """
        if self.pid is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._membership is None:
            (self._membership,) = cluster_of([1])
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings(self._membership).items()))
        classes = class_path((*self._class_path_entries, *resolve_jars(KAFKA_BROKER)))
        if not all((log_dir / "meta.properties").exists() for log_dir in self.log_dirs):
            self._format(classes, settings)
        command = [java_command(), *self._jvm_options(), "-cp", classes, "kafka.Kafka", str(settings)]
        self._run(command)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replicas: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic. Its records stay whatever their timestamps say (``retention.ms=-1``) unless ``config``
        says otherwise. ``replicas``: the nodes of each partition, the preferred leader first, in place of
        ``partitions``. Raises ``Invalid`` when the broker refuses."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        kept = {"retention.ms": "-1", **(config or {})}
        if replicas is None:
            topic = NewTopic(name, partitions, config=kept)
        else:
            topic = NewTopic(name, len(replicas), replica_assignment=[list(nodes) for nodes in replicas], config=kept)
        try:
            admin.create_topics([topic])[name].result(timeout=30)
        except KafkaException as error:
            raise Invalid(f"The broker refuses the topic: {error.args[0].str()}", topic=name) from error

    def release(self) -> int:
        """Leave the broker running when this program ends. Returns its process id."""
        assert self._outlives, "the broker was started to end with this program"
        pid = self.pid
        if pid is None:
            raise Invalid("The broker does not run")
        self._process = None
        return pid

    def _settings(self, membership: Membership) -> dict[str, str]:
        ports, copies = membership.own, str(len(membership.ports))
        # One node may be away, and none where there is only one.
        least_in_sync = str(max(1, len(membership.ports) - 1))
        voters = (f"{node}@127.0.0.1:{other.controller}" for node, other in membership.ports.items())
        return {
            "process.roles": "broker,controller",
            "node.id": str(membership.node_id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{ports.client},CONTROLLER://127.0.0.1:{ports.controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports.client}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": least_in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": least_in_sync,
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": least_in_sync,
            "share.coordinator.state.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": copies,
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

    def _format_options(self) -> tuple[str, ...]:
        """Further options of ``kafka-storage.sh format``."""
        return ()

    def _format(self, classes: str, settings: Path) -> None:
        """Write the metadata every log directory starts with (``kafka-storage.sh format``)."""
        command = [java_command(), "-Xmx128m", *SHORT_LIFE_OPTIONS, *_quiet_log("error")]
        command += ["-cp", classes, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command += ["-t", _CLUSTER_ID, "-c", str(settings), *self._format_options()]
        done = subprocess.run(tied(command), capture_output=True, text=True, timeout=START_TIMEOUT_SECONDS, check=False)
        if done.returncode != 0:
            raise Invalid(
                f"The broker's storage can't be formatted: {_last_line(done.stdout + done.stderr, mark='Exception: ')}",
                file=str(settings),
                next_step="look at the properties that were added to the file",
            )

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._membership is not None, "only called after the start"
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not _accepts(self.bootstrap):
            self._raise_if_ended(process)
            if time.monotonic() > deadline:
                raise self._not_started(f"no answer within {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            with contextlib.suppress(KafkaException):
                # A node of a cluster is ready when the others may send clients to it.
                if self._membership.node_id in admin.list_topics(timeout=2.0).brokers:
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


def _accepts(bootstrap: str) -> bool:
    host, port = bootstrap.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False
