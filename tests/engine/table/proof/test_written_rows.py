"""Files as the table writer makes them: what every type and nesting reads back as, by whom, and what is said of it."""

from __future__ import annotations

import datetime
import decimal
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import assign_fresh_schema_ids

from engine.offset_range import OffsetRange
from engine.parquet import settings as parquet_settings
from engine.parquet.leaves import FIELD_ID_KEY, leaves
from engine.parquet.page_index import read_page_layout
from engine.parquet.page_reader import read_rows
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.parquet.settings import (
    DELTA_BYTE_ARRAY,
    DICTIONARY,
    ENCODINGS,
    PLAIN,
    ParquetSettings,
    choose_settings,
)
from engine.records.digest import RangeDigest
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import FileDescription, FileFooter
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.warehouse.warehouse import Warehouse
from tests.engine.parquet.page_runs import pages_from
from tests.engine.parquet.pyarrow_files import false_claims_in

LAYOUT = TableLayout()
PAGE = 8
"""Rows of a page in these tests, so that a few dozen rows have several."""

EARLIEST = datetime.datetime.fromisoformat("1900-01-01")

LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
    "float": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan")])),
    "double": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, float("nan")])),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        st.datetimes(EARLIEST).map(lambda at: at.replace(tzinfo=datetime.UTC)),
    ),
    "timestamp": (pa.timestamp("us"), st.datetimes(EARLIEST)),
    "decimal_int": (
        pa.decimal128(9, 2),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    ),
    "decimal_long": (pa.decimal128(18, 0), st.integers(-(10**18) + 1, 10**18 - 1).map(decimal.Decimal)),
    "decimal_bytes": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(decimal.Decimal)),
    "string": (pa.string(), st.text(max_size=20) | st.sampled_from(["", "a", "12345678", "123456789", "é" * 9])),
    "binary": (pa.binary(), st.binary(max_size=40) | st.just(b"\0")),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "uuid": (pa.uuid(), st.integers(0, 2**128 - 1).map(lambda n: uuid.UUID(int=n).bytes)),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Field, list[Any]]:
    """A field of up to four levels, and some values of it."""
    depth = draw(st.integers(0, 3))
    # pyarrow makes no nested arrays of its UUIDs.
    names = sorted(LEAVES.keys() - ({"uuid"} if depth else set()))
    kind, values = LEAVES[draw(st.sampled_from(names))]
    nullable = draw(st.booleans())
    field = pa.field("c", kind, nullable)
    for _ in range(depth):
        element = st.none() | values if nullable else values
        shape = draw(st.sampled_from(["struct", "list", "map"]))
        if shape == "struct":
            kind = pa.struct([field.with_name("x"), pa.field("y", pa.int32())])
            values = st.fixed_dictionaries({"x": element, "y": st.none() | st.integers(0, 3)})
        elif shape == "list":
            kind, values = pa.list_(field.with_name("element")), st.lists(element, max_size=4)
        else:
            kind = pa.map_(pa.field("key", pa.string(), False), field.with_name("value"))
            values = st.dictionaries(st.text(max_size=2), element, max_size=3).map(lambda found: list(found.items()))
        nullable = draw(st.booleans())
        field = pa.field("c", kind, nullable)
    some = st.lists(st.none() | values if nullable else values, min_size=1, max_size=40)
    return field, draw(some | (st.just([None] * 20) if nullable else some))


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_settings, "PAGE_ROWS", PAGE)


def table_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    return arrow_schema(assign_fresh_schema_ids(iceberg_schema(LAYOUT, fields)))


