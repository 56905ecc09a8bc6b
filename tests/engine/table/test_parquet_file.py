"""Files written page by page against pyarrow: what every type, nesting and encoding reads back as, and what the page
index and the statistics say of the same rows."""

from __future__ import annotations

import datetime
import decimal
import tomllib
import uuid
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.table import parquet_chunk, parquet_dictionary, parquet_levels
from engine.table.columns import leaves
from engine.table.parquet_file import CREATED_BY, ParquetFile
from engine.table.parquet_footer import ParquetFooter
from engine.table.parquet_leaf import ENCODINGS_OF
from engine.table.parquet_settings import DICTIONARY, ParquetSettings
from engine.table.thrift_compact import ThriftTape
from tests.engine.table.pyarrow_files import false_claims_in, with_ids

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


def array_of(field: pa.Field, values: list[Any]) -> pa.Array:
    return pa.array(values, field.type)


def write(
    batches: list[pa.RecordBatch], schema: pa.Schema, encodings: dict[str, str] | None = None, group_rows: int = 1 << 16
) -> bytes:
    out: list[bytes] = []
    file = ParquetFile(out.append, schema, ParquetSettings(encodings=encodings or {}))
    rows = 0
    for batch in batches:
        file.append(batch)
        rows += batch.num_rows
        if rows >= group_rows:
            file.end_row_group()
            rows = 0
    file.end_row_group()
    file.finish({"floeberg.a": "b"})
    return b"".join(out)


