"""A table of one partition whose records are erased as the command does it, on a clock that is set."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.clock import SystemClock
from engine.fsck.check import fsck_table
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from floeberg.sql.duckdb_condition import DuckdbCondition
from floeberg.tables.erasure import Eraser
from retention.erasure_condition import Condition, KeyCondition, key_bytes
from retention.erasure_report import ErasureReport, ErasureReports
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import TEXT, StillClock, catalog_in, records_of, reopened

Consumed = dict[int, tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]]
"""By offset: key, value, headers."""


@dataclass
class LaterClock(StillClock):
    """``later_ms`` after the machine's own time, which snapshots have."""

    later_ms: int = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.later_ms

    def new_id(self) -> str:
        """Two clocks of a test give no file the same name."""
        return SystemClock().new_id()


@dataclass
class ErasureWorld:
    """``stored`` has the table, which erasures change beside it."""

    stored: MergeWorld
    clock: LaterClock = field(default_factory=LaterClock)

    @property
    def table(self) -> TopicTable:
        return reopened(self.stored.folder)

    @property
    def writer(self) -> TableWriter:
        """A new process's."""
        return TableWriter(catalog_in(self.stored.folder), self.clock)

    def by_keys(self, *texts: str) -> tuple[Condition, frozenset[bytes]]:
        table = self.table
        keys = frozenset[bytes]().union(*(key_bytes(table, text) for text in texts))
        return KeyCondition(table, keys), keys

    def erase(self, *texts: str, where: str | None = None) -> ErasureReport:
        """By a process of its own."""
        eraser = Eraser(catalog=catalog_in(self.stored.folder), writer=self.writer, clock=self.clock)
        table = self.table
        if where is not None:
            report = eraser.erase(table, DuckdbCondition(table, where), where=where)
        else:
            condition, keys = self.by_keys(*texts)
            report = eraser.erase(table, condition, keys=keys)
        self.stored.table = self.table
        return report

    @property
    def reports(self) -> ErasureReports:
        table = self.table
        return ErasureReports(warehouse=table.warehouse, location=table.location, topic=table.topic)

    def consumed(self) -> Consumed:
        """What a consumer of the whole partition gets; the check of the whole table finds nothing."""
        table = self.table
        assert fsck_table(table).findings == ()
        return consumed(table)

    def rows(self) -> list[dict[str, Any]]:
        """What an engine that knows nothing of us reads."""
        found: pa.Table = catalog_in(self.stored.folder).load_table(self.table.identifier).scan().to_arrow()
        return list(found.sort_by("kafka_offset").to_pylist())

    def bytes_below(self) -> Iterator[tuple[Path, bytes]]:
        """Every file of the table's folder and of the one beside it."""
        folder = Path(self.table.location.removeprefix("file://"))
        for path in sorted(folder.parent.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes()


def text_world(folder: Path, *, files: int = 3) -> ErasureWorld:
    """Files of six records, whose keys are alice, bob, carol, null, empty, and not text."""
    stored = MergeWorld(folder, TEXT)
    for number in range(files):
        keys = [b"alice", b"bob", b"carol", None, b"", b"\xff\xfe"]
        values = [b"%s of %d" % (key or b"none", number) for key in keys]
        headers = [[(b"h", b"1"), (b"h", None)] if key == b"bob" else [] for key in keys]
        stored.append(records_of(values, start=number * 6, keys=keys, headers=headers))
    return ErasureWorld(stored)


def consumed(table: TopicTable, partition: int = 0) -> Consumed:
    found: Consumed = {}
    reader = LogReader(file_index=FileIndex())
    for records in reader.records(table, partition, table.ledger[partition].range):
        for row, offset in enumerate(records.offset.tolist()):
            headers: Sequence[tuple[bytes, bytes | None]] = ()
            if records.headers is not None:
                headers = records.headers.of_record(row)
            found[offset] = (records.key[row], records.value[row], list(headers))
    reader.close()
    return found
