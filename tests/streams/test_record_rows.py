"""Records as rows: which of them the table knows the schemas of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.table.rows.rows import RowCodecs
from streams.record_rows import rows_of
from streams.selection import Selection
from tests.engine.offset_table import OffsetTable, records_of

SCHEMA = json.dumps({"type": "record", "name": "N", "fields": [{"name": "number", "type": "long"}]})


def values_of(schema_ids: list[int | None]) -> Records:
    """One record each; a null value for None."""
    values = [None if known is None else b"\0" + known.to_bytes(4, "big") + b"\x02" for known in schema_ids]
    return records_of(range(len(values)), value=lambda offset: values[offset])


@pytest.mark.parametrize(
    ("schema_ids", "known"),
    [([7, 7, None], 3), ([7, None, 8, 7], 2), ([8, 7], 0), ([7, 9, 8], 2), ([9, 9], 2)],
)
def test_rows_up_to_the_first_of_a_schema_that_may_still_come_are_known(
    schema_ids: list[int | None], known: int, tmp_path: Path
) -> None:
    spec = CodecSpec(name="avro", schemas={7: SCHEMA}, unresolved={9: "it is nowhere"})
    table = OffsetTable(tmp_path, codec=spec, schema_text=SCHEMA)
    records = values_of(schema_ids)
    found = rows_of(Selection().of(table.view), 0, records, RowCodecs.of(table.view))
    assert found.known == known
    assert found.rows.column("number").to_pylist() == [1 if schema_id == 7 else None for schema_id in schema_ids]


def test_rows_outlive_the_next_records_that_the_codec_decodes(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    wanted, codecs = Selection().of(table.view), RowCodecs.of(table.view)
    first = rows_of(wanted, 0, records_of(range(10)), codecs).rows
    as_it_was = first.to_pylist()
    rows_of(wanted, 0, records_of(range(100, 110)), codecs)
    assert first.to_pylist() == as_it_was
