"""Protobuf orders in a real data file: what the library reads of it gives the values back, and DuckDB shows them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.formats.codec import open_codec, propose_fields
from engine.offset_range import OffsetRange
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import FileName
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts
from engine.warehouse.warehouse import Warehouse
from tests.engine.formats.protobuf.values import ORDER, compiled, orders, spec
from tests.engine.table.table_examples import records_of


def test_orders_come_back_from_a_data_file_and_are_seen_by_an_engine(tmp_path: Path) -> None:
    values = orders(300)
    text = compiled(ORDER)
    fields = propose_fields("protobuf", text, ()).fields
    layout = TableLayout()
    facts = TableFacts(
        topic="orders",
        topic_id="id",
        location=str(tmp_path),
        layout=layout,
        codec=spec(text),
        schema=arrow_schema(iceberg_schema(layout, fields)),
        settings=None,
        warehouse=Warehouse(),
    )
    codecs = RowCodecs.of(facts)
    covered = OffsetRange(start=0, end=len(values))
    file = RecordFile(facts, FileName(partition=0, range=covered, leader_epoch=0, attempt="a"), codecs)
    records = records_of(values, start=0)
    file.add(records, *codecs.decode(records))
    written = file.finish()
    assert written is not None
    stored = pq.read_table(written.path)
    assert stored.column("kafka_error").null_count == len(values)
    columns = {field.name: stored.column(field.name) for field in fields}
    ids = pa.array(stored.column("kafka_schema_id").to_pylist(), pa.int32())
    codec = open_codec(spec(text), fields)
    assert codec.encode(columns, ids, np.full(len(values), True)).to_list() == values
    seen = duckdb.sql(
        f"select order_id, status, hash, took, tags['k1'], len(items), cash.city, free, created_at__nanos "
        f"from read_parquet('{written.path}') where order_id = 7 * 7000000001"
    ).fetchall()
    assert [tuple(map(str, row)) for row in seen] == [
        ("49000000007", "-3", str(7 * 0x9E3779B97F4A7C15 % 2**64), "-864.197523084", str(1 / 7), "3", "x", "None", "7")
    ]
