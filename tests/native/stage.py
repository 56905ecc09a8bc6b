"""A real broker with the plugin in it, the daemon's log door, and topics whose history is in the table only."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as KafkaMessage
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_loop import CompactionLoop
from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.errors import Unavailable
from engine.fsck.check import fsck_table
from engine.fsck.report import FsckReport
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.catalog.access import DEFAULT_NAMESPACE, embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from floeberg.java.plugin_jar import broker_properties
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import FAST_TIERED_STORAGE, LocalBroker
from floeberg.tables.erasure import Eraser
from floeberg.tables.topic_tables import TopicTables
from retention.erasure_condition import KeyCondition
from retention.erasure_report import ErasureReport
from retention.horizon_limits import HorizonLimits
from retention.horizon_loop import HorizonLoop
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.commit_signal import CommitSignal
from serving.log.door import create_log_door
from serving.log.tiered_log import TieredLog
from tests.support.current_jar import current_jar
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.support.served_routes import served
from tiering.cycle_report import PartitionReport
from tiering.loop import TieringLoop
from tiering.rewrite import Rewritten
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

TOKEN = "shared-with-the-broker"
SEGMENT_BYTES = 1 << 20
WAIT_S = 90.0
TIERED = {"remote.storage.enable": "true", "local.retention.ms": "500", "segment.bytes": str(SEGMENT_BYTES)}
PLAIN = {"segment.bytes": str(SEGMENT_BYTES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One record, as a producer gave it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def sample(start: int, count: int) -> list[Sent]:
    """Records with null and empty values, headers, and timestamps that now and then fall back."""
    return [
        Sent(
            key=None if number % 7 == 0 else b"key-%d" % (number % 1000),
            value=None if number % 101 == 0 else b"" if number % 103 == 0 else value_of(number),
            timestamp_ms=1_750_000_000_000 + number * 20 - (500 if number % 13 == 0 else 0),
            headers=(("trace", b"%d" % number), ("trace", None)) if number % 50 == 0 else (),
        )
        for number in range(start, start + count)
    ]


def value_of(number: int) -> bytes:
    """Text that compresses no better than real records do."""
    return b"value-%07d " % number + hashlib.blake2b(b"%d" % number).hexdigest().encode()


class WatchedDoor:
    """ASGI around the door: counts requests by kind, and can change one byte of each answer of records. ``releases``:
    path and query of each request to delete a copy, and the status of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.asked: Counter[str] = Counter()
        self.releases: list[tuple[str, int]] = []
        self.flip_a_byte = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["path"].rstrip("/").rsplit("/", 1)[-1] if scope["method"] != "DELETE" else "delete"
        self.asked[kind] += 1
        if kind == "delete":

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    target = f"{scope['path']}?{scope['query_string'].decode()}"
                    self.releases.append((target, message["status"]))
                await send(message)

            await self._app(scope, receive, noting)
            return
        if not (self.flip_a_byte and kind == "records"):
            await self._app(scope, receive, send)
            return

        async def flipping(message: Message) -> None:
            body = bytearray(message.get("body", b""))
            if body:
                body[len(body) // 2] ^= 0x20
                message = {**message, "body": bytes(body)}
            await send(message)

        await self._app(scope, receive, flipping)


class WatchedWorkers(InterferingWorkers):
    """Refuses the topics in ``paused``; ``spoil`` is called with each file's path between its writing and its
    verification."""

    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.spoil: Callable[[str, Path], None] = lambda _topic, _path: None

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        held = {key for key, task in tasks.items() if task.partition.topic in self.paused}
        yield from ((key, Unavailable("the test holds this topic back")) for key in held)
        for key, answer in super().rewrite({key: task for key, task in tasks.items() if key not in held}):
            if isinstance(answer, Rewritten) and answer.file is not None:
                self.spoil(tasks[key].partition.topic, Path(unquote(urlparse(answer.file.path).path)))
            yield key, answer


class NativeStage:
    """The broker, the tiering loop with its work done in this process, and the log door in front of the tables."""

    def __init__(self, folder: Path, rules: Sequence[TopicRule] = ()) -> None:
        """``rules`` come before the one that keeps the values of every topic as bytes."""
        self.folder = folder
        self.rules = (*rules, TopicRule(pattern="*", value_format="raw"))
        self.commits = CommitSignal()
        self.doors: list[WatchedDoor] = []
        self.workers = WatchedWorkers()
        self._door = ExitStack()
        (self.port,) = free_ports(1)
        self._stop = threading.Event()
        plugin = broker_properties(jar=current_jar(folder), door_url=f"http://127.0.0.1:{self.port}", token=TOKEN)
        quick = {"rsm.config.floeberg.copy.timeout.ms": "2000"}
        self.broker = LocalBroker(folder / "broker", properties={**FAST_TIERED_STORAGE, **plugin, **quick})

    def __enter__(self) -> NativeStage:
        self.broker.start()
        self.catalog = open_catalog(embedded_catalog_properties(self.folder / "data"))
        self.seam = KafkaBroker(bootstrap=self.broker.bootstrap)
        self._verifier = Verifier()
        self._writer = TableWriter(self.catalog, SystemClock())
        self.tiering = TieringLoop(
            broker=self.seam,
            log_dirs=self.broker.log_dirs,
            writer=self._writer,
            verifier=self._verifier,
            workers=self.workers,
            rules=self.rules,
            clock=SystemClock(),
            limits=TieringLimits(cycle_interval_ms=200, config_interval_ms=500, stopped_retry_ms=2_000),
        )
        self.tiering.on_cycle(lambda _: self.commits.ring())
        self._reader = LogReader(file_index=FileIndex())
        self.open_door()
        self._start_tiering()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close_door()
        self._stop_tiering()
        self._reader.close()
        self.seam.close()
        self.broker.stop()

    def topic_of(self, topic_id: str) -> str | None:
        return next(
            (report.partition.topic for report in self.reports() if report.partition.topic_id == topic_id), None
        )

    def reports(self) -> Sequence[PartitionReport]:
        return self.tiering.report.partitions if self.tiering.report is not None else ()

    def problem_of(self, topic: str) -> str:
        """What the operator is told about a topic's partition 0; empty when nothing is wrong."""
        return "".join(
            str(report.problem) for report in self.reports() if report.partition.topic == topic and report.problem
        )

    def report_of(self, topic: str) -> PartitionReport:
        """Partition 0 of a topic as the last cycle left it."""
        theirs = (report for report in self.reports() if report.partition.topic == topic)
        return next(report for report in theirs if report.partition.partition == 0)

    def fsck(self, topic: str, *, may_be_compacted: bool = False) -> FsckReport:
        """The table of a topic against its ledger, its files, and the log as far as the broker still has it."""
        return fsck_table(self.table(topic), log_dirs=self.broker.log_dirs, may_be_compacted=may_be_compacted)

    def table(self, topic: str) -> TopicTable:
        table = self._writer.open(topic, self.report_of(topic).partition.topic_id)
        assert table is not None, f"{topic} has no table"
        return table

    def stored(self, topic: str) -> list[tuple[int, bytes | None]]:
        """Offsets and values of partition 0, over everything that the ledger covers."""
        table = self.table(topic)
        return [
            found
            for block in self._reader.records(table, 0, table.ledger[0].range)
            for found in zip(block.offset.tolist(), block.value.to_list(), strict=True)
        ]

    def erase(self, topic: str, key: bytes) -> ErasureReport:
        """Beside whatever else is done to the table, as a command does it."""
        table = self.table(topic)
        eraser = Eraser(catalog=self.catalog, writer=self._writer, clock=SystemClock())
        return eraser.erase(table, KeyCondition(table, [key]), keys=[key])

    @contextmanager
    def tiering_away(self) -> Iterator[None]:
        """Nobody looks at the log directories within the block."""
        self._stop_tiering()
        try:
            yield
        finally:
            self._start_tiering()

    def compaction(self, limits: CompactionLimits) -> CompactionLoop:
        """A loop that is told of what this stage's tiering leads; nobody runs it yet."""
        loop = CompactionLoop(
            writer=self._writer, workers=self.workers, verifier=self._verifier, clock=SystemClock(), limits=limits
        )
        self.tiering.on_cycle(lambda report: loop.note_topics(report.led, may_work=not report.is_behind))
        return loop

    def horizons(self) -> HorizonLoop:
        """A loop that is told of what this stage's tiering leads; nobody runs it yet."""
        limits = HorizonLimits(move_interval_ms=0)
        loop = HorizonLoop(writer=self._writer, rules=self.rules, clock=SystemClock(), limits=limits)
        self.tiering.on_cycle(lambda report: loop.note_topics(report.led, report.partitions))
        return loop

    def _start_tiering(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self.tiering.run_forever, args=(self._stop,), daemon=True)
        self._thread.start()

    def _stop_tiering(self) -> None:
        self._stop.set()
        self.tiering.hurry()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the tiering loop did not end"

    def open_door(self) -> None:
        """As a daemon that was just started does: what an earlier one verified has to be verified again."""
        log = TieredLog(
            tables=TopicTables(self.catalog, DEFAULT_NAMESPACE, topic_of=self.topic_of),
            reader=self._reader,
            verifier=self._verifier if not self.doors else Verifier(),
            tiering=self.tiering,
            store=AuxiliaryStore(),
        )
        routes = create_log_door(log, tokens=[TOKEN], commits=self.commits)
        for route in routes:
            assert isinstance(route, Route)
            watched = WatchedDoor(route.app)
            route.app = watched
            self.doors.append(watched)
        self._door.enter_context(served(routes, port=self.port))

    def close_door(self) -> None:
        self._door.close()

    @contextmanager
    def closed_door(self) -> Iterator[None]:
        """The daemon is away within the block."""
        self.close_door()
        try:
            yield
        finally:
            self.open_door()

    @contextmanager
    def answers_damaged(self) -> Iterator[None]:
        """Every answer of records has a flipped bit within the block."""
        for door in self.doors:
            door.flip_a_byte = True
        try:
            yield
        finally:
            for door in self.doors:
                door.flip_a_byte = False

    def asked(self, kind: str) -> int:
        """How many requests of a kind (copy, records, delete, …) came so far."""
        return sum(door.asked[kind] for door in self.doors)

    def releases(self) -> list[tuple[str, int]]:
        """Path and query of each request to delete a copy so far, and the status of its answer."""
        return [one for door in self.doors for one in door.releases]

    def create(self, topic: str, config: dict[str, str], *, partitions: int = 1) -> None:
        self.broker.create_topic(topic, partitions=partitions, config=config)

    def produce(self, topic: str, records: list[Sent], *, partition: int = 0, codec: str = "gzip") -> None:
        # A bound on batches: a slow machine's would grow, compress better, and fill fewer segments.
        batches = {"linger.ms": 20, "batch.num.messages": 1000}
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "compression.type": codec, "acks": "all", **batches}
        )
        for record in records:
            send_one(producer, topic, partition, record)
        assert producer.flush(30) == 0

    def failed_reads(self) -> int:
        """How many reads of history the broker has noted as failed so far."""
        return self.broker.server_log.read_text().count("Error occurred while reading the remote data")

    def await_failed_reads(self, count: int) -> None:
        before = self.failed_reads()
        eventually(lambda: self.failed_reads() >= before + count, lambda: f"{self.failed_reads()} reads failed")

    def await_refused_copies(self, count: int) -> None:
        """Until the broker has given up that many copies; it deletes what it takes for their leftovers."""
        before = self.asked("delete")
        eventually(lambda: self.asked("delete") >= before + count, lambda: f"{self.asked('copy')} copies asked for")

    def local_segments(self, topic: str, partition: int = 0) -> list[str]:
        """Base offsets of the segments that the broker still has."""
        folders = [log_dir / f"{topic}-{partition}" for log_dir in self.broker.log_dirs]
        return sorted(path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.log"))

    def await_history_gone(self, topic: str, partition: int = 0) -> None:
        """Until the broker has dropped every closed segment and holds the active one only."""

        def is_gone() -> bool:
            local = self.local_segments(topic, partition)
            return len(local) == 1 and int(local[0]) > 0

        eventually(is_gone, lambda: self.describe(topic, partition))

    def describe(self, topic: str, partition: int = 0) -> str:
        """Where a topic stands, for the message of a test that waited for it in vain."""
        found = [report for report in self.reports() if report.partition.topic == topic]
        log = self.broker.server_log.read_text().splitlines()
        last = [line[:500] for line in log if topic in line or "io.floeberg" in line][-8:]
        return "\n".join([f"local {self.local_segments(topic, partition)}", *map(str, found), *last])


def send_one(
    producer: Producer,
    topic: str,
    partition: int,
    record: Sent,
    told: Callable[[KafkaError | None, KafkaMessage], None] | None = None,
) -> None:
    """``told`` is called with the broker's answer."""
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                partition=partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers) or None,
                on_delivery=told,
            )
            return
        except BufferError:
            producer.poll(0.1)


def eventually(holds: Callable[[], bool], describe: Callable[[], str], *, timeout_s: float = WAIT_S) -> None:
    """The broker tells nobody when it has dropped a segment: look until it has."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.1)
