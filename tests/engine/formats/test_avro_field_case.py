"""Fields whose names differ in case alone: Spark, which compares names without case, could read neither column."""

from __future__ import annotations

import io
import json

import fastavro
import numpy as np
import pyarrow as pa

from engine.formats.value_codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.records import ByteSpans

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


def test_first_of_two_names_gets_the_column_and_the_other_is_named() -> None:
    proposal = propose_fields("avro", SCHEMA, ())
    assert [field.name for field in proposal.fields] == ["id", "items"]
    assert [child.name for child in proposal.fields[1].type.value_type] == ["sku"]
    assert proposal.unmapped == (
        "ID: its name differs from id in case alone",
        "items[].Sku: its name differs from sku in case alone",
    )


def test_name_that_a_later_schema_writes_in_another_case_gets_no_column_beside_the_first() -> None:
    existing = (pa.field("ID", pa.string()),)
    proposal = propose_fields("avro", SCHEMA, existing)
    assert [field.name for field in proposal.fields] == ["ID", "items"]
    assert proposal.unmapped[0] == "id: its name differs from ID in case alone"


def test_records_keep_their_bytes_beside_the_columns_they_have() -> None:
    fields = propose_fields("avro", SCHEMA, ()).fields
    codec = open_codec(CodecSpec(name="avro", schemas={1: SCHEMA}), fields)
    decoded = codec.decode(ByteSpans.from_list([encoded(VALUE)] * 3))
    assert np.all(decoded.verdict == Verdict.KEEP_RAW)
    assert decoded.columns.field(0).to_pylist() == [7, 7, 7]
    assert decoded.columns.field(1).to_pylist() == [[{"sku": "a"}]] * 3
