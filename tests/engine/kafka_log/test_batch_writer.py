from __future__ import annotations

import itertools
import os
import struct
from dataclasses import replace
from pathlib import Path

import crc32c
import numpy as np
import pytest
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as PythonMemoryRecords

from engine.errors import Invalid
from engine.kafka_log.batch_writer import control_batches, encode_batches
from engine.kafka_log.compression import Compression
from engine.kafka_log.record_batch import CONTROL_FLAG, BatchHeader, parse_header
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
        if not read.is_control_batch
    ]


def readable(rows: list[Row]) -> list[Row]:
    """Header keys as both Python clients decode them: UTF-8."""
    return [
        replace(row, headers=tuple((key.replace(b"\xff", b"?"), value) for key, value in row.headers)) for row in rows
    ]


def shown_by_kafka_python(batch: memoryview) -> list[int]:
    """The offsets of the records that kafka-python gives to its application."""
    read = PythonMemoryRecords(bytes(batch)).next_batch()
    return [] if read.is_control_batch else [record.offset for record in read]


@pytest.mark.parametrize("compression", Compression)
@given(rows=rows_strategy(), target_bytes=st.sampled_from([1, 500, 32 << 10]))
@settings(max_examples=30, deadline=None)
def test_batches_are_read_back_by_aiokafka(compression: Compression, rows: list[Row], target_bytes: int) -> None:
    rows = readable(rows)
    batches = encode_batches(records_from(rows), target_bytes=target_bytes, compression=compression)
    assert [row for batch in batches for row in read_by_aiokafka(batch)] == rows


@given(
    rows=rows_strategy(),
    target_bytes=st.sampled_from([1, 300, 32 << 10]),
    before=st.none() | st.integers(0, 2**34),
    every=st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_every_offset_is_covered_once_and_batches_end_before_the_grid(
    rows: list[Row], target_bytes: int, before: int | None, every: int
) -> None:
    first, last = rows[0].offset, rows[-1].offset
    grid = sorted({row.offset for row in rows[::every]} | {first + 3, last + 1})
    start = first if before is None else max(0, first - before)
    batches = encode_batches(
        records_from(readable(rows)), grid=grid, target_bytes=target_bytes, cover_from=None if before is None else start
    )
    headers = headers_of(batches)
    assert headers[0].base_offset == start
    assert headers[-1].last_offset == last
    for one, after in itertools.pairwise(headers):
        assert one.next_offset == after.base_offset
    for header in headers:
        held = [row.offset for row in rows if header.base_offset <= row.offset < header.next_offset]
        assert (len(held), held[-1:]) == (
            (0, []) if header.attributes & CONTROL_FLAG else (header.record_count, [header.last_offset])
        )
        assert not [offset for offset in grid if held and held[0] < offset <= held[-1]], (
            "a batch holds no records of both sides of a grid offset"
        )
    assert [row for batch in batches for row in shown_by_kafka_python(batch)] == [row.offset for row in rows]


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


def test_batches_cover_the_gaps_before_them() -> None:
    gaps = [Row(offset=10), Row(offset=11), Row(offset=50)]
    headers = headers_of(encode_batches(records_from(gaps), grid=[20, 40], cover_from=0))
    assert [(header.base_offset, header.next_offset) for header in headers] == [(0, 12), (12, 51)]
    headers = headers_of(encode_batches(records_from(gaps), target_bytes=1))
    assert [(header.base_offset, header.next_offset) for header in headers] == [(10, 11), (11, 12), (12, 51)]


def test_gap_wider_than_a_batch_is_filled_with_control_batches() -> None:
    far = [Row(offset=5, leader_epoch=3), Row(offset=5 + 2**33, leader_epoch=3)]
    headers = headers_of(encode_batches(records_from(far)))
    assert [bool(header.attributes & CONTROL_FLAG) for header in headers] == [False, True, True, True, True, False]
    assert [header.record_count for header in headers] == [1] * 6
    assert all(before.next_offset == after.base_offset for before, after in itertools.pairwise(headers))


def test_beginning_above_the_first_record_is_invalid() -> None:
    with pytest.raises(Invalid, match="first record is at 0"):
        encode_batches(records_from(rows(0, 10)), cover_from=1)


def test_no_records_make_no_batches() -> None:
    assert encode_batches(records_from(rows(0, 3)).slice(1, 1), cover_from=0) == []


def test_slices_and_strided_columns_are_written_as_their_rows() -> None:
    whole = records_from([Row(offset=n, value=b"%d" % n, headers=((b"h", b"%d" % n),)) for n in range(30)])
    assert b"".join(encode_batches(whole.slice(7, 21))) == b"".join(
        encode_batches(
            records_from([Row(offset=n, value=b"%d" % n, headers=((b"h", b"%d" % n),)) for n in range(7, 21)])
        )
    )


def test_control_batch_is_the_one_of_the_byte_table() -> None:
    (batch,) = control_batches(OffsetRange(start=4, end=300))
    assert bytes(batch[:17]) == struct.pack(">qiib", 4, 67, -1, 2)
    assert bytes(batch[21:61]) == struct.pack(">hiqqqhii", 0x30, 295, -1, -1, -1, -1, -1, 1)
    assert batch[61:].hex(" ") == "22 00 00 ce 04 08 00 00 00 01 0c 00 00 00 00 00 00 00"
    assert parse_header(batch).crc32c == crc32c.crc32c(batch[21:])


def test_control_batch_is_a_commit_that_clients_pass_over() -> None:
    (batch,) = control_batches(OffsetRange(start=4, end=9))
    aio = MemoryRecords(bytes(batch)).next_batch()
    assert aio is not None
    assert (aio.validate_crc(), aio.is_control_batch, aio.is_transactional) == (True, True, True)
    assert (aio.producer_id, aio.next_offset) == (-1, 9)
    (record,) = aio
    assert (record.offset, record.timestamp) == (8, -1)
    assert ControlRecord.parse(record.key) == ControlRecord(version=0, type_=1)
    python = PythonMemoryRecords(bytes(batch)).next_batch()
    assert (python.validate_crc(), python.is_control_batch, python.next_offset) == (True, True, 9)
    (record,) = python
    assert (record.offset, record.version, record.commit) == (8, 0, True)
    assert shown_by_kafka_python(batch) == []


@pytest.mark.parametrize("width", [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**32 + 1])
def test_control_batches_cover_any_width(width: int) -> None:
    covered = OffsetRange(start=7, end=7 + width)
    batches = control_batches(covered)
    headers = headers_of(batches)
    assert len(headers) == -(-width // 2**31)
    ends = [covered.start, *(header.next_offset for header in headers)]
    assert [header.base_offset for header in headers] == ends[:-1]
    assert ends[-1] == covered.end
    for header, batch in zip(headers, batches, strict=True):
        (record,) = PythonMemoryRecords(bytes(batch)).next_batch()
        assert record.offset == header.last_offset


def test_grid_may_be_an_array_and_begin_before_the_records() -> None:
    headers = headers_of(encode_batches(records_from(rows(100, 10)), grid=np.arange(0, 200, 4)))
    assert [header.base_offset for header in headers] == [100, 104, 108]


def test_uncompressed_batches_lie_behind_each_other(tmp_path: Path) -> None:
    batches = encode_batches(records_from(rows(0, 3000)))
    assert len(batches) > 3
    assert b"".join(batches) == bytes(batches[0].obj)
