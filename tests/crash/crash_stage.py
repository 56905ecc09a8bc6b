"""A real broker with the plugin, producers and a consumer that never rest, and a daemon that is killed beside them."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine.fault_points import FaultPoint
from engine.offset_range import OffsetRange
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.topic_table import TopicTable
from floeberg.java.plugin_jar import broker_properties
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import FAST_TIERED_STORAGE, LocalBroker
from floeberg.tables.topic_tables import TopicTables
from tests.crash.cradle import Cradle
from tests.native.stage import eventually
from tests.support.auditor import Finding, ProducersLog, Record, audit
from tests.support.auditor_sights import consumer_sight, dropped_by_broker, table_sights
from tests.support.current_jar import current_jar
from tests.support.numbered_record import numbered_record, numbered_value
from tiering.spool import SPOOL_SUFFIX

MIB = 1 << 20
VALUE_BYTES = 16 << 10
_PAUSE_S = 2.0
_BETWEEN_READINGS_S = 0.3
_MOST_BURSTS = 30
NATIVE = {"remote.storage.enable": "true", "local.retention.ms": "500", "segment.bytes": str(MIB)}
WATCHED = {"segment.bytes": str(MIB)}

_SETTINGS = """\
data_dir = "{folder}/data"

[broker]
bootstrap = "{bootstrap}"
log_dirs = ["{log_dir}"]

[log_door]
listen = "127.0.0.1:{log_door}"
token = "shared-with-the-broker"

[table_door]
listen = "127.0.0.1:{table_door}"

[tiering]
cycle_interval_ms = 100

[[topics]]
name = "bookings"
value = "avro"
schemas = "{folder}/schemas"
freshness_ms = "closed"

