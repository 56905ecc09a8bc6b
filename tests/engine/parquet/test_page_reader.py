"""Thrift metadata, footers and page-level reads: what pyarrow reads whole, by page, and nothing for damaged bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt
from engine.parquet.footer import ByteRange, ParquetFooter, RowGroup
from engine.parquet.page_index import PageLayout, read_page_layout
from engine.parquet.page_reader import read_rows, whole_group
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, ThriftTape, binary, listed, struct, zigzag
from engine.warehouse.warehouse import Warehouse
from tests.engine.parquet.page_runs import pages_from

ROW_COUNT = 200


def sample_rows(seed: int = 1) -> pa.Table:
    """Flat, nested, repeated and null columns, in dictionaries and not."""
    rng = np.random.default_rng(seed)
    rows = range(ROW_COUNT)
    items = [None if row % 6 == 0 else [{"sku": f"s{n}", "n": n} for n in range(row % 4)] for row in rows]
    shipping = pa.struct([("city", pa.string()), ("zip", pa.int64())])
    offset = np.cumsum(rng.integers(1, 4, ROW_COUNT))
    return pa.table(
        {
            "kafka_offset": pa.array(offset, pa.int64()),
            "text": pa.array([None if row % 5 == 0 else f"text {row % 7}" for row in rows]),
            "unique": pa.array([b"%d" % (row * 7919) for row in rows]),
            "items": pa.array(items),
            "map": pa.array([[("k", row)] * (row % 3) for row in rows], pa.map_(pa.string(), pa.int64())),
            "shipping": pa.array([{"city": None, "zip": row} if row % 3 else None for row in rows], shipping),
            "null_text": pa.nulls(ROW_COUNT, pa.string()),
            "empty_lists": pa.array([[] for _ in rows], pa.list_(pa.int32())),
            "null_structs": pa.nulls(ROW_COUNT, pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32()))])),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSample:
    path: Path
    source: RangedFile
    footer: ParquetFooter
    count: ReadCount

    def group(self, index: int) -> tuple[RowGroup, PageLayout | None]:
        group = self.footer.row_group(index)
        return group, read_page_layout(self.source, group, offset_column="kafka_offset")


def write_sample(folder: Path, *, is_remote: bool = False, **options: Any) -> OpenSample:
    path = folder / "sample.parquet"
    aligned = {"max_rows_per_page": 8, "write_batch_size": 8, "data_page_size": 1 << 30}
    settings_ = {"row_group_size": 64, "write_page_index": True, "write_page_checksum": True, "compression": "zstd"}
    pq.write_table(sample_rows(), path, **{**settings_, **aligned, "store_schema": False, **options})
    return open_sample(path, is_remote=is_remote)


def open_sample(path: Path, *, is_remote: bool = False) -> OpenSample:
    count = ReadCount()
    source = RangedFile(
        warehouse=Warehouse(),
        file=path.as_uri(),
        size_bytes=path.stat().st_size,
        cache=row_group_cache(1 << 20),
        count=count,
        is_remote=is_remote,
    )
    return OpenSample(path=path, source=source, footer=source.footer(), count=count)


def as_read_whole(path: Path, first: int, end: int, read: pa.Table) -> None:
    """``read`` equals those rows of the file; columns that were left out are null in all of them."""
    expected = pq.read_table(path).slice(first, end - first)
    for name in expected.column_names:
        if name in read.column_names:
            assert read[name].to_pylist() == expected[name].to_pylist(), name
        else:
            assert expected[name].null_count == len(expected), name


@pytest.mark.parametrize("is_remote", [False, True])
def test_every_run_of_pages_is_what_the_whole_file_holds(tmp_path: Path, is_remote: bool) -> None:
    sample = write_sample(tmp_path, is_remote=is_remote)
    row = 0
    for index in range(len(sample.footer.group_at)):
        group, layout = sample.group(index)
        assert layout is not None
        for page in range(layout.page_count):
            for least_rows in (1, 17, 1000):
                run = pages_from(layout, page, least_rows=least_rows)
                read = read_rows(sample.source, sample.footer, group, layout, run)
                as_read_whole(sample.path, row + run.first_row, row + run.end_row, read)
        row += group.row_count
    assert row == ROW_COUNT


def test_pages_and_row_group_read_the_same(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    group, layout = sample.group(1)
    whole = read_rows(sample.source, sample.footer, group, None, whole_group(group, None))
    by_pages = read_rows(sample.source, sample.footer, group, layout, whole_group(group, layout))
    assert whole.to_pylist() == by_pages.to_pylist()
    as_read_whole(sample.path, 64, 128, whole)


@pytest.mark.parametrize(
    "options",
    [{"max_rows_per_page": 20_000, "data_page_size": 40, "write_batch_size": 3}, {"write_page_index": False}],
    ids=["pages break at different rows", "no page index"],
)
def test_unaligned_pages_leave_the_row_group_as_the_unit(tmp_path: Path, options: dict[str, Any]) -> None:
    sample = write_sample(tmp_path, **options)
    group, layout = sample.group(0)
    assert layout is None
    as_read_whole(sample.path, 0, 64, read_rows(sample.source, sample.footer, group, None, whole_group(group, None)))


def test_columns_without_a_value_and_unread_ones_are_left_out(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    group, layout = sample.group(0)
    run = whole_group(group, layout)
    read = read_rows(sample.source, sample.footer, group, layout, run, unread=frozenset({"items", "unique"}))
    # Empty lists look like nulls to a count of nulls, and are none.
    assert read.column_names == ["kafka_offset", "text", "map", "shipping", "empty_lists"]


def test_local_reads_take_only_the_wanted_pages(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    group, layout = sample.group(0)
    assert layout is not None
    before = sample.count.read_bytes
    read_rows(sample.source, sample.footer, group, layout, pages_from(layout, 3, least_rows=1))
    assert sample.count.read_bytes - before < group.data.size / 2


def test_remote_row_group_is_fetched_once_by_one_request(tmp_path: Path) -> None:
    sample = write_sample(tmp_path, is_remote=True)
    group, layout = sample.group(0)
    assert layout is not None
    before = sample.count.requests
    for page in range(layout.page_count):
        read_rows(sample.source, sample.footer, group, layout, pages_from(layout, page, least_rows=1))
    assert sample.count.requests - before == 1


def test_row_groups_are_found_by_the_statistics_of_the_offset(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    summaries = sample.footer.summaries("kafka_offset")
    offsets = sample_rows()["kafka_offset"].to_numpy()
    assert summaries.first_offset.tolist() == offsets[::64].tolist()
    assert summaries.row_count.tolist() == [64, 64, 64, 8]
    assert summaries.last_offset.tolist() == [*offsets[63::64].tolist(), offsets[-1]]
    with pytest.raises(Corrupt, match="no column"):
        sample.footer.summaries("another")


def test_flipped_byte_in_a_page_is_corrupt_and_names_the_file(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    group, _ = sample.group(0)
    chunk = group.chunk_of("unique")
    assert chunk is not None
    content = bytearray(sample.path.read_bytes())
    content[chunk.data.end - 3] ^= 1
    sample.path.write_bytes(content)
    damaged = open_sample(sample.path)
    group, layout = damaged.group(0)
    with pytest.raises(Corrupt, match=r"sample\.parquet"):
        read_rows(damaged.source, damaged.footer, group, layout, whole_group(group, layout))


def test_range_outside_the_file_is_corrupt(tmp_path: Path) -> None:
    sample = write_sample(tmp_path)
    with pytest.raises(Corrupt):
        sample.source.read([ByteRange(start=sample.source.size_bytes - 1, size=2)])


_values = st.recursive(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(lambda value: (I64, zigzag(value), value)),
        st.binary(max_size=20).map(lambda value: (BINARY, binary(value), value)),
    ),
    lambda children: st.dictionaries(st.integers(1, 300), children, max_size=5).map(
        lambda fields: (
            STRUCT,
            struct((field, kind, encoded) for field, (kind, encoded, _) in sorted(fields.items())),
            {field: value for field, (_, _, value) in fields.items()},
        )
    ),
    max_leaves=20,
)


@given(fields=st.dictionaries(st.integers(1, 300), _values, max_size=6), tail=st.binary(max_size=5))
def test_struct_that_is_written_is_read_back(fields: dict[int, Any], tail: bytes) -> None:
    encoded = struct((field, kind, value) for field, (kind, value, _) in sorted(fields.items()))
    tape = ThriftTape.read(np.frombuffer(encoded + tail, np.uint8), file="f", what="struct")
    assert tape.end_byte == len(encoded)
    assert tape.unpack(0) == {field: value for field, (_, _, value) in fields.items()}


@given(numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40))
def test_list_that_is_written_is_read_back(numbers: list[int]) -> None:
    encoded = struct(((7, LIST, listed(I32, [zigzag(number) for number in numbers])),))
    assert ThriftTape.read(np.frombuffer(encoded, np.uint8), file="f", what="list").unpack(0) == {7: numbers}


@pytest.mark.parametrize(
    ("encoded", "problem"),
    [
        (b"", "ends early"),
        (b"\x15", "ends early"),
        (b"\x15" + b"\xff" * 11, "out of bounds"),
        (b"\x18\xff\xff\xff\xff\x7f", "ends early"),
        (b"\x19\xf5\xff\xff\xff\xff\x7f", "ends early"),
        (b"\x1c" * 100, "too deep"),
        (b"\x1b\x00", "does not use"),
    ],
    ids=["nothing", "no value", "endless number", "string too long", "list too long", "nested without end", "a map"],
)
def test_hostile_struct_is_corrupt(encoded: bytes, problem: str) -> None:
    with pytest.raises(Corrupt, match=problem):
        ThriftTape.read(np.frombuffer(encoded, np.uint8), file="f", what="struct")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_footer_with_bytes_changed_is_corrupt_or_read(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    encoded = bytearray(_sample_footer(tmp_path_factory))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        footer = ParquetFooter.parse(bytes(encoded[: data.draw(st.integers(1, len(encoded)))]), file="f")
        footer.summaries("kafka_offset")
        for index in range(len(footer.group_at)):
            footer.row_group(index)
    except Corrupt as error:
        assert error.file == "f"  # noqa: PT017  # damage may also go unseen: then there is no error to look at


_footers: list[bytes] = []


def _sample_footer(factory: pytest.TempPathFactory) -> bytes:
    if not _footers:
        _footers.append(write_sample(factory.mktemp("footer")).source.read_footer())
    return _footers[0]
