"""A topic, its table and its ``__latest`` one, all real but for the broker's wire, and what the latter must show."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb
from pyiceberg.table import Table

from engine.clock import SystemClock
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.writer import TableWriter
from engine.table.latest_line import LatestLine, parse_lines
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.merge_files import MergeTask, merge_files
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from floeberg.sql.duckdb_condition import DuckdbCondition
from floeberg.sql.duckdb_session import extension_file
from floeberg.tables.erasure import Eraser
from latest.key_index import KeyIndex
from latest.latest_limits import LatestLimits
from latest.topic_latest import LatestTurn, TopicLatest
from retention.sweep_limits import SweepLimits
from retention.table_sweep import TableSweep
from tests.tiering.tiering_world import STRINGS, TieringWorld
from topics.topic_rule import TopicRule
from workers.workers import ReadBackTask, proof_of, read_back

TOPIC = "orders"

Record = tuple[bytes | None, bytes | None]
"""Key and value."""

Shown = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key and value."""


class LatestDaemon:
    """As a process would begin it: a writer and an index of its own, in ``directory``."""

    def __init__(self, world: LatestWorld, directory: Path, limits: LatestLimits | None = None) -> None:
        self.world = world
        self.writer = world.tiering.writer()
        self.index = KeyIndex(directory)
        self.limits = limits or LatestLimits()
        self._latest: TopicLatest | None = None

    def turn(self, partitions: Sequence[int] | None = None) -> LatestTurn:
        if self._latest is None:
            self._latest = TopicLatest(
                self.world.stream(), writer=self.writer, index=self.index, clock=SystemClock(), limits=self.limits
            )
        return self._latest.turn(partitions)

    def bring_up(self, partitions: Sequence[int] | None = None) -> None:
        """Turns until nothing is left to do."""
        for _ in range(50):
            turn = self.turn(partitions)
            assert turn.problems == (), turn.problems
            if not turn.committed and not turn.gone:
                return
        raise AssertionError("it does not come to an end")

    def end(self) -> None:
        """The process is gone, its index is left."""
        self.index.close()


