"""Everything a loop needs, real but for the broker's wire: log directories, SQLite catalog, local warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from engine.clock import SystemClock
from engine.offset_range import OffsetRange
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from tests.tiering.broker_on_disk import BrokerOnDisk
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers, Workers

STRINGS = TopicRule(pattern="*", value_format="string")


class SettableClock(SystemClock):
    """The machine's clock, moved forward by a test: nobody waits for patience to end. ``unseen_ms`` moves the monotonic
    clock alone: Iceberg in Java refuses a table whose snapshots are from a minute to come by its own."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.unseen_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms + self.unseen_ms


class TieringWorld:
    """``loop()`` makes a loop as a new process would: with nothing in memory."""

    def __init__(self, root: Path, broker: BrokerOnDisk | None = None) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.broker = broker or BrokerOnDisk(root)
        self.clock = SettableClock()
        self.catalog = open_catalog(embedded_catalog_properties(root / "data"))

    @classmethod
    def reopen(cls, root: Path) -> Self:
        """The world that another process made and saved."""
        return cls(root, BrokerOnDisk.saved(root, root / "broker.pickle"))

    @property
    def spool_dir(self) -> Path:
        return self.broker.log_dir.with_name(self.broker.log_dir.name + ".floeberg-spool")

    def spooled_files(self) -> list[str]:
        return sorted(path.name for path in self.spool_dir.glob("*/*/*.log"))

    def writer(self) -> TableWriter:
        return TableWriter(self.catalog, self.clock)

    def loop(
        self,
        *,
        rules: tuple[TopicRule, ...] = (STRINGS,),
        workers: Workers | None = None,
        limits: TieringLimits | None = None,
        writer: TableWriter | None = None,
    ) -> TieringLoop:
        return TieringLoop(
            broker=self.broker.port,
            log_dirs=[self.broker.log_dir],
            writer=writer or self.writer(),
            verifier=Verifier(),
            workers=workers or InProcessWorkers(),
            rules=rules,
            clock=self.clock,
            limits=limits or TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0),
        )

    def table(self, partition: TopicIdPartition) -> TopicTable:
        table = self.writer().open(partition.topic, partition.topic_id)
        assert table is not None, f"{partition.topic} has no table"
        return table

    def offsets(self, partition: TopicIdPartition) -> list[int]:
        """Offsets of a partition in the table, sorted, with every duplicate there is."""
        return [offset for offset, _ in self.rows(partition)]

    def rows(self, partition: TopicIdPartition) -> list[tuple[int, str | None]]:
        """(offset, value) of a partition by an engine that knows nothing of us, sorted."""
        loaded = self.catalog.load_table(self.table(partition).identifier)
        found = []
        for task in loaded.scan(row_filter=f"kafka_partition == {partition.partition}").plan_files():
            table = pq.read_table(task.file.file_path.removeprefix("file://"))
            values = table["value"].to_pylist() if "value" in table.column_names else [None] * table.num_rows
            found += list(zip(table["kafka_offset"].to_pylist(), values, strict=True))
        return sorted(found)

    def tiered_end(self, partition: TopicIdPartition) -> int:
        return self.table(partition).ledger[partition.partition].end


def report_of(report: CycleReport, partition: TopicIdPartition) -> PartitionReport:
    return next(item for item in report.partitions if item.partition == partition)


def ranges_of(report: CycleReport, partition: TopicIdPartition) -> list[tuple[int, int]]:
    ranges: tuple[OffsetRange, ...] = tuple(report.committed.get(partition, ()))
    return [(item.start, item.end) for item in ranges]
