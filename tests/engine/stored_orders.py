"""A topic of orders that was tiered: its segments as a broker would have them, its table, and ways to damage both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import crc32c
import numpy as np
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile

from engine.clock import SystemClock
from engine.formats.codec import CodecSpec, propose_fields
from engine.fsck.check import fsck_table
from engine.fsck.report import Damage, FsckReport
from engine.kafka_log.batch_writer import encode_batches
from engine.kafka_log.compression import Compression
from engine.kafka_log.log_directory import format_partition_metadata
from engine.kafka_log.segment import (
    AbortedTransaction,
    format_transaction_index,
    read_transaction_index,
    segment_file_name,
)
from engine.offset_range import OffsetRange
from engine.records.records import Headers, Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog, table_identifier, warehouse_of
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileDescription
from engine.table.ledger import LEDGER_PREFIX, LedgerEntry, Outcome
from engine.table.loading import TableLoader
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment

TOPIC = "orders"
TOPIC_ID = "Zm9yLXRlc3RzLW9ubHktMQ"
SEGMENT_RECORDS = 200
PRODUCER_ID = 9000


def order_records(start: int, count: int, *, seed: int = 1) -> Records:
    """Orders at offsets ``start`` on, every third one with two headers."""
    (block,) = sample_order_blocks(count, seed=seed, first_order_id=700_000_000 + start)
    headers = [[(b"trace", b"%d" % row), (b"trace", None)] if row % 3 == 0 else [] for row in range(count)]
    return Records(
        offset=np.arange(start, start + count, dtype=np.int64),
        timestamp_ms=block.timestamp_ms,
        timestamp_type=np.zeros(count, np.int8),
        leader_epoch=np.full(count, 4, np.int32),
        key=block.key,
        value=block.value,
        headers=Headers.from_lists(headers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOrders:
    """``files`` by partition in offset order, as they were committed."""

    folder: Path
    files: dict[int, tuple[FileDescription, ...]]

    @property
    def log_dir(self) -> Path:
        return self.folder / "log"

    def table(self) -> TopicTable:
        """The table as the catalog has it now. What a test planted in it passes for Floeberg's own doing: the changes
        of other programs, which show by the seal, have tests of their own."""
        catalog = self._catalog()
        view = TableLoader(lambda: warehouse_of(catalog)).view(catalog.load_table(table_identifier("kafka", TOPIC)))
        return replace(view, foreign=None)

    def path_of(self, file: FileDescription) -> Path:
        return Path(unquote(urlparse(file.path).path))

    def segment_path(self, partition: int, base_offset: int) -> Path:
        return self.log_dir / f"{TOPIC}-{partition}" / segment_file_name(base_offset)

    def _catalog(self) -> Catalog:
        # A new one each time: a catalog keeps what it has read, and the folder may have been put back meanwhile.
        return open_catalog(embedded_catalog_properties(self.folder))

    def _iceberg(self) -> Any:
        return self._catalog().load_table(table_identifier("kafka", TOPIC))

    def set_properties(self, properties: dict[str, str]) -> None:
        with self._iceberg().transaction() as transaction:
            transaction.set_properties(properties)

    def edit_ledger(self, partition: int, edit: Callable[[LedgerEntry], LedgerEntry]) -> None:
        entry = edit(self.table().ledger[partition])
        self.set_properties({f"{LEDGER_PREFIX}{partition}": entry.to_json()})

    def drop_entry(self, file: FileDescription) -> None:
        """Take a file out of the table, as a SQL engine's DELETE of its rows would; the file itself stays."""
        table = self._iceberg()
        first, last = file.range.start, file.range.end - 1
        table.delete(f"kafka_partition == {file.partition} and kafka_offset >= {first} and kafka_offset <= {last}")

    def add_entry(self, file: FileDescription, change: Callable[[DataFile], DataFile] | None = None) -> None:
        """Name a file in the table, as a writer that knows nothing of the ledger would."""
        table = self._iceberg()
        entry = file.to_iceberg(table.spec().spec_id)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(entry if change is None else change(entry))

    def replace_entry(self, file: FileDescription, change: FileDescription) -> None:
        """Let the manifest say something else of a file."""
        self.drop_entry(file)
        self.add_entry(change)

    def write_log(self, segments: dict[tuple[int, int], Records]) -> None:
        """Segments by (partition, base offset); replaces what is there."""
        for (partition, base_offset), records in segments.items():
            path = self.segment_path(partition, base_offset)
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "partition.metadata").write_text(format_partition_metadata(TOPIC_ID))
            path.write_bytes(b"".join(encode_batches(records, compression=Compression.ZSTD)))

    def abort_tail(self, partition: int, base_offset: int, count: int) -> None:
        """Let the last ``count`` records of a segment be those of an aborted transaction."""
        records = order_records(base_offset, SEGMENT_RECORDS)
        cut = len(records) - count
        kept, aborted = records.slice(0, cut), records.slice(cut, len(records))
        path = self.segment_path(partition, base_offset)
        path.write_bytes(b"".join([*encode_batches(kept), *map(_as_transaction, encode_batches(aborted))]))
        path.with_suffix(".txnindex").write_bytes(format_transaction_index([_aborted(base_offset + cut, count)]))


