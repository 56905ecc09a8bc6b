"""A small history whose tiering reaches every fault point, in three acts.

``BrokersPart`` is what producers and the broker do; ``do_the_daemons_work`` what one process of the daemon does from
its start on, as often as it is begun again; ``audited`` what the auditor then says.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from compaction.merge_limits import Demand, MergeLimits
from compaction.replacing import FileReplacer
from compaction.topic_retype import TopicRetype
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.schemas.folder import SchemaFolder
from engine.table.catalog import access as catalogs
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileName
from engine.table.merge.candidates import RepairCandidates
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from floeberg.tables.topic_tables import TopicTables
from latest.latest_loop import LatestLoop
from retention.sweep_limits import SweepLimits
from retention.sweep_planner import Reason, Verdict
from retention.table_sweep import TableSweep
from tests.crash.door_client import DoorClient
from tests.crash.ended_topics import end_deleted_topics, left_of
from tests.support.auditor import Finding, ProducersLog, Record, audit
from tests.support.auditor_sights import dropped_by_broker, log_door_sight, table_sights
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS, BrokerOnDisk
from tests.tiering.tiering_world import STRINGS, TieringWorld
from tiering.spool import SPOOL_SUFFIX
from tiering.tiering_limits import TieringLimits
from topics.retention_rule import Keep, RetentionRule
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

ACTS = 3
SEGMENT_RECORDS = 5
MOST_CYCLES = 20
LONG_SCHEMA = json.dumps(
    {"type": "record", "name": "Booking", "doc": "x" * 70_000, "fields": [{"name": "id", "type": "long"}]}
)
"""Longer than a table property may be, so that it becomes a file."""
NEWEST = [2, 3, 4]
"""The offsets of a segment's newest records, with ``repeated`` keys."""
RETURNS_SCHEMA = json.dumps({"type": "record", "name": "Return", "fields": [{"name": "id", "type": "long"}]})
SAVED = "broker.pickle"
NOTES_FORMAT = "notes.value"
"""A file: as the settings, what the values of a topic are."""
EAGER = MergeLimits(newest_left=1, crowded=Demand(growth=1, files=2), look_interval_ms=0)


def repeated(offset: int) -> bytes:
    """A key that comes again after three."""
    return b"%d" % (offset % 3)