def table_rows(schema: pa.Schema, values: dict[str, pa.Array]) -> pa.RecordBatch:
    count = len(next(iter(values.values())))
    kafka = {
        LAYOUT.partition: pa.array(np.zeros(count, np.int32)),
        LAYOUT.offset: pa.array(np.arange(count)),
        LAYOUT.timestamp: pa.array(np.arange(count)).view(pa.timestamp("us", "UTC")),
    }
    known = kafka | values
    arrays = [known[field.name] if field.name in known else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write(folder: str | Path, batches: list[pa.RecordBatch], chosen: ParquetSettings | None = None) -> FileDescription:
    schema = batches[0].schema
    chosen = chosen or choose_settings(pa.Table.from_batches(batches))
    count = sum(batch.num_rows for batch in batches)
    footer = FileFooter(
        topic="t",
        topic_id="ID",
        partition=0,
        range=OffsetRange(start=0, end=count),
        record_count=count,
        digest=RangeDigest(crc32c=0, length_bytes=0, record_count=count),
        codec="raw",
        codec_version=1,
        schema_ids=(),
    )
    with ParquetFileWriter(Warehouse(), path=f"{folder}/x.parquet", schema=schema, settings=chosen) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish(footer, leader_epoch=0, raw_rows=0, error_rows=0)


def by_pages(description: FileDescription) -> pa.Table:
    """The rows as consumers read them: every page of the file alone, through our own reader of pages."""
    source = RangedFile(
        warehouse=Warehouse(),
        file=description.path,
        size_bytes=description.size_bytes,
        cache=row_group_cache(1 << 20),
        count=ReadCount(),
    )
    footer = source.footer()
    parts = []
    for index in range(len(footer.group_at)):
        group = footer.row_group(index)
        layout = read_page_layout(source, group, offset_column=LAYOUT.offset)
        assert layout is not None, "the pages do not align"
        for page in range(layout.page_count):
            run = pages_from(layout, page, least_rows=1)
            parts.append(read_rows(source, footer, group, layout, run))
    return pa.concat_tables(parts, promote_options="default")


def same(found: pa.ChunkedArray, expected: pa.Array) -> bool:
    """Equal, NaNs by their bits."""
    return repr(found.to_pylist()) == repr(expected.to_pylist())


def settings_of(schema: pa.Schema, number: int) -> ParquetSettings:
    """One of the encodings that each leaf can have, compressed or not."""
    chosen = {}
    for path, leaf in leaves(schema):
        kind = pa.schema([leaf.with_name("x")])
        possible = [each for each in sorted(ENCODINGS) if ParquetSettings(encodings={"x": each}).covers(kind)]
        chosen[path] = possible[number % len(possible)]
    return ParquetSettings(encodings=chosen, uncompressed=frozenset(chosen if number % 2 else ()))


@pytest.mark.kernels
@given(column=columns(), number=st.none() | st.integers(0, 11), cut=st.integers(0, 40), offset=st.integers(0, 3))
@settings(max_examples=160, deadline=None)
def test_rows_of_any_type_come_back_page_by_page_and_whole_and_nothing_said_of_them_is_called_false(
    column: tuple[pa.Field, list[Any]], number: int | None, cut: int, offset: int
) -> None:
    field, values = column
    schema = table_schema([field])
    padded = pa.array(values[:1] * offset + values, field.type)
    whole = table_rows(schema, {"c": padded.cast(schema.field("c").type)}).slice(offset)
    batches = [batch for batch in (whole.slice(0, cut), whole.slice(cut)) if batch.num_rows]
    with tempfile.TemporaryDirectory() as folder:
        description = write(folder, batches, None if number is None else settings_of(schema, number))
        assert false_claims_in(description.path) == []
        read = pq.ParquetFile(description.path, page_checksum_verification=True).read()
        pages = by_pages(description)
    assert same(read.column("c"), whole.column("c"))
    if "c" in pages.column_names:
        assert same(pages.column("c"), whole.column("c"))
    else:
        assert whole.column("c").null_count == len(whole), "a column that has values was left out"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [float("nan")] * 20),
        (pa.float64(), [-0.0] * 20),
        (pa.float64(), [0.0, -0.0] * 10),
        (pa.float64(), [float("nan"), 1.0] * 10),
        (pa.float64(), [1.0] * 8 + [float("nan")] * 8),
        # Longer than bounds may be.
        (pa.string(), ["a"] * 10 + ["d" * 5000] + ["c"] * 10),
        (pa.string(), [None] * 8 + ["d" * 5000] + ["c"] * 10),
    ],
)
@pytest.mark.parametrize("number", range(4))
def test_values_that_have_no_bounds_are_written_without(
    tmp_path: Path, kind: pa.DataType, values: list[Any], number: int
) -> None:
    schema = table_schema([pa.field("c", kind)])
    rows = table_rows(schema, {"c": pa.array(values, kind)})
    path = write(tmp_path, [rows], settings_of(schema, number)).path
    assert same(pq.read_table(path).column("c"), rows.column("c"))
    assert false_claims_in(path) == []


