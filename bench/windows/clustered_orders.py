"""One partition of orders with a region and a customer's number, as tables whose files lie in different orders.

The customer's name and address go with the number, and 19 of 20 orders go to the customer's home region.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog

from bench.cpu import measured
from engine.clock import SystemClock
from engine.formats.codec import CodecSpec, ValueCodec, open_codec, propose_fields
from engine.offset_range import OffsetRange
from engine.parquet.row_counts import ROW_GROUP_ROWS
from engine.parquet.settings import choose_settings
from engine.records.digest import RangeDigest
from engine.records.records import Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileFooter, FileName
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs, rows_from_records
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks

COLUMNS = ("region", "customer_id")
REGIONS = tuple(
    f"{land}-{at}" for land in ("us", "eu", "ap", "sa") for at in ("e1", "e2", "w1", "w2", "n1", "n2", "s1", "s2")
)
_SHARES = 1 / (np.arange(len(REGIONS)) + 2.0)
_AT_HOME = 0.95
_FIRST_CUSTOMER = 1_000_000
_CUSTOMERS = 100_003
"""A prime, and not fewer than there are: ids are spread over it."""
_EXTRA_FIELDS = [{"name": "region", "type": "string"}, {"name": "customer_id", "type": "long"}]


def schema() -> str:
    """The orders' schema with the two columns before the others, Avro JSON text."""
    order = json.loads(ORDER_SCHEMA)
    order["fields"][1:1] = _EXTRA_FIELDS
    return json.dumps(order)


def order_records(count: int, *, seed: int = 1) -> Iterator[Records]:
    """Orders at the offsets from 0 on, in blocks of 64k."""
    plain, wide = _codec(ORDER_SCHEMA), _codec(schema())
    rng = np.random.default_rng([seed, 7])
    shares = _SHARES / _SHARES.sum()
    home = rng.choice(len(REGIONS), _CUSTOMERS, p=shares)
    known: dict[str, int] = {}
    at = 0
    for block in sample_order_blocks(count, seed=seed):
        rows = len(block)
        decoded = plain.decode(block.value)
        columns = {field.name: decoded.columns.field(field.name) for field in plain.fields}
        mails = columns["customer_email"].dictionary_encode()
        numbers = [known.setdefault(mail, len(known)) for mail in mails.dictionary.to_pylist()]
        customer = np.array(numbers, np.int64)[mails.indices.to_numpy()] * 7919 % _CUSTOMERS
        away = rng.choice(len(REGIONS), rows, p=shares)
        region = np.where(rng.random(rows) < _AT_HOME, home[customer], away)
        columns["region"] = pa.DictionaryArray.from_arrays(region.astype(np.int32), list(REGIONS)).cast(pa.string())
        columns["customer_id"] = pa.array(_FIRST_CUSTOMER + customer)
        ids = pa.array(np.full(rows, ORDER_SCHEMA_ID, np.int32))
        yield Records(
            offset=np.arange(at, at + rows, dtype=np.int64),
            timestamp_ms=block.timestamp_ms,
            timestamp_type=np.zeros(rows, np.int8),
            leader_epoch=np.full(rows, 4, np.int32),
            key=block.key,
            value=wide.encode(columns, ids, np.ones(rows, np.bool_)),
            headers=None,
        )
        at += rows


def _codec(text: str) -> ValueCodec:
    spec = CodecSpec(name="avro", schemas={ORDER_SCHEMA_ID: text})
    return open_codec(spec, propose_fields("avro", text, ()).fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLayout:
    """A table whose one file was written in some order, and what writing and proving it took."""

    table: TopicTable
    path: str
    size_bytes: int
    write_cpu_seconds: float
    proof_cpu_seconds: float


class OrderTables:
    """Tables of the same orders in one catalog below ``folder``, each under a name of its own."""

    def __init__(self, folder: Path) -> None:
        self._catalog: Catalog = open_catalog(embedded_catalog_properties(folder))
        self._writer, self._verifier = TableWriter(self._catalog, SystemClock()), Verifier()

    def store(self, name: str, records: list[Records], clustering: Clustering | None) -> StoredLayout:
        """Write, prove and commit all records as one file of the topic ``name``."""
        table, offsets = self._table(name), _offsets(records)
        codecs, path = RowCodecs.of(table.facts), _file_name(offsets)
        file = RecordFile(table.facts, path, codecs, clustering=clustering)
        with measured() as written:
            for block in records:
                file.add(block, *codecs.decode(block))
            description = file.finish()
        assert description is not None
        with measured() as proven:
            found = verify_file(description.path, table.facts)
        verified = self._verifier.accept(description, found)
        append = RangeAppend(partition=0, range=offsets, leader_epoch=4, digest=file.digest, file=verified)
        return StoredLayout(
            table=self._writer.commit(table, [append]).table,
            path=description.path,
            size_bytes=description.size_bytes,
            write_cpu_seconds=written.cpu_seconds,
            proof_cpu_seconds=proven.cpu_seconds,
        )

    def store_sorted(self, name: str, records: list[Records]) -> str:
        """All rows sorted by COLUMNS from the first to the last, as SQL engines would like it best and no consumer
        could read it. Returns the file's path."""
        table, offsets = self._table(name), _offsets(records)
        facts, codecs = table.facts, RowCodecs.of(table.facts)
        batches = []
        for block in records:
            rows = rows_from_records(facts.layout, facts.schema, 0, block, *codecs.decode(block))
            batches.append(rows.copy_to(pa.default_cpu_memory_manager()))
        rows = pa.Table.from_batches(batches).combine_chunks()
        order = pc.sort_indices(rows, sort_keys=[(column, "ascending") for column in COLUMNS])
        settings = choose_settings(rows.slice(0, ROW_GROUP_ROWS))
        location = facts.data_path(_file_name(offsets))
        writer = ParquetFileWriter(facts.warehouse, path=location, schema=facts.schema, settings=settings)
        for at in range(0, len(order), ROW_GROUP_ROWS):
            writer.write(rows.take(order.slice(at, ROW_GROUP_ROWS)).combine_chunks().to_batches()[0])
        digest = RangeDigest(crc32c=0, length_bytes=1, record_count=len(rows))
        footer = FileFooter(
            topic=name,
            topic_id=table.topic_id,
            partition=0,
            range=offsets,
            record_count=len(rows),
            digest=digest,
            codec="avro",
            codec_version=1,
            schema_ids=(),
        )
        description = writer.finish(footer, leader_epoch=4, raw_rows=0, error_rows=0)
        iceberg = self._catalog.load_table(table.identifier)
        with iceberg.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(description.to_iceberg(iceberg.spec().spec_id))
        return location

    def _table(self, name: str) -> TopicTable:
        table = self._writer.ensure(
            topic=name,
            topic_id=f"{name:A<22}"[:22],
            cluster_id="bench",
            layout=TableLayout(),
            codec=CodecSpec(name="avro"),
            value_fields=propose_fields("avro", schema(), ()).fields,
        )
        return self._writer.add_schemas(table, {ORDER_SCHEMA_ID: schema()})


def _offsets(records: list[Records]) -> OffsetRange:
    return OffsetRange(start=0, end=int(records[-1].offset[-1]) + 1)


def _file_name(offsets: OffsetRange) -> FileName:
    return FileName(partition=0, range=offsets, leader_epoch=4, attempt="bench")
