from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import assign_fresh_schema_ids

from engine.errors import Invalid
from engine.parquet.leaves import field_id, leaves
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema, value_fields

EVERY_TYPE = (
    pa.field("a_bool", pa.bool_()),
    pa.field("an_int", pa.int32()),
    pa.field("a_long", pa.int64()),
    pa.field("a_float", pa.float32()),
    pa.field("a_double", pa.float64()),
    pa.field("a_decimal", pa.decimal128(20, 4)),
    pa.field("a_date", pa.date32()),
    pa.field("a_time", pa.time64("us")),
    pa.field("an_instant", pa.timestamp("us", "UTC")),
    pa.field("a_local_time", pa.timestamp("us")),
    pa.field("a_text", pa.string()),
    pa.field("bytes", pa.binary()),
    pa.field("a_fixed", pa.binary(7)),
    pa.field("a_uuid", pa.uuid()),
    pa.field(
        "nested",
        pa.struct(
            [
                pa.field("inner", pa.struct([pa.field("x", pa.int64())])),
                pa.field("many", pa.list_(pa.field("element", pa.struct([pa.field("sku", pa.string())])))),
            ]
        ),
    ),
    pa.field(
        "a_map",
        pa.map_(pa.field("key", pa.string(), False), pa.field("value", pa.list_(pa.field("element", pa.int32())))),
    ),
)


def test_every_type_comes_back_from_the_iceberg_schema() -> None:
    schema = assign_fresh_schema_ids(iceberg_schema(TableLayout(), EVERY_TYPE))
    assert value_fields(schema, TableLayout()) == EVERY_TYPE


def test_metadata_columns_come_first_and_flat() -> None:
    layout = TableLayout()
    schema = iceberg_schema(layout, EVERY_TYPE)
    names = [field.name for field in schema.fields]
    assert names[:13] == [field.name for field in layout.metadata_fields()]
    assert names[:3] == ["kafka_partition", "kafka_offset", "kafka_timestamp"]
    assert [field.name for field in schema.fields if field.required] == names[:3]


def test_parquet_file_carries_the_tables_field_id_at_every_level() -> None:
    schema = arrow_schema(assign_fresh_schema_ids(iceberg_schema(TableLayout(), EVERY_TYPE)))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_schema=False) as writer:
        writer.write_table(schema.empty_table())
    written = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert [field_id(leaf) for _, leaf in leaves(written.schema_arrow)] == [
        field_id(leaf) for _, leaf in leaves(schema)
    ]
    paths = [written.schema.column(index).path for index in range(len(written.schema.names))]
    assert paths == [path for path, _ in leaves(schema)]


def test_raw_keys_have_a_binary_column() -> None:
    layout = TableLayout(prefix="_k_", key="raw")
    assert TableLayout.from_json(layout.to_json()) == layout
    assert {field.name: field.type for field in layout.metadata_fields()}["_k_key"] == pa.binary()


@pytest.mark.parametrize("name", ["kafka_offset", "Kafka_Offset", "kafka_", "KAFKA_mine"])
def test_value_field_that_looks_like_kafkas_own_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="column_prefix"):
        iceberg_schema(TableLayout(), [pa.field(name, pa.int32())])
    iceberg_schema(TableLayout(prefix="_meta_"), [pa.field(name, pa.int32())])


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.timestamp("ns"), pa.large_string(), pa.decimal256(50, 2), pa.duration("s")]
)
def test_type_without_an_iceberg_column_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(Invalid, match="amount"):
        iceberg_schema(TableLayout(), [pa.field("amount", kind)])


def test_repeated_field_is_refused() -> None:
    with pytest.raises(Invalid, match="two fields"):
        iceberg_schema(TableLayout(), [pa.field("a", pa.int32()), pa.field("a", pa.string())])


@pytest.mark.parametrize("text", ["", "{}", '{"prefix": "", "key": "string"}', '{"prefix": "k_", "key": "xml"}'])
def test_layout_that_nobody_wrote_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        TableLayout.from_json(text)