def test_list_that_must_not_be_null_is_no_column_of_nulls_where_it_is_empty(tmp_path: Path) -> None:
    schema = table_schema([pa.field("c", pa.list_(pa.int32()), False)])
    rows = table_rows(schema, {"c": pa.array([[]] * 20).cast(schema.field("c").type)})
    description = write(tmp_path, [rows])
    assert by_pages(description).column("c").to_pylist() == [[]] * 20
    assert false_claims_in(description.path) == []


def test_encoding_that_a_type_does_not_have_is_left_for_one_that_it_has(tmp_path: Path) -> None:
    schema = table_schema([pa.field("c", pa.float64()), pa.field("b", pa.bool_())])
    rows = table_rows(schema, {"c": pa.array([1.5]), "b": pa.array([True])})
    foreign = ParquetSettings(encodings={"c": DELTA_BYTE_ARRAY, "b": DICTIONARY})
    chunks = pq.ParquetFile(write(tmp_path, [rows], foreign).path).metadata.row_group(0)
    found = {chunks.column(at).path_in_schema: chunks.column(at).encodings for at in range(chunks.num_columns)}
    assert {PLAIN, "RLE"} >= {*found["c"], *found["b"]}


def test_duckdb_reads_the_same_rows_and_prunes_by_our_statistics(tmp_path: Path) -> None:
    schema = table_schema(
        [
            pa.field("n", pa.int64()),
            pa.field("s", pa.string()),
            pa.field("d", pa.decimal128(30, 2)),
            pa.field("l", pa.list_(pa.float64())),
        ]
    )
    count = 300
    table = {
        "n": pa.array(range(count)),
        "s": pa.array([f"key {n % 10}" if n % 3 else None for n in range(count)]),
        "d": pa.array([decimal.Decimal(n - 150) for n in range(count)], pa.decimal128(30, 2)),
        "l": pa.array([[n / 2] * (n % 4) if n % 5 else None for n in range(count)]).cast(schema.field("l").type),
    }
    path = write(tmp_path, [table_rows(schema, table)], ParquetSettings(encodings={"s": DICTIONARY})).path
    assert duckdb.sql(f"select n, s, d, l from '{path}' order by n").fetchall() == list(
        zip(*(column.to_pylist() for column in table.values()), strict=True)
    )
    assert duckdb.sql(f"select count(*), sum(n) from '{path}' where n >= 250 and s = 'key 4'").fetchone() == (3, 812)
    assert duckdb.sql(f"select count(*) from '{path}' where d < -100").fetchone() == (50,)


def test_schemas_that_differ_in_field_ids_alone_are_each_written_with_their_own(tmp_path: Path) -> None:
    """pyarrow holds such schemas for equal, and a process writes files of many tables."""
    for first_id in (100, 200):
        fields = [
            field.with_metadata({FIELD_ID_KEY: b"%d" % (first_id + at)})
            for at, field in enumerate(table_schema([pa.field("a", pa.int32())]))
            if not pa.types.is_nested(field.type)
        ]
        schema = pa.schema(fields)
        path = write(tmp_path, [table_rows(schema, {"a": pa.array([1], pa.int32())})]).path
        found = [field.metadata[FIELD_ID_KEY] for field in pq.read_schema(path)]
        assert found == [field.metadata[FIELD_ID_KEY] for field in fields]


def test_columns_that_compression_does_not_shrink_are_stored_as_they_are_and_text_never_is(tmp_path: Path) -> None:
    schema = table_schema(
        [pa.field(name, kind) for name, kind in (("noise", pa.float64()), ("rising", pa.float64()), ("t", pa.string()))]
    )
    noise = np.random.default_rng(1).random(5000)
    values = {"noise": pa.array(noise), "rising": pa.array(np.arange(5000.0)), "t": pa.array([str(n) for n in noise])}
    rows = table_rows(schema, values)
    chosen = choose_settings(pa.Table.from_batches([rows]))
    assert {"noise", "rising", "t"} & chosen.uncompressed == {"noise"}
    metadata = pq.ParquetFile(write(tmp_path, [rows], chosen).path).metadata
    chunks = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    assert codecs["noise"] == "UNCOMPRESSED"
    assert (codecs["rising"], codecs["t"]) == ("ZSTD", "ZSTD")