def by_pyarrow(table: pa.Table, encodings: dict[str, str] | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = ParquetSettings(encodings=encodings or {}).writer_options(table.schema) | {
        "max_rows_per_page": PAGE,
        "write_batch_size": 1,
    }
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()


def chosen(schema: pa.Schema, number: int) -> dict[str, str]:
    """One of the encodings that each leaf can have."""
    footer = ParquetFooter.parse(footer_of(by_pyarrow(schema.empty_table())), file="x")
    kinds = [e[1] for e in (unpacked(element) for element in footer.schema) if 1 in e]
    names = [path for path, _ in leaves(schema)]
    return {
        name: sorted(ENCODINGS_OF[kind])[number % len(ENCODINGS_OF[kind])]
        for name, kind in zip(names, kinds, strict=True)
    }


def unpacked(element: bytes) -> dict[int, Any]:
    found: dict[int, Any] = ThriftTape.read(np.frombuffer(element, np.uint8), file="x", what="struct").unpack(0)
    return found


def footer_of(data: bytes) -> bytes:
    size = int.from_bytes(data[-8:-4], "little")
    return data[-8 - size : -8]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_levels, "PAGE_ROWS", PAGE)
    monkeypatch.setattr(parquet_chunk, "PAGE_ROWS", PAGE)
    monkeypatch.setattr(parquet_chunk, "_WORTH_BYTES", PAGE)


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Equal, NaNs by their bits."""
    return repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.kernels
@given(column=columns(), number=st.integers(0, 11), cut=st.integers(0, 40), offset=st.integers(0, 3))
@settings(max_examples=120, deadline=None)
def test_rows_of_any_type_come_back(column: tuple[pa.Field, list[Any]], number: int, cut: int, offset: int) -> None:
    field, values = column
    schema = pa.schema([with_ids(field)])
    padding = values[:1] * offset
    whole = pa.RecordBatch.from_arrays([array_of(schema[0], padding + values)], schema=schema).slice(offset)
    batches = [whole.slice(0, cut), whole.slice(cut)]
    encodings = chosen(schema, number)
    data = write(batches, schema, encodings)
    assert same(read(data), pa.Table.from_batches([whole]))
    theirs = by_pyarrow(pa.Table.from_batches([whole]).combine_chunks(), encodings)
    assert_index_agrees(data, theirs)
    assert false_claims_in(data) == false_claims_in(theirs) == []


def assert_index_agrees(ours: bytes, theirs: bytes) -> None:
    """Statistics, offset index and column index say the same, but for positions and sizes."""
    found, expected = (unpacked(footer_of(data)) for data in (ours, theirs))
    assert found[2] == expected[2]
    assert found[3] == expected[3]
    for group, peer in zip(found[4], expected[4], strict=True):
        for chunk, other in zip(group[1], peer[1], strict=True):
            meta, peer_meta = chunk[3], other[3]
            statistics = {key: value for key, value in peer_meta.get(12, {}).items() if key not in {1, 2}}
            assert meta[12] == statistics, meta[3]
            assert [meta[key] for key in (1, 3, 5)] == [peer_meta[key] for key in (1, 3, 5)]
            for key in (2, 3):
                assert meta[16].get(key, []) == peer_meta.get(16, {}).get(key, []), meta[3]
            rows = [page[3] for page in index(ours, chunk, 4)[1]]
            assert rows == [page[3] for page in index(theirs, other, 4)[1]]
            assert (6 in chunk) == (6 in other), meta[3]
            if 6 in chunk:
                peer_index = index(theirs, other, 6)
                assert index(ours, chunk, 6) == {key: peer_index[key] for key in (1, 2, 3, 4, 5)}, meta[3]


def index(data: bytes, chunk: dict[int, Any], field: int) -> dict[int, Any]:
    return unpacked(data[chunk[field] : chunk[field] + chunk[field + 1]])


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_bounds_are_those_of_pyarrow(name: str) -> None:
    kind, strategy = LEAVES[name]
    schema = pa.schema([pa.field("c", kind)])
    values = [find(strategy, number) for number in range(100)]
    values[30:60] = [None] * 30
    table = pa.table([array_of(schema.field(0), values)], schema=schema)
    for encodings in ({}, {"c": DICTIONARY} if name != "boolean" else {}):
        assert_index_agrees(write(table.to_batches(), schema, encodings), by_pyarrow(table, encodings))


def find(strategy: st.SearchStrategy[Any], number: int) -> Any:
    samples = SAMPLES.setdefault(id(strategy), [])
    if not samples:
        collected: list[Any] = []

        @settings(max_examples=100, database=None, derandomize=True, deadline=None)
        @given(value=strategy)
        def collect(value: Any) -> None:
            collected.append(value)

        collect()
        samples.extend(collected)
    return samples[number % len(samples)]


SAMPLES: dict[int, list[Any]] = {}


def test_chunks_that_zstd_does_not_shrink_are_stored_as_they_are() -> None:
    random = np.random.default_rng(1)
    count = 4 * PAGE
    columns_ = {
        "text": ["every row the same words"] * count,
        "one": np.ones(count, np.int64),
        "null": pa.nulls(count, pa.string()),
        "noise": [random.bytes(40) for _ in range(count)],
        "index": [f"{n % PAGE}" * 200 for n in random.permutation(count)],
    }
    table = pa.table(columns_)
    data = write(table.to_batches(), table.schema, {"one": DICTIONARY, "index": DICTIONARY})
    assert same(read(data), table)
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    codecs = [group.column(at).compression for at in range(group.num_columns)]
    assert codecs == ["ZSTD", "UNCOMPRESSED", "UNCOMPRESSED", "UNCOMPRESSED", "ZSTD"]


@pytest.mark.parametrize(
    "values",
    [[float("nan")] * 20, [-0.0] * 20, [0.0, -0.0] * 10, [float("nan"), 1.0] * 10, [1.0] * 8 + [float("nan")] * 8],
)
@pytest.mark.parametrize("encoding", ["PLAIN", "DICTIONARY"])
def test_nan_and_zeros_are_bounded_as_pyarrow_does(values: list[float], encoding: str) -> None:
    schema = pa.schema([pa.field("c", pa.float64())])
    table = pa.table([pa.array(values)], schema=schema)
    data = write(table.to_batches(), schema, {"c": encoding})
    assert same(read(data), table)
    assert_index_agrees(data, by_pyarrow(table, {"c": encoding}))


@pytest.mark.parametrize("encoding", ["PLAIN", "DICTIONARY", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_value_too_long_for_statistics_leaves_none(encoding: str) -> None:
    schema = pa.schema([pa.field("c", pa.string())])
    table = pa.table([pa.array(["a"] * 10 + ["d" * 5000] + ["c"] * 10)], schema=schema)
    data = write(table.to_batches(), schema, {"c": encoding})
    assert same(read(data), table)
    assert 6 not in unpacked(footer_of(data))[4][0][1][0]


def test_column_with_too_many_distinct_values_goes_on_without_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_dictionary, "MOST_ENTRIES", 20)
    schema = pa.schema([pa.field("s", pa.string()), pa.field("n", pa.int64()), pa.field("d", pa.decimal128(38, 0))])
    numbers = [n if n % 7 else None for n in range(50)]
    columns_ = [[None if n is None else str(n) * 3 for n in numbers], numbers, numbers]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns_, schema, strict=True)], schema=schema)
    few = pa.table(
        [pa.array(["x"] * 9), pa.array([1] * 9), pa.array([1] * 9).cast(schema.field(2).type)], schema=schema
    )
    data = write(
        [*table.slice(0, 15).to_batches(), *table.slice(15).to_batches(), *few.to_batches()],
        schema,
        {"s": DICTIONARY, "n": DICTIONARY, "d": DICTIONARY},
        group_rows=50,
    )
    assert same(read(data), pa.concat_tables([table, few]))
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    for at in range(3):
        assert not metadata.row_group(0).column(at).has_dictionary_page
        assert metadata.row_group(1).column(at).has_dictionary_page


def test_encoding_that_a_type_does_not_have_is_refused() -> None:
    with pytest.raises(Invalid, match=r"column c of type double can't be encoded as DELTA_BYTE_ARRAY"):
        write([], pa.schema([pa.field("c", pa.float64())]), {"c": "DELTA_BYTE_ARRAY"})


def test_duckdb_reads_the_same_rows_and_prunes_by_our_statistics(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("n", pa.int64()),
            pa.field("s", pa.string()),
            pa.field("d", pa.decimal128(30, 2)),
            pa.field("l", pa.list_(pa.float64())),
        ]
    )
    count = 300
    table = pa.table(
        [
            pa.array(range(count)),
            pa.array([f"key {n % 10}" if n % 3 else None for n in range(count)]),
            pa.array([decimal.Decimal(n - 150) for n in range(count)], pa.decimal128(30, 2)),
            pa.array([[n / 2] * (n % 4) if n % 5 else None for n in range(count)]),
        ],
        schema=schema,
    )
    path = tmp_path / "x.parquet"
    path.write_bytes(write(table.to_batches(max_chunksize=100), schema, {"s": DICTIONARY}, group_rows=100))
    assert duckdb.sql(f"select * from '{path}' order by n").fetchall() == [
        tuple(row.values()) for row in table.to_pylist()
    ]
    assert duckdb.sql(f"select count(*), sum(n) from '{path}' where n >= 250 and s = 'key 4'").fetchone() == (3, 812)
    assert duckdb.sql(f"select count(*) from '{path}' where d < -100").fetchone() == (50,)


def test_row_groups_of_the_same_pages_say_what_each_would_say_alone() -> None:
    schema = pa.schema(
        [
            pa.field("null", pa.string()),
            pa.field("one", pa.int64()),
            pa.field("text", pa.string()),
            pa.field("nan", pa.float64()),
            pa.field("list", pa.list_(pa.int32())),
        ]
    )
    usual: dict[str, Any] = {"null": None, "one": 1, "text": "a", "nan": 0.5, "list": [1, 2]}
    others = [
        {},
        {},
        {"null": "b", "one": 2},
        {"text": None, "nan": float("nan")},
        {"list": []},
        {"list": [1, 2, 3]},
        {},
    ]
    groups = [pa.RecordBatch.from_pylist([usual | other] * 20, schema=schema) for other in others]
    groups += [groups[0].slice(7), groups[0]]
    for encodings in ({}, {"one": DICTIONARY, "text": DICTIONARY, "nan": DICTIONARY, "list.list.element": DICTIONARY}):
        data = write(groups, schema, encodings, group_rows=1)
        assert same(read(data), pa.Table.from_batches(groups))
        for chunks, batch in zip(unpacked(footer_of(data))[4], groups, strict=True):
            alone = write([batch], schema, encodings)
            for chunk, peer in zip(chunks[1], unpacked(footer_of(alone))[4][0][1], strict=True):
                # Field 9 and 11 are places.
                assert chunk[3] | {9: 0, 11: 0} == peer[3] | {9: 0, 11: 0}
                assert chunk.keys() == peer.keys()
                assert 6 not in chunk or index(data, chunk, 6) == index(alone, peer, 6)
                locations, peers = (index(*one, 4)[1] for one in ((data, chunk), (alone, peer)))
                assert [page | {1: 0} for page in locations] == [page | {1: 0} for page in peers]


def test_pages_begin_every_so_many_rows_and_metadata_says_who_wrote_it() -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    table = pa.table([pa.array(range(20))], schema=schema)
    metadata = pq.ParquetFile(pa.BufferReader(write(table.to_batches(), schema))).metadata
    assert metadata.created_by.startswith("floeberg version ")
    assert metadata.metadata.keys() == {b"floeberg.a", b"floeberg.checksums"}
    assert metadata.row_group(0).column(0).has_offset_index
    assert metadata.format_version == "2.6"


def test_schemas_that_differ_in_field_ids_alone_are_each_written_with_their_own() -> None:
    """pyarrow holds such schemas for equal, and a process writes files of many tables."""
    for first_id in (1, 50):
        schema = pa.schema(
            [
                pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(first_id + at)})
                for at, name in enumerate("ab")
            ]
        )
        sink = pa.BufferOutputStream()
        file = ParquetFile(sink.write, schema, ParquetSettings())
        file.append(pa.record_batch([pa.array([1], pa.int32()), pa.array([2], pa.int32())], schema=schema))
        file.end_row_group()
        file.finish({})
        read = pq.read_schema(pa.BufferReader(sink.getvalue()))
        assert [field.metadata[b"PARQUET:field_id"] for field in read] == [b"%d" % first_id, b"%d" % (first_id + 1)]


def test_file_is_created_by_the_version_that_the_package_has() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert CREATED_BY.decode() == f"floeberg version {project['version']}"
