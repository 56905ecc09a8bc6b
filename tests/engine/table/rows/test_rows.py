"""Records through rows, a real Parquet file and back: nothing may differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyiceberg.schema import assign_fresh_schema_ids

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec, Columns, Decoded, ValueCodec, Verdict, open_codec, propose_fields
from engine.parquet.leaves import leaves
from engine.parquet.settings import DICTIONARY, ParquetSettings, choose_settings
from engine.records.digest import digest_of
from engine.records.records import ByteSpans, Headers, Records
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.rows.rows import RowCodecs, records_from_rows, rows_from_records
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks
from tests.engine.table.table_examples import Header, records_of

LAYOUT = TableLayout()


class WeighingCodec:
    """Text whose first letter says how well it was decoded: what the real codecs answer, all in one block."""

    name = "weighing"
    version = 1

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._text = open_codec(CodecSpec(name="string"), fields)

    def decode(self, values: ByteSpans) -> Decoded:
        decoded = self._text.decode(values)
        keep = np.array([value is not None and value.startswith(b"~") for value in values.to_list()], np.bool_)
        keep &= decoded.verdict == Verdict.EXACT
        schema_ids = pa.array([None if row % 3 else row for row in range(len(values))], pa.int32())
        verdict = np.where(keep, np.uint8(Verdict.KEEP_RAW), decoded.verdict).astype(np.uint8)
        reason = np.where(keep, 1, decoded.reason).astype(np.int32)
        return replace(
            decoded, verdict=verdict, schema_id=schema_ids, reason=reason, reasons=("not UTF-8", "not canonical")
        )

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        return self._text.encode(columns, schema_id, wanted)


@dataclass(frozen=True)
class Row:
    gap: int
    timestamp_ms: int
    timestamp_type: int
    epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


some_bytes = st.one_of(st.none(), st.binary(max_size=12), st.text(max_size=8).map(str.encode))
header_keys = st.one_of(st.text(max_size=6).map(str.encode), st.binary(max_size=4))
timestamps = st.one_of(st.just(-1), st.integers(0, 2**45), st.integers(-(2**63), 2**63 - 1))
KEY_COLUMNS = '["a:string", "b:int"]'


def csv_key(parts: tuple[str, int]) -> bytes:
    return f"{parts[0]},{parts[1]}".encode()


row_lists = st.lists(
    st.builds(
        Row,
        gap=st.integers(1, 2**33),
        timestamp_ms=timestamps,
        timestamp_type=st.integers(0, 1),
        epoch=st.integers(-1, 2**31 - 1),
        key=st.one_of(some_bytes, st.tuples(st.text("ab", max_size=2), st.integers(-9, 9)).map(csv_key)),
        value=st.one_of(some_bytes, st.binary(max_size=6).map(lambda tail: b"~" + tail)),
        headers=st.lists(st.tuples(header_keys, some_bytes), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=40,
)


def records_from(rows: Sequence[Row]) -> Records:
    return Records(
        offset=np.cumsum([row.gap for row in rows], dtype=np.int64),
        timestamp_ms=np.array([row.timestamp_ms for row in rows], np.int64),
        timestamp_type=np.array([row.timestamp_type for row in rows], np.int8),
        leader_epoch=np.array([row.epoch for row in rows], np.int32),
        key=ByteSpans.from_list([row.key for row in rows]),
        value=ByteSpans.from_list([row.value for row in rows]),
        headers=Headers.from_lists([row.headers for row in rows]),
    )


def shown(records: Records) -> list[tuple[object, ...]]:
    headers = records.headers
    return [
        (
            int(records.offset[row]),
            int(records.timestamp_ms[row]),
            int(records.timestamp_type[row]),
            int(records.leader_epoch[row]),
            records.key[row],
            records.value[row],
            [] if headers is None else headers.of_record(row),
        )
        for row in range(len(records))
    ]


def codec_named(name: str) -> ValueCodec:
    if name == "weighing":
        return WeighingCodec(propose_fields("string", "", ()).fields)
    return open_codec(CodecSpec(name=name), propose_fields(name, "", ()).fields)


def codecs_named(name: str, key: str = "string") -> RowCodecs:
    if key != "csv":
        return RowCodecs(value=codec_named(name))
    fields = propose_fields("csv", KEY_COLUMNS, ()).fields
    key_codec = open_codec(CodecSpec(name="csv", options={"columns": KEY_COLUMNS}), fields)
    return RowCodecs(value=codec_named(name), key=key_codec)


def table_schema(codec: ValueCodec, layout: TableLayout = LAYOUT, key_codec: ValueCodec | None = None) -> pa.Schema:
    key_fields = () if key_codec is None else key_codec.fields
    return arrow_schema(assign_fresh_schema_ids(iceberg_schema(layout, codec.fields, key_fields)))


def through_parquet(rows: pa.RecordBatch, *, keep_dictionaries: bool = False) -> pa.Table:
    """The rows as a file gives them back; with ``keep_dictionaries`` every string is written and read in one."""
    table = pa.Table.from_batches([rows])
    strings = [
        path for path, leaf in leaves(rows.schema) if pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)
    ]
    chosen = choose_settings(table)
    if keep_dictionaries:
        chosen = ParquetSettings(encodings={**chosen.encodings, **dict.fromkeys(strings, DICTIONARY)})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **chosen.writer_options(rows.schema)) as writer:
        writer.write_table(table)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()), read_dictionary=strings if keep_dictionaries else None)
    return file.read(use_threads=False)


@pytest.mark.parametrize("key", ["string", "raw", "csv"])
@pytest.mark.parametrize("codec_name", ["raw", "string", "weighing"])
@settings(max_examples=40, deadline=None)
@given(rows=row_lists)
def test_any_record_comes_back_from_a_parquet_file(codec_name: str, key: str, rows: list[Row]) -> None:
    layout = TableLayout(key=key)
    codecs = codecs_named(codec_name, key)
    records = records_from(rows)
    schema = table_schema(codecs.value, layout, codecs.key)
    batch = rows_from_records(layout, schema, 7, records, *codecs.decode(records))
    batch.validate(full=True)
    returned = records_from_rows(layout, through_parquet(batch), codecs)
    assert shown(returned) == shown(records)
    assert digest_of(returned) == digest_of(records)
    assert shown(records_from_rows(layout, batch, codecs)) == shown(records)
    with_dictionaries = records_from_rows(layout, through_parquet(batch, keep_dictionaries=True), codecs)
    assert shown(with_dictionaries) == shown(records)


@pytest.mark.parametrize("key", ["string", "csv"])
@settings(max_examples=40, deadline=None)
@given(rows=row_lists, data=st.data())
def test_slice_of_records_and_slice_of_rows_are_the_same_records(
    key: str, rows: list[Row], data: st.DataObject
) -> None:
    layout, codecs = TableLayout(key=key), codecs_named("weighing", key)
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    records = records_from(rows)
    part = records.slice(start, end)
    schema = table_schema(codecs.value, layout, codecs.key)
    whole_batch = rows_from_records(layout, schema, 0, records, *codecs.decode(records))
    sliced_rows = records_from_rows(layout, whole_batch.slice(start, end - start), codecs)
    sliced_records = rows_from_records(layout, schema, 0, part, *codecs.decode(part))
    assert shown(sliced_rows) == shown(part) == shown(records_from_rows(layout, sliced_records, codecs))


def test_typed_keys_are_not_read_without_their_codec() -> None:
    layout, codecs = TableLayout(key="csv"), codecs_named("string", "csv")
    records = records_of([b"v"], keys=[b"x,1"])
    schema = table_schema(codecs.value, layout, codecs.key)
    batch = rows_from_records(layout, schema, 0, records, *codecs.decode(records))
    with pytest.raises(Invalid, match="csv keys"):
        records_from_rows(layout, batch, RowCodecs(value=codecs.value))
    with pytest.raises(Invalid, match="decoded keys"):
        rows_from_records(layout, schema, 0, records, codecs.value.decode(records.value))
    index = batch.schema.get_field_index("kafka_key")
    damaged = batch.set_column(index, "kafka_key", pa.array(["x,1"]))
    with pytest.raises(Corrupt, match="not a struct"):
        records_from_rows(layout, damaged, codecs)


def test_orders_and_damaged_orders_come_back_from_a_parquet_file() -> None:
    codec = open_codec(
        CodecSpec(name="avro", schemas={ORDER_SCHEMA_ID: ORDER_SCHEMA}), propose_fields("avro", ORDER_SCHEMA, ()).fields
    )
    block = next(sample_order_blocks(2000))
    values = [bytearray(value or b"") for value in block.value.to_list()]
    chance = np.random.default_rng(5)
    for row in range(0, len(values), 2):
        values[row][chance.integers(0, len(values[row]))] = chance.integers(0, 256)
    values[7] = values[7][:20]
    values[9] += b"left over"
    records = replace(records_of([bytes(value) for value in values]), key=block.key, timestamp_ms=block.timestamp_ms)
    decoded = codec.decode(records.value)
    assert min((decoded.verdict == verdict).sum() for verdict in Verdict) > 0, "the damage must give every verdict"
    batch = rows_from_records(LAYOUT, table_schema(codec), 0, records, decoded)
    returned = records_from_rows(LAYOUT, through_parquet(batch), RowCodecs(value=codec))
    assert returned.value.to_list() == records.value.to_list()
    assert digest_of(returned) == digest_of(records)


def one_row(records: Records, codec_name: str = "string") -> dict[str, object]:
    codec = codec_named(codec_name)
    batch = rows_from_records(LAYOUT, table_schema(codec), 4, records, codec.decode(records.value))
    row: dict[str, object] = batch.slice(0, 1).to_pylist()[0]
    return row


def test_plain_record_needs_no_raw_column() -> None:
    row = one_row(records_of([b"hello"], start=9, keys=[b"k"], headers=[[(b"a", b"1"), (b"a", None)]]))
    assert row["kafka_partition"] == 4
    assert row["kafka_offset"] == 9
    assert row["kafka_key"] == "k"
    assert row["kafka_headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert row["value"] == "hello"
    assert row["kafka_is_null"] is False
    for name in ("kafka_key_raw", "kafka_headers_raw", "kafka_value_raw", "kafka_error", "kafka_schema_id"):
        assert row[name] is None


def test_tombstone_is_a_row_of_nulls_that_says_so() -> None:
    row = one_row(records_of([None]))
    assert (row["value"], row["kafka_value_raw"], row["kafka_error"], row["kafka_is_null"]) == (None, None, None, True)


def test_empty_value_is_not_a_tombstone() -> None:
    row = one_row(records_of([b""]))
    assert (row["value"], row["kafka_is_null"]) == ("", False)


def test_undecodable_value_keeps_its_bytes_and_the_reason() -> None:
    row = one_row(records_of([b"\xff"]))
    assert (row["value"], row["kafka_value_raw"], row["kafka_error"]) == (None, b"\xff", "not UTF-8")


def test_value_that_is_not_canonical_has_columns_and_bytes() -> None:
    row = one_row(records_of([b"~x"]), "weighing")
    assert (row["value"], row["kafka_value_raw"], row["kafka_error"]) == ("~x", b"~x", "not canonical")


def test_key_that_is_no_text_stands_in_the_raw_column_alone() -> None:
    row = one_row(records_of([b"v"], keys=[b"\xffkey"]))
    assert (row["kafka_key"], row["kafka_key_raw"]) == (None, b"\xffkey")


def test_headers_with_one_key_that_is_no_text_stand_whole_in_the_raw_column() -> None:
    row = one_row(records_of([b"v"], headers=[[(b"a", None), (b"\xff", b"z")]]))
    assert row["kafka_headers"] is None
    assert row["kafka_headers_raw"] == b"\x04" + b"\x02a\x01" + b"\x02\xff\x02z"


def test_timestamp_without_microseconds_in_64_bits_is_kept_in_milliseconds() -> None:
    records = replace(records_of([b"v"]), timestamp_ms=np.array([2**62], np.int64))
    codec = codec_named("string")
    batch = rows_from_records(LAYOUT, table_schema(codec), 0, records, codec.decode(records.value))
    assert batch.column("kafka_timestamp_type").to_pylist() == [2]
    assert batch.column("kafka_timestamp").view(pa.int64()).to_pylist() == [2**62]
    assert records_from_rows(LAYOUT, batch, RowCodecs(value=codec)).timestamp_ms.tolist() == [2**62]


def test_columns_that_the_table_lacks_are_refused() -> None:
    codec = codec_named("string")
    other = table_schema(codec_named("raw"))
    records = records_of([b"v"])
    with pytest.raises(Invalid, match="column value"):
        rows_from_records(LAYOUT, other, 0, records, codec.decode(records.value))
    grown = table_schema(codec).append(pa.field("later", pa.int32(), metadata={"PARQUET:field_id": "99"}))
    with pytest.raises(Invalid, match="later"):
        rows_from_records(LAYOUT, grown, 0, records, codec.decode(records.value))


def test_rows_without_raw_and_header_columns_are_older_and_still_records() -> None:
    codec = codec_named("string")
    records = records_of([b"a", None, b""])
    batch = rows_from_records(LAYOUT, table_schema(codec), 0, records, codec.decode(records.value))
    older = batch.drop_columns(["kafka_headers", "kafka_headers_raw", "kafka_value_raw", "kafka_key_raw"])
    assert shown(records_from_rows(LAYOUT, older, RowCodecs(value=codec))) == shown(records)


@pytest.mark.parametrize(
    "section", [b"", b"\x02", b"\x02\x02", b"\x02\x02a", b"\x02\x02a\x03", b"\x02\x02a\x02z!", b"\x01", b"\xff" * 9]
)
def test_damaged_header_section_is_corrupt(section: bytes) -> None:
    codec = codec_named("string")
    records = records_of([b"a"])
    batch = rows_from_records(LAYOUT, table_schema(codec), 0, records, codec.decode(records.value))
    index = batch.schema.get_field_index("kafka_headers_raw")
    damaged = batch.set_column(index, "kafka_headers_raw", pa.array([section], pa.binary()))
    with pytest.raises(Corrupt, match="header section"):
        records_from_rows(LAYOUT, damaged, RowCodecs(value=codec))


def test_row_without_an_offset_is_corrupt() -> None:
    codec = codec_named("string")
    records = records_of([b"a"])
    batch = rows_from_records(LAYOUT, table_schema(codec), 0, records, codec.decode(records.value))
    with pytest.raises(Corrupt, match="kafka_offset"):
        records_from_rows(LAYOUT, batch.drop_columns(["kafka_offset"]), RowCodecs(value=codec))
