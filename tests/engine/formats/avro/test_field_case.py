"""Fields whose names differ in case alone: Spark, which compares names without case, could read neither column."""

from __future__ import annotations

import io
import json

import fastavro
import numpy as np
import pyarrow as pa

from engine.formats.codec import CodecSpec, OnConflict, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "ID", "type": "string"},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [{"name": "sku", "type": "string"}, {"name": "Sku", "type": "long"}],
                    },
                },
            },
        ],
    }
)
VALUE = {"id": 7, "ID": "seven", "items": [{"sku": "a", "Sku": 1}]}


def encoded(value: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(SCHEMA)), value)
    return b"\x00" + (1).to_bytes(4, "big") + out.getvalue()


def test_first_of_two_names_gets_the_column_and_the_other_one_beside_it() -> None:
    proposal = propose_fields("avro", SCHEMA, ())
    assert [field.name for field in proposal.fields] == ["id", "ID__2", "items"]
    assert [child.name for child in proposal.fields[2].type.value_type] == ["sku", "Sku__2"]
    assert proposal.placement == {"ID": "ID__2", "items[].Sku": "Sku__2"}
    assert proposal.conflicts == (
        "field ID: its name differs from id in case alone; it gets the column ID__2",
        "field items[].Sku: its name differs from sku in case alone; it gets the column Sku__2",
    )


def test_name_that_a_later_schema_writes_in_another_case_gets_a_column_beside_the_first() -> None:
    existing = (pa.field("ID", pa.string()),)
    proposal = propose_fields("avro", SCHEMA, existing)
    assert [field.name for field in proposal.fields] == ["ID", "id__2", "items"]
    assert proposal.fields[0] == existing[0]


def test_values_of_both_names_come_back_from_their_columns() -> None:
    proposal = propose_fields("avro", SCHEMA, ())
    spec = CodecSpec(name="avro", schemas={1: SCHEMA}, placements={1: proposal.placement})
    codec = open_codec(spec, proposal.fields)
    values: list[bytes | None] = [encoded(VALUE)] * 3
    decoded = codec.decode(ByteSpans.from_list(values))
    assert np.all(decoded.verdict == Verdict.EXACT)
    assert decoded.columns.to_pylist() == [{"id": 7, "ID__2": "seven", "items": [{"sku": "a", "Sku__2": 1}]}] * 3
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(3, True)).to_list() == values


def test_field_that_is_to_have_no_column_keeps_its_records_bytes_beside_the_columns_they_have() -> None:
    proposal = propose_fields("avro", SCHEMA, (), on_conflict=OnConflict.RAW)
    assert proposal.placement == {"ID": "", "items[].Sku": ""}
    spec = CodecSpec(name="avro", schemas={1: SCHEMA}, placements={1: proposal.placement})
    decoded = open_codec(spec, proposal.fields).decode(ByteSpans.from_list([encoded(VALUE)] * 3))
    assert np.all(decoded.verdict == Verdict.KEEP_RAW)
    assert decoded.columns.to_pylist() == [{"id": 7, "items": [{"sku": "a"}]}] * 3