def store_orders(
    folder: Path, *, partitions: Sequence[int] = (0, 1), segment_count: int = 3, aborted_records: int = 0
) -> StoredOrders:
    """Segments of 200 orders, an empty active one behind them, all closed ones tiered and committed.

    The last ``aborted_records`` of each segment belong to a transaction that was aborted.
    """
    catalog = open_catalog(embedded_catalog_properties(folder))
    writer, verifier = TableWriter(catalog, SystemClock()), Verifier()
    table = writer.ensure(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        cluster_id="cluster",
        layout=TableLayout(),
        codec=CodecSpec(name="avro"),
        value_fields=propose_fields("avro", ORDER_SCHEMA, ()).fields,
    )
    table = writer.add_schemas(table, {ORDER_SCHEMA_ID: ORDER_SCHEMA})
    stored = StoredOrders(folder=folder, files={})
    bases = [SEGMENT_RECORDS * number for number in range(segment_count)]
    for partition in partitions:
        stored.write_log({(partition, base): order_records(base, SEGMENT_RECORDS) for base in bases})
        if aborted_records:
            for base in bases:
                stored.abort_tail(partition, base, aborted_records)
        stored.segment_path(partition, SEGMENT_RECORDS * segment_count).write_bytes(b"")
        appends = []
        for base in bases:
            appends.append(
                _tier(stored, table, verifier, partition, OffsetRange(start=base, end=base + SEGMENT_RECORDS))
            )
        result = writer.commit(table, appends)
        assert all(item.outcome is Outcome.COMMITTED for item in result.results)
        table = result.table
        stored.files[partition] = tuple(append.file.description for append in appends if append.file is not None)
    return stored


def _tier(
    stored: StoredOrders, table: TopicTable, verifier: Verifier, partition: int, offsets: OffsetRange
) -> RangeAppend:
    task = RewriteTask(
        table=table.facts,
        partition=TopicIdPartition(topic=TOPIC, topic_id=TOPIC_ID, partition=partition),
        range=offsets,
        leader_epoch=4,
        segment_path=stored.segment_path(partition, offsets.start),
        closed=True,
        aborted=read_transaction_index(stored.segment_path(partition, offsets.start).with_suffix(".txnindex")),
        attempt="first",
    )
    written = rewrite_segment(task)
    assert isinstance(written, Rewritten), written
    assert written.file is not None
    file = verifier.accept(written.file, verify_file(written.file.path, table.facts))
    return RangeAppend(partition=partition, range=offsets, leader_epoch=4, digest=written.digest, file=file)


def with_value(records: Records, row: int, value: bytes) -> Records:
    """The same records, one of them with another value."""
    values = records.value.to_list()
    values[row] = value
    return replace(records, value=type(records.value).from_list(values))


def _aborted(first_offset: int, count: int) -> AbortedTransaction:
    last_offset = first_offset + count - 1
    return AbortedTransaction(
        producer_id=PRODUCER_ID, first_offset=first_offset, last_offset=last_offset, last_stable_offset=first_offset
    )


def _as_transaction(batch: memoryview) -> bytes:
    """The same batch as a transaction of ``PRODUCER_ID``: attributes at byte 21, producer id at 43, CRC at 17."""
    content = bytearray(batch)
    content[22] |= 0x10
    content[43:51] = PRODUCER_ID.to_bytes(8, "big")
    content[17:21] = crc32c.crc32c(bytes(content[21:])).to_bytes(4, "big")
    return bytes(content)


def check_orders(orders: StoredOrders, *, with_log: bool = True, may_be_compacted: bool = False) -> FsckReport:
    log_dirs = [orders.log_dir] if with_log else []
    return fsck_table(orders.table(), log_dirs=log_dirs, may_be_compacted=may_be_compacted)


def damages(report: FsckReport) -> set[Damage]:
    return {finding.damage for finding in report.findings}


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)