@dataclass
class BrokersPart:
    """``told``: what producers were told, by topic id; ``ends``: where tiering has to arrive; ``deleted``: the topic
    ids that the broker has no more, ``ended`` those of which no table and no file is to be left."""

    root: Path
    broker: BrokerOnDisk
    told: dict[str, ProducersLog] = field(default_factory=dict)
    ends: dict[TopicIdPartition, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, root: Path) -> BrokersPart:
        root.mkdir()
        (root / "schemas").mkdir()
        (root / "schemas" / "7.avsc").write_text(LONG_SCHEMA)
        (root / NOTES_FORMAT).write_text("raw")
        return cls(root=root, broker=BrokerOnDisk(root))

    def act(self, number: int) -> None:
        """What happens before the daemon comes for the ``number``-th time."""
        (self._watched_topic, self._native_and_schemas, self._changes)[number - 1]()
        self.broker.save(self.root / SAVED)

    def more_orders(self) -> None:
        """One segment more."""
        self._segment(self._named("orders"))
        self.broker.save(self.root / SAVED)

    def _watched_topic(self) -> None:
        """A topic of two partitions, one with more than a cycle takes."""
        first, second = self._create("orders", partitions=2)
        for partition in (first, second, first):
            self._segment(partition)
        self._create("again")
        self._segment(self._named("again"), key=repeated)
        self._create("ending")
        self._segment(self._named("ending"))

    def _native_and_schemas(self) -> None:
        """A topic whose broker asks for copies and whose table keeps its newest file alone, one whose values name a
        schema too long for a property, one whose values name a schema that nobody has, and one that is kept raw; and a
        segment more of the first topic, so that its files become one. A topic of before is
        deleted, with whose table its files go."""
        self._create("history", native=True)
        self._segment(self._named("history"), value=lambda offset: b"%05d" % offset * 6_000)
        self._segment(self._named("history"))
        for topic, schema_id in (("bookings", b"\x07"), ("returns", b"\x09")):
            self._create(topic)
            head = b"\x00\x00\x00\x00" + schema_id
            self._segment(self._named(topic), value=lambda offset, head=head: head + bytes([2 * offset]))
        self._segment(self._named("orders"))
        ending = self._delete("ending")
        self.ended.add(ending.topic_id)
        del self.told[ending.topic_id], self.ends[ending]
        self._create("notes")
        self._segment(self._named("notes"))
        self._leave_a_file()

    def _changes(self) -> None:
        """A schema that was missing, a topic created again, a log start that rose, a spool's link with
        bad facts; and a table that is to get another format."""
        (self.root / "schemas" / "9.avsc").write_text(RETURNS_SCHEMA)
        (self.root / NOTES_FORMAT).write_text("string")
        self._leave_a_file()
        self._delete("again")
        self._create("again")
        self._segment(self._named("again"), key=repeated)
        history, orders = self._named("history"), self._named("orders")
        self._segment(history)
        self.broker.port.set_view(history, log_start_offset=2 * SEGMENT_RECORDS)
        start = self.ends[orders]
        self._segment(orders)
        stem = f"{start:020d}-{self.ends[orders]:020d}"
        spool = self.broker.log_dir.with_name(self.broker.log_dir.name + SPOOL_SUFFIX)
        folder = spool / "orders" / f"0.{orders.topic_id}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.json").write_text("{")
        os.link(self.broker.directory(orders) / f"{start:020d}.log", folder / f"{stem}.log")

    def _delete(self, topic: str) -> TopicIdPartition:
        older = self._named(topic)
        shutil.rmtree(self.broker.directory(older))
        self.broker.port.delete_topic(topic)
        self.deleted.add(older.topic_id)
        return older

    def _leave_a_file(self) -> None:
        """What a daemon leaves that died between writing a file and committing it, of a topic with a second table."""
        tables = TopicTables(TieringWorld.reopen(self.root).catalog, "kafka").all()
        table = next(one for one in tables if one.topic == "again" and one.snapshot_id)
        name = FileName(partition=0, range=OffsetRange(start=0, end=1), leader_epoch=0, attempt="left")
        table.warehouse.write_bytes(table.facts.data_path(name), b"nothing names this")

    def _named(self, topic: str) -> TopicIdPartition:
        """Partition 0 of a topic's present incarnation."""
        return next(who for who in self.ends if who.topic == topic and who.topic_id not in self.deleted)

    def _create(self, topic: str, *, partitions: int = 1, native: bool = False) -> tuple[TopicIdPartition, ...]:
        created = self.broker.create_topic(topic, partitions=partitions, native=native)
        self.told[created[0].topic_id] = ProducersLog()
        self.ends.update(dict.fromkeys(created, 0))
        return created

    def _segment(
        self,
        partition: TopicIdPartition,
        value: Callable[[int], bytes] = lambda offset: b"value %d" % offset,
        key: Callable[[int], bytes] = lambda offset: b"%d" % offset,
    ) -> None:
        start = self.ends[partition]
        offsets = range(start, start + SEGMENT_RECORDS)
        self.broker.append_segment(
            partition, [value(offset) for offset in offsets], keys=[key(offset) for offset in offsets]
        )
        for offset in offsets:
            record = Record(key(offset), value(offset), FIRST_TIMESTAMP_MS + offset)
            self.told[partition.topic_id].acknowledged((partition.topic, partition.partition), offset, record)
        self.ends[partition] = offsets.stop


def let_kafka_delete(root: Path) -> None:
    """What retention may do while the daemon is down: closed segments go, up to the first that the spool holds."""
    world = TieringWorld.reopen(root)
    for link in sorted(world.spool_dir.glob("orders/0.*/*.log")):
        if not _has_facts(link):
            continue
        partition = TopicIdPartition(topic="orders", topic_id=link.parent.name.partition(".")[2], partition=0)
        while min(world.broker.directory(partition).glob("*.log")).stem <= link.name[:20]:
            world.broker.delete_oldest_segment(partition)
        world.broker.save(root / SAVED)
        return


def _has_facts(link: Path) -> bool:
    facts = link.with_suffix(".json")
    return facts.exists() and facts.read_text().endswith("}")


def do_the_daemons_work(root: Path, *, merges: bool = False) -> None:
    """Start with nothing in memory; tier, move horizons, answer the broker and readers; until nothing is left.

    With ``merges``, the files of a partition become one as soon as they may.
    """
    world = TieringWorld.reopen(root)
    writer = world.writer()
    notes = TopicRule(pattern="notes", value_format=(root / NOTES_FORMAT).read_text())
    retype_notes(world, writer, notes)
    rules = (
        notes,
        TopicRule(pattern="bookings", value_format="avro", schema_source=SchemaFolder(root / "schemas")),
        TopicRule(pattern="returns", value_format="avro", schema_source=SchemaFolder(root / "schemas")),
        replace(STRINGS, pattern="history", retention=RetentionRule(table=Keep(size_bytes=1))),
        replace(STRINGS, pattern="again", latest_by_key=True, retention=RetentionRule(stream=Keep())),
        replace(STRINGS, pattern="ending", drops_with_topic=True),
        # Kafka deletes segments while the daemon is down, and the auditor reads all the same.
        replace(STRINGS, retention=RetentionRule(stream=Keep())),
    )
    daemon = RepairingDaemon(
        world,
        writer=writer,
        rules=rules,
        limits=TieringLimits(
            max_tasks_per_cycle=3, small_range_bytes=0, lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0
        ),
        merge_limits=EAGER if merges else None,
    )
    latest = LatestLoop(
        writer=writer, directory=root / "latest", configs_of=world.broker.port.topic_configs, clock=world.clock
    )
    for _ in range(MOST_CYCLES):
        report, turn, moved = daemon.loop.cycle(), daemon.compaction.turn(), daemon.horizons.turn()
        latest.note_topics(report.led)
        brought_on = any(one.committed for one in latest.round())
        if not (report.commits or report.spool_bytes or turn.has_tried or moved or brought_on):
            break
    if "history" in world.broker.port.topic_configs(["history"]):
        asyncio.run(DoorClient(world, daemon.loop, segment_records=SEGMENT_RECORDS).do_the_brokers_share())
    for topic in TopicTables(world.catalog, "kafka").all():
        # What is unnamed is seen, and goes, for no reader needs the grace here.
        for _ in range(2):
            sweep_of(world, topic).turn()
    end_deleted_topics(world, daemon.loop, rules)