class LatestWorld:
    """``records`` by partition, in the order of their offsets."""

    def __init__(self, root: Path, *, partitions: int = 1, rule: TopicRule = STRINGS) -> None:
        self.root = root
        self.tiering = TieringWorld(root)
        self.partitions = self.tiering.broker.create_topic(TOPIC, partitions=partitions)
        self.records: dict[int, list[Record]] = {partition.partition: [] for partition in self.partitions}
        self.erased: set[tuple[int, int]] = set()
        self.starts = dict.fromkeys(range(partitions), 0)
        self._loop = self.tiering.loop(rules=(rule,))

    def append(self, records: Sequence[Record], partition: int = 0) -> None:
        """A segment of them, tiered."""
        self.tiering.broker.append_segment(
            self.partitions[partition], [value for _, value in records], keys=[key for key, _ in records]
        )
        self.records[partition] += records
        assert self._loop.cycle().is_good

    def create_again(self) -> None:
        """The topic is deleted, and there is another of its name."""
        broker = self.tiering.broker
        for partition in self.partitions:
            shutil.rmtree(broker.directory(partition))
        broker.port.delete_topic(TOPIC)
        self.partitions = broker.create_topic(TOPIC, partitions=len(self.partitions))
        self.records = {partition.partition: [] for partition in self.partitions}

    def daemon(self, name: str = "index", limits: LatestLimits | None = None) -> LatestDaemon:
        return LatestDaemon(self, self.root / name, limits)

    def stream(self) -> TopicTable:
        return self.tiering.table(self.partitions[0])

    def files(self, partition: int = 0) -> tuple[TableFile, ...]:
        return tuple(file for file in ManifestReader().files(self.stream()).own if file.partition == partition)

    def merge(self, files: Sequence[TableFile], clustering: Clustering | None = None) -> None:
        """Neighbours become one file."""
        writer = self.tiering.writer()
        table = writer.open(TOPIC, self.partitions[0].topic_id)
        assert table is not None
        assert writer.replace(table, [_merged(table, files, clustering)]).outcomes == (Outcome.COMMITTED,)

    def move_horizon(self, to: int, partition: int = 0) -> None:
        """The table's; consumers have the records still."""
        table = self.tiering.writer().move_horizons(self.stream(), table_starts={partition: to})
        assert table.ledger[partition].table_start == to
        self.starts[partition] = to

    def sweep(self, writer: TableWriter, *, is_latest: bool) -> TableSweep:
        """Of the topic's table, or of the one of its newest records."""
        return TableSweep(
            topic=TOPIC,
            topic_id=self.partitions[0].topic_id,
            catalog=self.tiering.catalog,
            namespace="kafka",
            writer=writer,
            clock=self.tiering.clock,
            limits=SweepLimits(),
            folder=self.root / "sightings",
            is_latest=is_latest,
        )

    def erase(self, condition: str, *offsets: tuple[int, int]) -> None:
        """The records at ``offsets``, by partition, for good."""
        writer = self.tiering.writer()
        table = self.stream()
        eraser = Eraser(catalog=self.tiering.catalog, writer=writer, clock=self.tiering.clock)
        report = eraser.erase(table, DuckdbCondition(table, condition), where=condition)
        assert report.record_count == len(offsets)
        self.erased |= set(offsets)

    def latest_table(self) -> Table:
        """As pyiceberg loads it."""
        return self.tiering.catalog.load_table(("kafka", f"{TOPIC}__latest"))

    def lines(self) -> dict[int, LatestLine]:
        return parse_lines(self.latest_table().properties)

    def ends(self) -> dict[int, int]:
        return {partition: line.end for partition, line in self.lines().items()}

    def expected(self, ends: dict[int, int] | None = None) -> list[Shown]:
        """By a fold over a dictionary."""
        shown: list[Shown] = []
        for partition, end in (self.ends() if ends is None else ends).items():
            newest: dict[bytes, tuple[int, bytes | None]] = {}
            for offset, (key, value) in enumerate(self.records[partition][:end]):
                is_there = offset >= self.starts[partition] and (partition, offset) not in self.erased
                if key is not None and is_there:
                    newest[key] = (offset, value)
            shown += [(partition, at, key, value) for key, (at, value) in newest.items() if value is not None]
        return sorted(shown)

    def shown(self) -> list[Shown]:
        """By pyiceberg."""
        rows = self.latest_table().scan().to_arrow().to_pylist()
        return sorted(map(_shown, rows))

    def shown_by_duckdb(self) -> list[Shown]:
        with connected() as connection:
            path = self.latest_table().metadata_location
            columns = "kafka_partition, kafka_offset, kafka_key, kafka_key_raw, value, kafka_value_raw"
            found = connection.execute(f"SELECT {columns} FROM iceberg_scan('{path}')").fetchall()
        names = columns.split(", ")
        return sorted(_shown(dict(zip(names, row, strict=True))) for row in found)

    def newest_by_duckdb(self) -> list[tuple[int, int]]:
        """(partition, offset) of the newest record of each key that is no tombstone, out of the topic's own table."""
        with connected() as connection:
            path = self.tiering.catalog.load_table(self.stream().identifier).metadata_location
            newest = (
                "SELECT kafka_partition, kafka_offset, kafka_is_null, row_number() OVER (PARTITION BY kafka_partition, "
                "coalesce(kafka_key_raw, encode(kafka_key)) ORDER BY kafka_offset DESC) AS nth "
                f"FROM iceberg_scan('{path}') WHERE kafka_key IS NOT NULL OR kafka_key_raw IS NOT NULL"
            )
            query = f"SELECT kafka_partition, kafka_offset FROM ({newest}) WHERE nth = 1 AND NOT kafka_is_null"
            return sorted(connection.execute(query).fetchall())

    def check(self) -> None:
        """That it shows what it says."""
        assert self.shown() == self.expected()

    def check_current(self) -> None:
        """And that it says all there is."""
        assert self.ends() == {number: len(records) for number, records in self.records.items() if records}
        self.check()


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for extension in ("avro", "iceberg"):
        connection.execute(f"LOAD '{extension_file(extension)}'")
    return connection


def _merged(table: TopicTable, files: Sequence[TableFile], clustering: Clustering | None) -> FileReplacement:
    attempt = SystemClock().new_id()
    done = merge_files(MergeTask(table=table.facts, files=tuple(files), attempt=attempt, clustering=clustering))
    task = ReadBackTask(table=table.facts, file=done.new[0])
    proof = proof_of(Verifier(), task, read_back(task))
    assert isinstance(proof, VerifiedFile), proof
    return FileReplacement(old=tuple(files), digest=done.digest, new=(proof,))


def _shown(row: dict[str, object]) -> Shown:
    key, value = row["kafka_key_raw"], row["kafka_value_raw"]
    if key is None and row["kafka_key"] is not None:
        key = str(row["kafka_key"]).encode()
    if value is None and row["value"] is not None:
        value = str(row["value"]).encode()
    return int(str(row["kafka_partition"])), int(str(row["kafka_offset"])), _bytes(key), _bytes(value)


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value
