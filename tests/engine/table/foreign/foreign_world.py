"""A topic of orders that was tiered, and what its consumers must get whoever changes its table."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pyiceberg.table import Table

from engine.errors import Corrupt, FloebergError
from engine.fsck.check import fsck_table
from engine.fsck.report import FsckReport
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import ByteSpans, Headers
from engine.schemas.folder import SchemaFolder
from engine.table.catalog.access import embedded_catalog_properties, open_catalog, warehouse_of
from engine.table.commit.writer import TableWriter
from engine.table.loading import TableLoader
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks
from tests.tiering.tiering_world import TieringWorld
from tiering.cycle_report import CycleReport
from tiering.planner import Waiting
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

SEGMENT_RECORDS = 200
SEGMENTS = 3
POOL_SEGMENTS = 40


@lru_cache(maxsize=1)
def _orders() -> ByteSpans:
    """Values for all segments: making orders takes longer than tiering them."""
    (block,) = sample_order_blocks(POOL_SEGMENTS * SEGMENT_RECORDS, seed=1)
    return block.value


class ForeignWorld:
    """Two partitions of three segments each, all in the table; ``loop`` goes on as the daemon would."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.world = TieringWorld(root / "world")
        schemas = root / "schemas"
        schemas.mkdir()
        (schemas / f"{ORDER_SCHEMA_ID}.avsc").write_text(ORDER_SCHEMA)
        self.rule = TopicRule(pattern="*", value_format="avro", schema_source=SchemaFolder(schemas))
        self.partitions = self.world.broker.create_topic("orders", partitions=2)
        self._appended = 0
        self.loop = self.world.loop(
            rules=(self.rule,),
            limits=TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0, reload_interval_ms=0),
        )
        for _ in range(SEGMENTS):
            self.append_segments()
        assert self.cycle().is_good

    def append_segments(self) -> None:
        """One more closed segment in each partition; every third record has headers."""
        for partition in self.partitions:
            at = self._appended * SEGMENT_RECORDS % len(_orders())
            self._appended += 1
            values = _orders().select(slice(at, at + SEGMENT_RECORDS))
            headers = [[(b"trace", b"%d" % row), (b"trace", None)] if row % 3 == 0 else [] for row in range(200)]
            self.world.broker.append(partition, values, headers=Headers.from_lists(headers))
            self.world.broker.roll(partition)

    def cycle(self) -> CycleReport:
        return self.loop.cycle()

    def iceberg(self) -> Table:
        """The table as another program has it: through a catalog of its own."""
        catalog = open_catalog(embedded_catalog_properties(self.world.root / "data"))
        return catalog.load_table("kafka.orders")

    def view(self) -> TopicTable:
        """The newest state, as a reader loads it."""
        catalog = open_catalog(embedded_catalog_properties(self.world.root / "data"))
        return TableLoader(lambda: warehouse_of(catalog)).view(catalog.load_table("kafka.orders"))

    def opened(self, writer: TableWriter) -> TopicTable:
        """The newest state, as ``writer`` has it once foreign changes are proven."""
        table = writer.open("orders", self.partitions[0].topic_id)
        assert table is not None
        return table

    def log_digest(self, partition: TopicIdPartition, wanted: OffsetRange) -> RangeDigest:
        """Of what the producers wrote."""
        digest = EMPTY_DIGEST
        for path in sorted(self.world.broker.directory(partition).glob("*.log")):
            for records in read_segment(path, partition=partition, offsets=wanted, aborted=()):
                digest = digest.then(digest_of(records))
        return digest

    def read_digest(self, table: TopicTable, partition: TopicIdPartition, wanted: OffsetRange) -> RangeDigest:
        """Of what a consumer gets: record batches, read as the broker would hand them out."""
        reader = LogReader(file_index=FileIndex())
        folder = self.root / "read"
        folder.mkdir(exist_ok=True)
        batches = reader.read(table, partition.partition, offsets=wanted, start=wanted.start)
        path = folder / f"{wanted.start:020d}.log"
        path.write_bytes(b"".join(batches))
        reader.close()
        digest = EMPTY_DIGEST
        for records in read_segment(path, partition=partition, offsets=wanted, aborted=()):
            digest = digest.then(digest_of(records))
        return digest

    def check_reads(self, end: int) -> None:
        """Every partition's history up to ``end``, whole and from the middle of a segment, right to the byte."""
        table = self.view()
        for partition in self.partitions:
            for wanted in (OffsetRange(start=0, end=end), OffsetRange(start=137, end=413)):
                found = self.read_digest(table, partition, wanted)
                assert found == self.log_digest(partition, wanted), f"{partition} {wanted}"

    def fsck(self) -> FsckReport:
        return fsck_table(self.view(), log_dirs=[self.world.broker.log_dir])

    def check_goes_on(self) -> None:
        """One more segment a partition is tiered, everything reads as it was written, and fsck finds nothing."""
        end = self.view().ledger[0].end
        self.append_segments()
        report = self.cycle()
        assert [str(item.problem) for item in report.partitions if item.problem is not None] == []
        assert self.view().foreign is None
        assert {entry.end for entry in self.view().ledger.values()} == {end + SEGMENT_RECORDS}
        self.check_reads(end + SEGMENT_RECORDS)
        assert self.fsck().findings == ()

    def check_stops(self) -> Corrupt:
        """Every partition stops and says why, and nothing in the table is changed."""
        before = self.iceberg().metadata_location
        for _ in range(2):
            report = self.cycle()
            assert (report.commits, len(report.partitions)) == (0, len(self.partitions))
        assert {item.waiting and item.waiting.kind for item in report.partitions} == {Waiting.STOPPED}
        assert self.iceberg().metadata_location == before
        found = [item.problem for item in report.partitions if isinstance(item.problem, Corrupt)]
        assert len({problem.problem for problem in found}) == 1
        assert found[0].problem.startswith("somebody else changed the table")
        assert found[0].next_step is not None
        return found[0]

    def check_recovers(self) -> None:
        """What an operator put back is found by itself, and tiering goes on."""
        self.world.clock.unseen_ms += 120_000
        self.append_segments()
        report = self.cycle()
        assert [str(item.problem) for item in report.partitions if item.problem is not None] == []
        assert len(report.committed) == len(self.partitions)
        assert self.view().foreign is None

    def refused(self, partition: int, wanted: OffsetRange) -> str:
        """Why a consumer gets nothing of a range; fails where it gets anything that was not written there."""
        who = self.partitions[partition]
        try:
            found = self.read_digest(self.view(), who, wanted)
        except FloebergError as error:
            return str(error)
        assert found == self.log_digest(who, wanted), "a consumer got other records than were written"
        return ""
