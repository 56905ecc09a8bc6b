from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import assign_fresh_schema_ids

from engine.errors import Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.parquet.footer import ParquetFooter
from engine.parquet.leaves import leaves
from engine.parquet.page_index import read_page_layout
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.parquet.row_counts import ROW_GROUP_ROWS
from engine.parquet.settings import (
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DICTIONARY,
    ENCODINGS_PROPERTY,
    PAGE_ROWS,
    PLAIN,
    UNCOMPRESSED_PROPERTY,
    ParquetSettings,
    choose_settings,
)
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import ColumnStats, FileDescription, FileFooter
from engine.table.rows import parquet_writer
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.warehouse.warehouse import Warehouse

LAYOUT = TableLayout()
VALUE_FIELDS = (
    pa.field("amount", pa.float64()),
    pa.field("status", pa.string()),
    pa.field("token", pa.string()),
    pa.field("price", pa.decimal128(9, 2)),
    pa.field(
        "items", pa.list_(pa.field("element", pa.struct([pa.field("sku", pa.string()), pa.field("w", pa.float32())])))
    ),
)
SCHEMA = arrow_schema(assign_fresh_schema_ids(iceberg_schema(LAYOUT, VALUE_FIELDS)))
IDS = {path: int(leaf.metadata[b"PARQUET:field_id"]) for path, leaf in leaves(SCHEMA)}


