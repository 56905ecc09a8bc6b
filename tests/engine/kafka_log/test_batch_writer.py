from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.kafka_log.batch_writer import empty_batch, encode_batches
from engine.kafka_log.compression import Compression
from engine.kafka_log.record_batch import BatchHeader, parse_header
from engine.offset_range import OffsetRange
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_strategy


def headers_of(batches: list[memoryview]) -> list[BatchHeader]:
    return [parse_header(batch) for batch in batches]


def rows(start: int, count: int) -> list[Row]:
    return [Row(offset=start + n, timestamp_ms=n, value=b"x" * 50) for n in range(count)]


def read_by_aiokafka(batch: memoryview) -> list[Row]:
    read = MemoryRecords(bytes(batch)).next_batch()
    assert read is not None
    assert read.validate_crc()
    return [
        Row(
            offset=record.offset,
            timestamp_ms=record.timestamp,
            timestamp_type=record.timestamp_type,
            leader_epoch=parse_header(batch).leader_epoch,
            key=record.key,
            value=record.value,
            headers=tuple((key.encode(), value) for key, value in record.headers),
        )
        for record in read
    ]


@pytest.mark.parametrize("compression", Compression)
@given(rows=rows_strategy(), target_bytes=st.sampled_from([1, 500, 32 << 10]))
@settings(max_examples=30, deadline=None)
def test_batches_are_read_back_by_aiokafka(compression: Compression, rows: list[Row], target_bytes: int) -> None:
    # aiokafka decodes header keys as UTF-8.
    readable = [
        replace(row, headers=tuple((key.replace(b"\xff", b"?"), value) for key, value in row.headers)) for row in rows
    ]
    batches = encode_batches(records_from(readable), target_bytes=target_bytes, compression=compression)
    assert [row for batch in batches for row in read_by_aiokafka(batch)] == readable


@given(
    rows=rows_strategy(),
    target_bytes=st.sampled_from([1, 300, 32 << 10]),
    beyond=st.none() | st.integers(1, 2**34),
    every=st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_every_offset_is_covered_once_and_batches_begin_on_the_grid(
    rows: list[Row], target_bytes: int, beyond: int | None, every: int
) -> None:
    first, last = rows[0].offset, rows[-1].offset
    grid = sorted({row.offset for row in rows[::every]} | {first + 3, last + 1})
    cover_to = None if beyond is None else last + beyond
    headers = headers_of(encode_batches(records_from(rows), grid=grid, target_bytes=target_bytes, cover_to=cover_to))
    assert headers[0].base_offset == first
    assert headers[-1].next_offset == (last + 1 if cover_to is None else cover_to)
    for before, after in itertools.pairwise(headers):
        assert before.next_offset == after.base_offset
    for header in headers:
        held = [row.offset for row in rows if header.base_offset <= row.offset < header.next_offset]
        inside = [offset for offset in grid if header.base_offset < offset <= max(held, default=-1)]
        assert not inside, "a batch holds no records of both sides of a grid offset"
    assert sum(header.record_count for header in headers) == len(rows)


def test_batches_never_span_leader_epochs_or_timestamp_types() -> None:
    mixed = [
        Row(offset=n, leader_epoch=n // 5, timestamp_type=int(n % 10 in (3, 4)), timestamp_ms=77) for n in range(20)
    ]
    headers = headers_of(encode_batches(records_from(mixed), target_bytes=1 << 20))
    assert [(header.leader_epoch, header.timestamp_type, header.record_count) for header in headers] == [
        (0, 0, 3),
        (0, 1, 2),
        (1, 0, 5),
        (2, 0, 3),
        (2, 1, 2),
        (3, 0, 5),
    ]


def test_log_append_times_that_differ_are_different_batches() -> None:
    appended = [Row(offset=n, timestamp_type=1, timestamp_ms=n // 4) for n in range(8)]
    headers = headers_of(encode_batches(records_from(appended)))
    assert [(header.record_count, header.max_timestamp_ms) for header in headers] == [(4, 0), (4, 1)]


def test_batches_are_about_the_size_asked_for() -> None:
    batches = encode_batches(records_from(rows(0, 5000)), target_bytes=16 << 10)
    assert all(len(batch) <= 16 << 10 for batch in batches)
    assert all(len(batch) > 15 << 10 for batch in batches[:-1])


def test_record_larger_than_the_target_is_a_batch_of_its_own() -> None:
    large = [Row(offset=0, value=b"a"), Row(offset=1, value=os.urandom(20_000_000)), Row(offset=2, value=b"b")]
    headers = headers_of(encode_batches(records_from(large)))
    assert [header.record_count for header in headers] == [1, 1, 1]


def test_batches_extend_over_the_gaps_behind_them() -> None:
    gaps = [Row(offset=10), Row(offset=11), Row(offset=50)]
    headers = headers_of(encode_batches(records_from(gaps), grid=[20, 40], cover_to=100))
    assert [(header.base_offset, header.next_offset) for header in headers] == [(10, 50), (50, 100)]
    headers = headers_of(encode_batches(records_from(gaps), target_bytes=1, cover_to=51))
    assert [(header.base_offset, header.next_offset) for header in headers] == [(10, 11), (11, 50), (50, 51)]


def test_gap_wider_than_a_batch_is_filled_with_empty_batches() -> None:
    far = [Row(offset=5, leader_epoch=3), Row(offset=5 + 2**33, leader_epoch=3)]
    headers = headers_of(encode_batches(records_from(far)))
    assert [header.record_count for header in headers] == [1, 0, 0, 0, 1]
    assert all(before.next_offset == after.base_offset for before, after in itertools.pairwise(headers))
    assert {header.leader_epoch for header in headers} == {3}


def test_cover_to_at_or_below_the_last_record_is_invalid() -> None:
    with pytest.raises(Invalid, match="last record is at 9"):
        encode_batches(records_from(rows(0, 10)), cover_to=9)


def test_no_records_make_no_batches() -> None:
    assert encode_batches(records_from(rows(0, 3)).slice(1, 1), cover_to=10) == []


def test_slices_and_strided_columns_are_written_as_their_rows() -> None:
    whole = records_from([Row(offset=n, value=b"%d" % n, headers=((b"h", b"%d" % n),)) for n in range(30)])
    assert b"".join(encode_batches(whole.slice(7, 21))) == b"".join(
        encode_batches(
            records_from([Row(offset=n, value=b"%d" % n, headers=((b"h", b"%d" % n),)) for n in range(7, 21)])
        )
    )


def test_empty_batch_covers_its_range_with_a_valid_crc() -> None:
    data = empty_batch(OffsetRange(start=4, end=9), leader_epoch=2, timestamp_ms=123)
    header = parse_header(data)
    assert (header.base_offset, header.next_offset, header.record_count, header.leader_epoch) == (4, 9, 0, 2)
    assert (header.base_timestamp_ms, header.max_timestamp_ms, len(data)) == (-1, 123, 61)
    batch = MemoryRecords(data).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert list(batch) == []
    assert empty_batch(OffsetRange(start=4, end=4), leader_epoch=2) == b""


def test_grid_may_be_an_array_and_begin_before_the_records() -> None:
    headers = headers_of(encode_batches(records_from(rows(100, 10)), grid=np.arange(0, 200, 4)))
    assert [header.base_offset for header in headers] == [100, 104, 108]


def test_uncompressed_batches_lie_behind_each_other(tmp_path: Path) -> None:
    batches = encode_batches(records_from(rows(0, 3000)))
    assert len(batches) > 3
    assert b"".join(batches) == bytes(batches[0].obj)
