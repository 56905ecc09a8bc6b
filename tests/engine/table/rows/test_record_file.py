"""What a file says of the records that have no columns for want of a schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import FileFooter, FileName
from engine.table.rows import record_file
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts
from engine.warehouse.warehouse import Warehouse
from tests.engine.table.table_examples import records_of

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def framed(schema_id: int, body: bytes = b"\x02") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def footer_of(folder: Path, blocks: list[list[bytes | None]]) -> FileFooter:
    """Schema 1 is known; 7, 8 and 9 were given up."""
    layout = TableLayout()
    facts = TableFacts(
        topic="orders",
        topic_id="id",
        location=str(folder),
        layout=layout,
        codec=CodecSpec(name="avro", schemas={1: SCHEMA}, unresolved=dict.fromkeys((7, 8, 9), "nobody knows it")),
        schema=arrow_schema(iceberg_schema(layout, [pa.field("id", pa.int64())])),
        settings=None,
        warehouse=Warehouse(),
    )
    codecs = RowCodecs.of(facts)
    count = sum(map(len, blocks))
    covered = OffsetRange(start=0, end=count)
    file = RecordFile(facts, FileName(partition=0, range=covered, leader_epoch=0, attempt="a"), codecs)
    start = 0
    for values in blocks:
        records = records_of(values, start=start)
        file.add(records, *codecs.decode(records))
        start += len(values)
    written = file.finish()
    assert written is not None
    return FileFooter.from_key_values(pq.read_metadata(written.path).metadata, file=written.path)


def test_records_are_counted_by_the_schema_they_lack(tmp_path: Path) -> None:
    first = [framed(1), framed(9), framed(8), None, b"not framed", framed(9)]
    found = footer_of(tmp_path, [first, [framed(9), framed(1, b"")]])
    assert found.schema_ids == (1, 8, 9)
    assert found.unresolved == {9: 3, 8: 1}


def test_file_whose_schemas_are_all_known_says_so(tmp_path: Path) -> None:
    assert footer_of(tmp_path, [[framed(1), None]]).unresolved == {}


def test_only_the_ids_of_the_most_records_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "MOST_UNRESOLVED", 2)
    assert footer_of(tmp_path, [[framed(7), framed(8), framed(8), framed(9), framed(9)]]).unresolved == {8: 2, 9: 2}
