"""A table of orders in files of equal numbers of records, as slices of an open segment leave them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.clock import SystemClock
from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileName
from engine.table.ledger import Outcome
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks
from workers.workers import ReadBackTask, proof_of, read_back

TOPIC, TOPIC_ID, CLUSTER_ID = "orders", "AAAAAAAAAAAAAAAAAAAAAQ", "bench"
_FILES_A_COMMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``files`` of ``rows`` orders in each partition."""

    name: str
    title: str
    files: int
    rows: int


def writer_in(folder: Path) -> TableWriter:
    return TableWriter(open_catalog(embedded_catalog_properties(folder)), SystemClock())


def open_table(folder: Path) -> TopicTable:
    table = writer_in(folder).open(TOPIC, TOPIC_ID)
    assert table is not None, "the table was made before"
    return table


def make_table(folder: Path, shape: Shape, *, partitions: int) -> int:
    """Bytes of the values of one partition; all partitions hold the same orders."""
    writer = writer_in(folder)
    table = writer.ensure(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        cluster_id=CLUSTER_ID,
        layout=TableLayout(),
        codec=CodecSpec(name="avro"),
        value_fields=(),
    )
    table = writer.add_schemas(table, {ORDER_SCHEMA_ID: ORDER_SCHEMA})
    codecs, verifier, value_bytes = RowCodecs.of(table), Verifier(), 0
    for partition in range(partitions):
        waiting: list[RangeAppend] = []
        value_bytes = 0
        for records in _pieces(shape):
            value_bytes += records.value.size_bytes
            append, file = _written(table, codecs, verifier, partition, records)
            waiting.append(append)
            if len(waiting) == _FILES_A_COMMIT or table.settings is None:
                table, waiting = _committed(writer, table, waiting, file), []
        if waiting:
            table = _committed(writer, table, waiting, file)
    return value_bytes


def _pieces(shape: Shape) -> Iterator[Records]:
    first = 0
    for block in sample_order_blocks(shape.files * shape.rows, seed=1):
        for at in range(0, len(block.timestamp_ms), shape.rows):
            part = slice(at, at + shape.rows)
            count = len(block.timestamp_ms[part])
            yield Records(
                offset=np.arange(first, first + count, dtype=np.int64),
                timestamp_ms=block.timestamp_ms[part],
                timestamp_type=np.zeros(count, np.int8),
                leader_epoch=np.zeros(count, np.int32),
                key=block.key.select(part),
                value=block.value.select(part),
                headers=None,
            )
            first += count


def _written(
    table: TopicTable, codecs: RowCodecs, verifier: Verifier, partition: int, records: Records
) -> tuple[RangeAppend, RecordFile]:
    covered = OffsetRange(start=int(records.offset[0]), end=int(records.offset[-1]) + 1)
    name = FileName(partition=partition, range=covered, leader_epoch=0, attempt=SystemClock().new_id())
    file = RecordFile(table.facts, name, codecs)
    file.add(records, *codecs.decode(records))
    description = file.finish()
    assert description is not None, "there are records"
    task = ReadBackTask(table=table.facts, file=description)
    proof = proof_of(verifier, task, read_back(task))
    assert isinstance(proof, VerifiedFile), proof
    append = RangeAppend(partition=partition, range=covered, leader_epoch=0, digest=description.digest, file=proof)
    return append, file


def _committed(writer: TableWriter, table: TopicTable, appends: list[RangeAppend], file: RecordFile) -> TopicTable:
    done = writer.commit(table, appends, file.settings)
    assert {result.outcome for result in done.results} == {Outcome.COMMITTED}, "nobody else writes"
    return done.table