def retype_notes(world: TieringWorld, writer: TableWriter, rule: TopicRule) -> None:
    """What an operator does before the daemon starts with other settings."""
    for table in TopicTables(world.catalog, "kafka").all():
        if table.topic == rule.pattern and table.codec.name != rule.value_format:
            replacer = FileReplacer(writer=writer, workers=InProcessWorkers(), verifier=Verifier(), parallel=1)
            TopicRetype(table, rule, replacer=replacer, clock=world.clock).run()


def sweep_of(world: TieringWorld, table: TopicTable) -> TableSweep:
    return TableSweep(
        topic=table.topic,
        topic_id=table.topic_id,
        catalog=world.catalog,
        namespace="kafka",
        writer=world.writer(),
        clock=world.clock,
        limits=SweepLimits(grace_ms=0),
        folder=world.root / "data" / "sweep",
    )


def unswept(world: TieringWorld, table: TopicTable) -> list[str]:
    """Data files of ours, whole or not, that nothing names."""
    told: list[Verdict] = []
    sweep_of(world, table).preview(told.append)
    left = (one.file.path for one in told if one.reason in {Reason.GRACE, Reason.UNREFERENCED})
    return [path for path in left if "/data/" in path.removeprefix(table.location)]


def audited(part: BrokersPart) -> dict[str, Any]:
    """What the auditor finds, where tiering did not arrive, what the spool still holds, which tables have rows without
    columns although their schemas are there, which data files were not swept, and how many records it saw."""
    world = TieringWorld.reopen(part.root)
    tables = {table.topic_id: table for table in TopicTables(world.catalog, "kafka").all()}
    reader = LogReader(file_index=FileIndex())
    findings: list[Finding] = []
    record_count = 0
    for topic_id, told in part.told.items():
        table = tables[topic_id]
        sights = [log_door_sight(table, number, reader=reader) for number in sorted(table.ledger)]
        if table.codec.name == "string":
            sights += table_sights(world.catalog, table.identifier)
        places = [] if topic_id in part.deleted else [(table.topic, number) for number in sorted(table.ledger)]
        # What lies below both horizons is gone on purpose.
        dropped = [
            dropped_by_broker([world.broker.log_dir], place, table, log_start=table.ledger[place[1]].held.start)
            for place in places
        ]
        findings += audit(told, sights, [item for item in dropped if item is not None])
        record_count += sum(len(sight.records) for sight in sights)
    newest = newest_offsets(world, part)
    reader.close()
    schemas_are_there = (part.root / "schemas" / "9.avsc").exists()
    raw = [table.topic for table in tables.values() if schemas_are_there and RepairCandidates().look(table).candidates]
    ends = {who: tables[who.topic_id].ledger[who.partition].end for who in part.ends}
    return {
        "findings": [str(finding) for finding in findings] + ([] if newest == NEWEST else [f"newest are {newest}"]),
        "short": [f"{who} is tiered up to {ends[who]} of {end}" for who, end in part.ends.items() if ends[who] != end],
        "spooled": world.spooled_files(),
        "raw": raw,
        "unswept": [
            *(path for table in tables.values() if table.snapshot_id for path in unswept(world, table)),
            *left_of(world, part.ended),
        ],
        "records": record_count,
    }


def newest_offsets(world: TieringWorld, part: BrokersPart) -> list[int]:
    """Of the keys of the topic that has a table of them, in its present incarnation, which the daemon has come to."""
    named = (catalogs.retired_identifier(("kafka", "again__latest"), who.topic_id) for who in part.ends)
    older = [name for name in named if world.catalog.table_exists(name)]
    tables = [world.catalog.load_table(name) for name in (("kafka", "again__latest"), *older)]
    found = [sorted(table.scan().to_arrow()["kafka_offset"].to_pylist()) for table in tables]
    assert all(one == found[0] for one in found), found
    return found[0]


def first_files(part: BrokersPart) -> int:
    """How many files the first partition's records are in."""
    tables = TopicTables(TieringWorld.reopen(part.root).catalog, "kafka").all()
    table = next(table for table in tables if table.topic_id == next(iter(part.told)))
    return len(FileIndex().files(table, 0).files)