def rows(count: int, start: int = 0) -> pa.RecordBatch:
    at = np.arange(start, start + count)
    text = [f"id-{i * 7919 % 1_000_003:07d}-{i:x}" for i in at]
    sizes = at % 4
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    leaf_count = int(offsets[-1])
    items = pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.StructArray.from_arrays(
            [
                pa.array([f"sku{i}" for i in np.random.default_rng(1).integers(0, 5, leaf_count)]),
                pa.array(np.arange(leaf_count, dtype=np.float32) % 3),
            ],
            names=["sku", "w"],
        ),
    )
    columns: dict[str, pa.Array] = {
        "kafka_partition": pa.array(np.full(count, 3, np.int32)),
        "kafka_offset": pa.array(at),
        "kafka_timestamp": pa.array(at * 1_000_000).view(pa.timestamp("us", "UTC")),
        "amount": pa.array(np.where(at % 10 == 0, np.nan, at / 100)),
        "status": pa.array([("NEW", "PAID")[i * 7919 % 1_000_003 % 2] if i % 5 else None for i in at]),
        "token": pa.array(text),
        "price": pa.array((at % 1000).astype(np.int64)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
        "items": items.cast(SCHEMA.field("items").type),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def footer(count: int) -> FileFooter:
    return FileFooter(
        topic="orders",
        topic_id="ID",
        partition=3,
        range=OffsetRange(start=0, end=max(count, 1)),
        record_count=count,
        digest=RangeDigest(crc32c=0, length_bytes=0, record_count=count),
        codec="string",
        codec_version=1,
        schema_ids=(),
    )


def write(path: str, batches: list[pa.RecordBatch], settings: ParquetSettings | None = None) -> FileDescription:
    chosen = settings or choose_settings(pa.Table.from_batches(batches[:1]))
    with ParquetFileWriter(Warehouse(), path=path, schema=SCHEMA, settings=chosen) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish(footer(sum(b.num_rows for b in batches)), leader_epoch=1, raw_rows=0, error_rows=0)


def test_row_groups_are_cut_at_64k_rows_whatever_pieces_arrive(tmp_path: Path) -> None:
    path = f"{tmp_path}/x.parquet"
    sizes = [70_000, 1, 10_000, 60_000]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    description = write(path, [rows(size, int(start)) for size, start in zip(sizes, starts, strict=True)])
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [65_536, 65_536, 8_929]
    names = ["kafka_offset", "kafka_timestamp", "status", "token", "price", "kafka_error"]
    assert file.read(columns=names).equals(pa.Table.from_batches([rows(sum(sizes))]).select(names))
    assert description.size_bytes == Path(path).stat().st_size
    assert description.split_offsets[0] == 4
    assert len(description.split_offsets) == 3


def test_pages_of_all_columns_begin_at_the_same_rows(tmp_path: Path) -> None:
    path = f"{tmp_path}/x.parquet"
    description = write(path, [rows(30_000), rows(50_001, 30_000)])
    source = RangedFile(
        warehouse=Warehouse(),
        file=path,
        size_bytes=description.size_bytes,
        cache=row_group_cache(1 << 20),
        count=ReadCount(),
    )
    read = ParquetFooter.parse(source.read_footer(), file=path)
    for index in range(2):
        layout = read_page_layout(source, read.row_group(index), offset_column="kafka_offset")
        assert layout is not None, "the pages do not align"
        assert (np.diff(layout.first_row)[:-1] == PAGE_ROWS).all()


def test_memory_of_a_batch_may_be_reused_once_it_is_written(tmp_path: Path) -> None:
    shared = np.arange(1000, dtype=np.int64)
    with ParquetFileWriter(
        Warehouse(), path=f"{tmp_path}/x.parquet", schema=SCHEMA, settings=ParquetSettings()
    ) as writer:
        for _ in range(3):
            batch = rows(1000)
            batch = batch.set_column(1, SCHEMA.field(1), pa.array(shared))
            writer.write(batch)
            shared += 1000
        writer.finish(footer(3000), leader_epoch=1, raw_rows=0, error_rows=0)
    assert pq.read_table(f"{tmp_path}/x.parquet")["kafka_offset"].to_pylist() == list(range(3000))


def test_few_huge_rows_end_a_row_group_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 1 << 20)
    batch = rows(8)
    index = SCHEMA.get_field_index("token")
    huge = batch.set_column(index, SCHEMA.field(index), pa.array(["x" * 600_000] * 8))
    write(f"{tmp_path}/x.parquet", [huge])
    file = pq.ParquetFile(f"{tmp_path}/x.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [2, 2, 2, 2]


def test_statistics_hold_for_every_leaf_nested_ones_too(tmp_path: Path) -> None:
    count = 70_000
    batch = rows(count)
    stats = write(f"{tmp_path}/x.parquet", [batch]).columns
    assert set(stats) == set(IDS.values())
    assert bounds(stats[IDS["kafka_offset"]], iceberg.LongType()) == (0, count - 1)
    assert bounds(stats[IDS["status"]], iceberg.StringType()) == ("NEW", "PAID")
    assert bounds(stats[IDS["items.list.element.sku"]], iceberg.StringType()) == ("sku0", "sku4")
    assert bounds(stats[IDS["items.list.element.w"]], iceberg.FloatType()) == (0.0, 2.0)
    low, high = bounds(stats[IDS["price"]], iceberg.DecimalType(9, 2))
    assert (str(low), str(high)) == ("0.00", "999.00")
    assert stats[IDS["status"]].null_count == count // 5
    assert stats[IDS["amount"]].nan_count == count // 10
    assert stats[IDS["items.list.element.w"]].nan_count == 0
    assert stats[IDS["kafka_offset"]].nan_count is None
    assert bounds(stats[IDS["amount"]], iceberg.DoubleType()) == (0.01, (count - 1) / 100)
    assert stats[IDS["kafka_error"]] == ColumnStats(
        size_bytes=stats[IDS["kafka_error"]].size_bytes, value_count=count, null_count=count
    )
    assert all(entry.size_bytes > 0 and entry.value_count >= count for entry in stats.values())


def bounds(stats: ColumnStats, kind: iceberg.PrimitiveType) -> tuple[object, object]:
    assert stats.lower is not None
    assert stats.upper is not None
    return from_bytes(kind, stats.lower), from_bytes(kind, stats.upper)


def test_column_with_a_value_too_long_for_statistics_has_no_bounds(tmp_path: Path) -> None:
    batch = rows(2)
    index = SCHEMA.get_field_index("token")
    long = batch.set_column(index, SCHEMA.field(index), pa.array(["m" * 100_000, "a"]))
    stats = write(f"{tmp_path}/x.parquet", [long]).columns[IDS["token"]]
    if stats.lower is not None:
        assert stats.lower <= b"a"
    if stats.upper is not None:
        assert stats.upper >= b"m" * 17


def test_all_nan_column_has_no_bounds(tmp_path: Path) -> None:
    batch = rows(3)
    index = SCHEMA.get_field_index("amount")
    batch = batch.set_column(index, SCHEMA.field(index), pa.array([np.nan] * 3))
    stats = write(f"{tmp_path}/x.parquet", [batch]).columns[IDS["amount"]]
    assert (stats.nan_count, stats.lower, stats.upper) == (3, None, None)


def test_count_that_is_not_what_was_written_leaves_no_file(tmp_path: Path) -> None:
    with ParquetFileWriter(
        Warehouse(), path=f"{tmp_path}/x.parquet", schema=SCHEMA, settings=ParquetSettings()
    ) as writer:
        writer.write(rows(2))
        with pytest.raises(Invalid, match="2 rows were written for 3"):
            writer.finish(footer(3), leader_epoch=1, raw_rows=0, error_rows=0)
    assert list(tmp_path.iterdir()) == []


def test_file_without_rows_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(Invalid),
        ParquetFileWriter(
            Warehouse(), path=f"{tmp_path}/x.parquet", schema=SCHEMA, settings=ParquetSettings()
        ) as writer,
    ):
        writer.finish(footer(0), leader_epoch=1, raw_rows=0, error_rows=0)
    assert EMPTY_DIGEST.record_count == 0
    assert list(tmp_path.iterdir()) == []


def test_writer_that_is_given_up_leaves_no_file_and_the_library_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = ParquetFileWriter(Warehouse(), path=f"{tmp_path}/x.parquet", schema=SCHEMA, settings=ParquetSettings())
    writer.write(rows(ROW_GROUP_ROWS + 1))
    writer.abort()
    del writer  # pyarrow would write a footer and what its buffers hold
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_warehouse_that_fails_under_the_library_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with ParquetFileWriter(
        Warehouse(), path=f"{tmp_path}/x.parquet", schema=SCHEMA, settings=ParquetSettings()
    ) as writer:
        monkeypatch.setattr(writer._file, "_write", full)
        with pytest.raises(Unavailable, match="No space left"):
            writer.write(rows(ROW_GROUP_ROWS))
    del writer
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_encodings_follow_the_sample() -> None:
    chosen = choose_settings(pa.Table.from_batches([rows(20_000)])).encodings
    assert chosen["kafka_offset"] == DELTA_BINARY_PACKED
    assert chosen["kafka_timestamp"] == DELTA_BINARY_PACKED
    assert chosen["status"] == DICTIONARY
    assert chosen["items.list.element.sku"] == DICTIONARY
    assert chosen["token"] in {DELTA_BYTE_ARRAY, "DELTA_LENGTH_BYTE_ARRAY"}
    assert chosen["amount"] == PLAIN
    assert chosen["kafka_is_null"] == PLAIN


def test_prefixes_that_repeat_choose_the_encoding_that_shares_them() -> None:
    text = pa.array([f"https://shop.example.org/orders/2026/{i:09d}" for i in range(5000)])
    assert choose_settings(pa.table({"x": text})).encodings == {"x": DELTA_BYTE_ARRAY}


def test_remembered_encodings_stay_and_new_columns_get_theirs() -> None:
    remembered = ParquetSettings(encodings={"status": PLAIN})
    chosen = choose_settings(pa.Table.from_batches([rows(1000)]), remembered)
    assert chosen.encodings["status"] == PLAIN
    assert chosen.covers(SCHEMA)
    assert not remembered.covers(SCHEMA)
    assert choose_settings(pa.Table.from_batches([rows(1000, 77)]), chosen) == chosen


def test_encoding_that_a_promoted_column_can_not_keep_is_chosen_anew_and_no_other() -> None:
    remembered = ParquetSettings(encodings={"d": DELTA_BINARY_PACKED, "n": DELTA_BINARY_PACKED, "s": DELTA_BYTE_ARRAY})
    narrow = {"d": pa.decimal128(10, 2), "n": pa.int32(), "s": pa.string()}
    wide = {"d": pa.decimal128(30, 2), "n": pa.int64(), "s": pa.string()}
    assert remembered.covers(pa.schema(narrow))
    assert not remembered.covers(pa.schema(wide))
    assert remembered.encoding_of("d", wide["d"]) == PLAIN
    sample = pa.table([pa.array([None, None], kind) for kind in wide.values()], schema=pa.schema(wide))
    chosen = choose_settings(sample, remembered)
    assert chosen.encodings == {**remembered.encodings, "d": PLAIN}
    assert chosen.covers(pa.schema(wide))


def test_settings_survive_a_tables_properties_and_refuse_what_no_writer_does() -> None:
    settings = choose_settings(pa.Table.from_batches([rows(20_000)]))
    assert settings.uncompressed
    assert ParquetSettings.from_properties(settings.to_properties()) == settings
    assert ParquetSettings.from_properties({}) is None
    for text in ('{"x": "BYTE_STREAM_SPLIT"}', "[1]"):
        with pytest.raises(Invalid):
            ParquetSettings.from_properties({ENCODINGS_PROPERTY: text})
    with pytest.raises(Invalid):
        ParquetSettings.from_properties({ENCODINGS_PROPERTY: "{}", UNCOMPRESSED_PROPERTY: "1"})


def test_settings_of_a_table_of_an_earlier_version_compress_every_column() -> None:
    remembered = ParquetSettings.from_properties({ENCODINGS_PROPERTY: '{"x": "PLAIN"}'})
    assert remembered == ParquetSettings(encodings={"x": PLAIN})


def test_what_a_table_remembers_is_kept_and_new_columns_are_added_to_it() -> None:
    known = ParquetSettings(encodings={"a": PLAIN, "b": PLAIN}, uncompressed=frozenset({"a"}))
    new = ParquetSettings(encodings={"a": DICTIONARY, "b": PLAIN, "c": PLAIN}, uncompressed=frozenset({"b", "c"}))
    assert known.or_else(new) == ParquetSettings(
        encodings={"a": PLAIN, "b": PLAIN, "c": PLAIN}, uncompressed=frozenset({"a", "c"})
    )


def test_empty_sample_chooses_what_is_never_bad(tmp_path: Path) -> None:
    settings = choose_settings(SCHEMA.empty_table())
    assert settings.covers(SCHEMA)
    assert write(f"{tmp_path}/x.parquet", [rows(ROW_GROUP_ROWS)], settings).record_count == ROW_GROUP_ROWS
