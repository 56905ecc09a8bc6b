"""Records, tables and files that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog

from engine.formats.codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.offset_range import OffsetRange
from engine.parquet.settings import choose_settings
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.records.records import ByteSpans, Headers, Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileDescription, FileFooter, FileName
from engine.table.ledger import Outcome
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.table.rows.rows import rows_from_records
from engine.table.topic_table import TableFacts, TopicTable

TOPIC = "orders"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
CLUSTER_ID = "cluster-1"
TEXT = CodecSpec(name="string")
TEXT_FIELDS = propose_fields("string", "", ()).fields

Header = tuple[bytes, bytes | None]


@dataclass
class StillClock:
    """A clock whose waits take no time and are counted."""

    waited_ms: list[int] = field(default_factory=list)
    given: int = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return sum(self.waited_ms)

    def sleep(self, duration_ms: int) -> None:
        self.waited_ms.append(duration_ms)

    def new_id(self) -> str:
        self.given += 1
        return f"{self.given * 2654435761 % 2**32:08x}" + "0" * 24


def records_of(
    values: Sequence[bytes | None],
    *,
    start: int = 0,
    step: int = 1,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Sequence[Header]] | None = None,
    epoch: int = 3,
) -> Records:
    count = len(values)
    return Records(
        offset=np.arange(count, dtype=np.int64) * step + start,
        timestamp_ms=np.arange(count, dtype=np.int64) + 1_700_000_000_000,
        timestamp_type=np.zeros(count, np.int8),
        leader_epoch=np.full(count, epoch, np.int32),
        key=ByteSpans.from_list(keys if keys is not None else [b"k%d" % i for i in range(count)]),
        value=ByteSpans.from_list(values),
        headers=None if headers is None else Headers.from_lists(headers),
    )


def open_writer(folder: Path, *, clock: StillClock | None = None) -> TableWriter:
    return TableWriter(catalog_in(folder), clock or StillClock())


def catalog_in(folder: Path) -> Catalog:
    return open_catalog(embedded_catalog_properties(folder))


def ensure_table(
    writer: TableWriter, *, topic: str = TOPIC, topic_id: str = TOPIC_ID, is_gone: bool = False
) -> TopicTable:
    return writer.ensure(
        topic=topic,
        topic_id=topic_id,
        cluster_id=CLUSTER_ID,
        layout=TableLayout(),
        codec=TEXT,
        value_fields=TEXT_FIELDS,
        is_gone=is_gone,
    )


def write_file(
    facts: TableFacts,
    records: Records,
    *,
    covered: OffsetRange,
    partition: int = 0,
    epoch: int = 3,
    attempt: str = "a1",
) -> FileDescription:
    codec = open_codec(facts.codec, facts.value_fields)
    decoded = codec.decode(records.value)
    rows = rows_from_records(facts.layout, facts.schema, partition, records, decoded)
    settings = facts.settings or choose_settings(pa.Table.from_batches([rows]))
    path = facts.data_path(FileName(partition=partition, range=covered, leader_epoch=epoch, attempt=attempt))
    footer = FileFooter(
        topic=facts.topic,
        topic_id=facts.topic_id,
        partition=partition,
        range=covered,
        record_count=len(records),
        digest=digest_of(records),
        codec=codec.name,
        codec_version=codec.version,
        schema_ids=(),
    )
    with ParquetFileWriter(facts.warehouse, path=path, schema=facts.schema, settings=settings) as writer:
        writer.write(rows)
        return writer.finish(
            footer,
            leader_epoch=epoch,
            raw_rows=(decoded.verdict == Verdict.KEEP_RAW).sum(),
            error_rows=(decoded.verdict == Verdict.UNDECODABLE).sum(),
            begun_at=facts.sequence_number,
        )


def append_of(
    table: TopicTable,
    start: int,
    end: int,
    *,
    verifier: Verifier | None = None,
    partition: int = 0,
    epoch: int = 3,
    attempt: str = "a1",
    skipped: OffsetRange | None = None,
) -> RangeAppend:
    """A verified file of text records that fills ``[start, end)``."""
    records = records_of([b"v%d" % i for i in range(start, end)], start=start, epoch=epoch)
    covered = OffsetRange(start=start, end=end)
    facts = table.facts
    description = write_file(facts, records, covered=covered, partition=partition, epoch=epoch, attempt=attempt)
    proof = (verifier or Verifier()).accept(description, verify_file(description.path, facts))
    return RangeAppend(
        partition=partition,
        range=covered,
        leader_epoch=epoch,
        digest=description.digest,
        file=proof,
        skipped=skipped,
    )


def empty_append(start: int, end: int, *, partition: int = 0, epoch: int = 3) -> RangeAppend:
    """A range that holds no record."""
    return RangeAppend(
        partition=partition,
        range=OffsetRange(start=start, end=end),
        leader_epoch=epoch,
        digest=EMPTY_DIGEST,
        file=None,
    )


def outcomes(writer: TableWriter, table: TopicTable, *appends: RangeAppend) -> list[Outcome]:
    return [result.outcome for result in writer.commit(table, appends).results]


def stored_offsets(folder: Path, table: TopicTable, partition: int = 0) -> list[int]:
    rows = catalog_in(folder).load_table(table.identifier).scan(f"kafka_partition = {partition}").to_arrow()
    return sorted(rows["kafka_offset"].to_pylist())


def reopened(folder: Path, topic_id: str = TOPIC_ID) -> TopicTable:
    table = open_writer(folder).open(TOPIC, topic_id)
    assert table is not None
    return table
