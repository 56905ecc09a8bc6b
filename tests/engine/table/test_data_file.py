from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Corrupt, Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.table.data_file import (
    CHECKSUM_COLUMN_ID,
    ColumnStats,
    FileDescription,
    FileFooter,
    FileName,
    data_path,
    footer_checksum_of,
    parse_file_name,
)
from engine.table.windows import Clustering, FileWindows

RANGE = OffsetRange(start=747_276, end=1_000_000)
FOOTER = FileFooter(
    topic="orders",
    topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    partition=3,
    range=RANGE,
    record_count=17,
    digest=RangeDigest(crc32c=1, length_bytes=2, record_count=17),
    codec="avro",
    codec_version=1,
    schema_ids=(101, 102),
)
WITH_KEYS = replace(FOOTER, unresolved={9: 1200}, key_codec_version=2, key_schema_ids=(7,), unresolved_keys={})
DESCRIPTION = FileDescription(
    path="s3://lake/orders/data/x/p=3/f.parquet",
    topic="orders",
    topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    partition=3,
    range=RANGE,
    leader_epoch=7,
    record_count=17,
    size_bytes=1234,
    checksum=99,
    footer_checksum=0xFEDCBA98,
    digest=FOOTER.digest,
    schema_ids=(101,),
    raw_rows=1,
    error_rows=2,
    columns={
        1: ColumnStats(size_bytes=5, value_count=17, null_count=0, lower=b"\x00", upper=b"\xff\xfe"),
        9: ColumnStats(size_bytes=6, value_count=17, null_count=None, nan_count=4),
    },
    split_offsets=(4, 800),
)


def test_name_is_the_documented_one() -> None:
    name = FileName(partition=3, range=RANGE, leader_epoch=7, attempt="0badcafe")
    assert str(name) == "p=3/00000000000000747276-00000000000001000000-e7-0badcafe.parquet"
    assert data_path("s3://lake/orders/", "ID", name) == f"s3://lake/orders/data/ID/{name}"


@given(
    st.integers(0, 10_000),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(-1, 2**31 - 1),
    st.text("0123456789abcdef", min_size=1, max_size=32),
)
def test_name_says_what_it_was_made_of(partition: int, start: int, length: int, epoch: int, attempt: str) -> None:
    name = FileName(
        partition=partition,
        range=OffsetRange(start=start, end=start + length),
        leader_epoch=epoch,
        attempt=attempt,
    )
    assert parse_file_name(data_path("file:///w/t", "id", name)) == name


@pytest.mark.parametrize(
    "path", ["", "p=1/1-2-e3-a.parquet", "x.parquet", "file:///w/kafka_partition=1/00000-0-abc.parquet"]
)
def test_foreign_name_is_invalid(path: str) -> None:
    with pytest.raises(Invalid):
        parse_file_name(path)


@pytest.mark.parametrize("footer", [FOOTER, WITH_KEYS])
def test_footer_survives_its_key_values(footer: FileFooter) -> None:
    stored = {key.encode(): value.encode() for key, value in footer.to_key_values().items()}
    assert FileFooter.from_key_values(stored, file="f") == footer


@pytest.mark.parametrize("key", sorted(FOOTER.to_key_values()))
def test_footer_without_one_of_its_keys_is_corrupt(key: str) -> None:
    stored = {name.encode(): value.encode() for name, value in FOOTER.to_key_values().items() if name != key}
    with pytest.raises(Corrupt) as caught:
        FileFooter.from_key_values(stored, file="that.parquet")
    assert caught.value.file == "that.parquet"


def test_footer_of_a_newer_format_is_refused() -> None:
    stored = {key.encode(): value.encode() for key, value in FOOTER.to_key_values().items()}
    stored[b"floeberg.format_version"] = b"3"
    with pytest.raises(Invalid, match="upgrade"):
        FileFooter.from_key_values(stored, file="f")


def test_windows_are_told_by_their_first_row_groups() -> None:
    windows = FileWindows(clustering=Clustering(columns=("a", "b"), window_rows=7), first_groups=(0, 4, 6))
    clustered = replace(FOOTER, windows=windows)
    stored = {key.encode(): value.encode() for key, value in clustered.to_key_values().items()}
    assert FileFooter.from_key_values(stored, file="f") == clustered
    assert list(clustered.window_starts(9, file="f")) == [0, 4, 6, 9]
    assert list(FOOTER.window_starts(3, file="f")) == [0, 1, 2, 3]
    with pytest.raises(Corrupt, match="begins at row group 6, there are 6"):
        clustered.window_starts(6, file="f")


def test_manifest_entry_has_counts_and_bounds_only_where_they_are_known() -> None:
    entry = DESCRIPTION.to_iceberg(spec_id=0)
    assert entry.file_path == DESCRIPTION.path
    assert entry.partition[0] == 3
    assert entry.column_sizes == {1: 5, 9: 6, CHECKSUM_COLUMN_ID: 0xFEDCBA98}
    assert footer_checksum_of(entry) == 0xFEDCBA98
    assert entry.value_counts == {1: 17, 9: 17}
    assert entry.null_value_counts == {1: 0}
    assert entry.nan_value_counts == {9: 4}
    assert entry.lower_bounds == {1: b"\x00"}
    assert entry.upper_bounds == {1: b"\xff\xfe"}
    assert entry.split_offsets == [4, 800]