[[topics]]
name = "*"
freshness_ms = "closed"
"""


class CrashStage:
    """``told`` by topic, of its present incarnation; ``retired`` those of topics that were deleted, by table name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: dict[str, ProducersLog] = {}
        self.retired: list[tuple[str, ProducersLog]] = []
        self.findings: list[Finding] = []
        self.audited_records = 0
        self.readings = 0
        self._ends: dict[str, int] = {}
        self._numbers = iter(range(10**9))
        self._stop = threading.Event()
        self._reading_failed: Exception | None = None
        self._door_port, self._table_port = free_ports(2)
        self.table_door = f"http://127.0.0.1:{self._table_port}"
        (folder / "schemas").mkdir(parents=True)
        door_url = f"http://127.0.0.1:{self._door_port}"
        plugin = broker_properties(jar=current_jar(folder), door_url=door_url, token="shared-with-the-broker")
        quick = {"rsm.config.floeberg.copy.timeout.ms": "1000"}
        self.broker = LocalBroker(folder / "broker", properties={**FAST_TIERED_STORAGE, **plugin, **quick})

    def __enter__(self) -> Self:
        self.broker.start()
        settings = self.folder / "floeberg.toml"
        settings.write_text(
            _SETTINGS.format(
                folder=self.folder,
                bootstrap=self.broker.bootstrap,
                log_dir=self.broker.log_dirs[0],
                log_door=self._door_port,
                table_door=self._table_port,
            )
        )
        self._admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self.catalog = open_catalog(embedded_catalog_properties(self.folder / "data"))
        self.cradle = Cradle(settings, self.folder / "daemon.log")
        self._threads: list[threading.Thread] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        try:
            if self.cradle.is_alive:
                # A read that is under way ends as long as a daemon answers.
                for thread in self._threads:
                    thread.join(60)
            self.cradle.__exit__(kind, error, traceback)
        finally:
            self.broker.stop()

    def create(self, topic: str, config: dict[str, str]) -> None:
        self.broker.create_topic(topic, config=config)
        self.told[topic] = ProducersLog()
        self._ends[topic] = 0

    def delete(self, topic: str) -> None:
        """The topic goes; what was closed of it is in the table, and nothing else of it was told to be."""
        table = self.table(topic)
        assert table is not None
        self.retired.append((table.topic_id, self.told.pop(topic)))
        self._admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: not self.local_segments(topic), lambda: f"{topic} is still there")

    def burst(self, topic: str, *, schema_id: int | None = None, size_bytes: int = MIB * 5 // 4) -> None:
        """Enough to close a segment, acknowledged when it returns."""
        told, place = self.told[topic], (topic, 0)
        for _ in range(size_bytes // VALUE_BYTES):
            number = next(self._numbers)
            made = _record(number, schema_id)
            self._producer.produce(
                topic,
                partition=0,
                key=made.key,
                value=made.value,
                headers=list(made.headers) or None,
                timestamp=made.timestamp_ms,
                on_delivery=told.delivery(place, made),
            )
        assert self._producer.flush(60) == 0
        assert not told.possible(place)
        self._ends[topic] = max(told.written(place)) + 1

    def kill_at(self, point: FaultPoint, *topics: str, schema_id: int | None = None) -> None:
        """A daemon, in place of the one that lives, ends at ``point``; producers write to ``topics`` until it does."""
        if self.cradle.is_alive:
            self.cradle.end()
        self.cradle.bear(point)
        for _ in range(_MOST_BURSTS):
            for topic in topics:
                self.burst(topic, schema_id=schema_id)
            death = self.cradle.death_within(_PAUSE_S)
            self._raise_if_reading_failed()
            if death is not None:
                assert death == signal.SIGKILL, f"{point}: {death}, {self.cradle.log.read_text()[-3000:]}"
                return
        raise AssertionError(f"the daemon never reached {point}: {self.cradle.log.read_text()[-3000:]}")

    def live_until_tiered(self, topic: str) -> None:
        """A daemon that lives on, if none does, until every closed segment is in the table."""
        if not self.cradle.is_alive:
            self.cradle.bear()
        self.await_tiered(topic)

    def damage_spooled_facts(self, topic: str) -> None:
        """The daemon is down: one link's facts are cut off."""
        spool = self.broker.log_dirs[0].with_name(self.broker.log_dirs[0].name + SPOOL_SUFFIX)
        facts = max(spool.glob(f"{topic}/*/*.json"))
        facts.write_text(facts.read_text()[:-1])

    def keep_reading(self, topic: str) -> None:
        """A consumer reads the topic from its beginning, again and again, and what it read is audited each time."""
        self.burst(topic)

        def read() -> None:
            try:
                while not self._stop.wait(_BETWEEN_READINGS_S):
                    whole = OffsetRange(start=0, end=self._ends[topic])
                    sight = consumer_sight(self.broker.bootstrap, (topic, 0), within=whole)
                    self.findings += audit(self.told[topic], [sight])
                    self.audited_records += len(sight.records)
                    self.readings += 1
            except Exception as error:  # noqa: BLE001  # outermost guard of the thread: the test is told
                self._reading_failed = error

        self._threads.append(threading.Thread(target=read, name=f"reads {topic}", daemon=True))
        self._threads[-1].start()

    def _raise_if_reading_failed(self) -> None:
        if self._reading_failed is not None:
            raise self._reading_failed

    def table(self, topic: str) -> TopicTable | None:
        return next(
            (table for table in self.tables() if table.topic == topic and "__" not in table.identifier[-1]), None
        )

    def tables(self) -> list[TopicTable]:
        return TopicTables(self.catalog, "kafka").all()

    def local_segments(self, topic: str) -> list[int]:
        return sorted(int(path.stem) for path in (self.broker.log_dirs[0] / f"{topic}-0").glob("*.log"))

    def await_tiered(self, topic: str) -> None:
        """Until every closed segment is in the table."""

        def is_there() -> bool:
            table = self.table(topic)
            return table is not None and 0 in table.ledger and table.ledger[0].end == self.local_segments(topic)[-1]

        eventually(is_there, lambda: f"{topic}: {self.local_segments(topic)}, {self.cradle.log.read_text()[-2000:]}")

    def await_dropped(self, topic: str) -> None:
        """Until the broker has its active segment only."""
        eventually(lambda: len(self.local_segments(topic)) == 1, lambda: f"{topic}: {self.local_segments(topic)}")

    def audit(self) -> list[Finding]:
        """Everything that is wrong, through every door; and what the reading consumer met."""
        self._raise_if_reading_failed()
        by_id = {table.topic_id: table for table in self.tables()}
        for topic, told in self.told.items():
            table = self.table(topic)
            assert table is not None
            del by_id[table.topic_id]
            consumed = consumer_sight(self.broker.bootstrap, (topic, 0))
            assert len(consumed.records) == told.record_count
            rows = table_sights(self.catalog, table.identifier) if table.codec.name == "raw" else []
            dropped = dropped_by_broker(self.broker.log_dirs, (topic, 0), table)
            self.findings += audit(told, [consumed, *rows], [] if dropped is None else [dropped])
            self.audited_records += sum(len(sight.records) for sight in (consumed, *rows))
        for topic_id, told in self.retired:
            rows = table_sights(self.catalog, by_id.pop(topic_id).identifier)
            self.findings += audit(told, rows)
            self.audited_records += sum(len(sight.records) for sight in rows)
        assert not by_id, f"tables of no topic: {by_id}"
        return self.findings


def schema_of(schema_id: int) -> str:
    """Longer than a table property may be, and another one for every id."""
    fields = [{"name": "id", "type": "long"}, {"name": "note", "type": "bytes"}]
    return json.dumps({"type": "record", "name": "Booking", "doc": f"{schema_id}" * 70_000, "fields": fields})


def _record(number: int, schema_id: int | None) -> Record:
    made = numbered_record(number, VALUE_BYTES)
    if schema_id is None:
        return made
    note = numbered_value(number, VALUE_BYTES)
    return made._replace(value=b"\x00" + schema_id.to_bytes(4, "big") + _varint(number) + _varint(len(note)) + note)


def _varint(number: int) -> bytes:
    """Avro's long: zigzag, seven bits a byte, the lowest first."""
    rest, out = number << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
