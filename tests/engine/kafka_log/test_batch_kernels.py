"""The kernels against their plain-Python twin, on good bytes and on damaged ones."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt
from engine.kafka_log.batch_writer import encode_batches
from engine.kafka_log.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, parse_header
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tests.engine.kafka_log import batch_twin as twin
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_of, rows_strategy

pytestmark = pytest.mark.kernels
PARTITION = TopicIdPartition(topic="orders", topic_id="A" * 22, partition=3)
EVERYTHING = OffsetRange(start=0, end=2**62)
SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path, data: bytes, **options: object) -> list[Row]:
    path.write_bytes(data)
    found = read_segment(path, partition=PARTITION, offsets=EVERYTHING, aborted=(), **options)  # type: ignore[arg-type]
    return rows_of(list(found))


def cut(rows: list[Row]) -> list[list[Row]]:
    """Rows cut where one batch can't go on."""
    batches: list[list[Row]] = []
    for row in rows:
        base = batches[-1][0] if batches else None
        if (
            base is None
            or (row.leader_epoch, row.timestamp_type) != (base.leader_epoch, base.timestamp_type)
            or row.offset - base.offset > 2**31 - 1
            or (row.timestamp_type == 1 and row.timestamp_ms != base.timestamp_ms)
        ):
            batches.append([])
        batches[-1].append(row)
    return batches


@given(rows=rows_strategy())
@SETTINGS
def test_reader_finds_what_the_twin_wrote(rows: list[Row], tmp_path: Path) -> None:
    data = b"".join(twin.batch(part) for part in cut(rows))
    assert read(tmp_path / "x.log", data) == rows


@given(
    rows=rows_strategy(),
    target_bytes=st.sampled_from([1, 200, 4096, 1 << 20]),
    gap=st.integers(0, 200) | st.integers(0, 2**33),
)
@SETTINGS
def test_writer_writes_the_twins_bytes(rows: list[Row], target_bytes: int, gap: int) -> None:
    covered = max(0, rows[0].offset - gap)
    found: list[Row] = []
    for written in encode_batches(records_from(rows), target_bytes=target_bytes, cover_from=covered):
        part = twin.parse_batch(bytes(written))
        control = parse_header(written).attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
        assert bytes(written) == twin.batch(part, base_offset=covered, attributes=control)
        covered = part[-1].offset + 1
        found += [] if control else part
    assert found == rows


@given(rows=rows_strategy(max_size=4, epochs=False), data=st.data())
@SETTINGS
def test_damaged_records_are_read_as_the_twin_reads_them(rows: list[Row], data: st.DataObject, tmp_path: Path) -> None:
    """Bytes behind the CRC are changed and the CRC made right: only the structure can tell."""
    batch = bytearray(twin.batch(cut(rows)[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(61, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", batch, 17, crc32c.crc32c(batch[21:]))
    try:
        expected = twin.parse_batch(bytes(batch))
    except (ValueError, IndexError):
        with pytest.raises(Corrupt):
            read(tmp_path / "x.log", bytes(batch))
    else:
        assert read(tmp_path / "x.log", bytes(batch)) == expected


@given(rows=rows_strategy(max_size=4), data=st.data())
@SETTINGS
def test_any_damage_ends_in_corrupt_with_coordinates(rows: list[Row], data: st.DataObject, tmp_path: Path) -> None:
    rows = cut(rows)[0]
    segment = bytearray(twin.batch(rows))
    at = data.draw(st.integers(8, len(segment) - 1))
    segment[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "x.log"
    if not 12 <= at < 16:
        with pytest.raises(Corrupt) as caught:
            read(path, bytes(segment))
        error = caught.value
        assert (error.topic, error.partition, error.file) == ("orders", 3, str(path))
        assert error.offset is not None
        assert error.next_step
    else:
        # Behind the base offset, the CRC leaves out nothing but the leader epoch.
        found = read(path, bytes(segment))
        assert [replace(row, leader_epoch=0) for row in found] == [replace(row, leader_epoch=0) for row in rows]


@given(body=st.binary(max_size=200), count=st.integers(-1, 50), delta=st.integers(-5, 100))
@SETTINGS
def test_random_bodies_never_crash(body: bytes, count: int, delta: int, tmp_path: Path) -> None:
    batch = twin.batch([], base_offset=7, last_offset=7 + delta, body=body, record_count=count)
    try:
        expected = twin.parse_batch(batch)
    except (ValueError, IndexError):
        expected = None
    if expected is None or delta < 0:
        with pytest.raises(Corrupt):
            read(tmp_path / "x.log", batch)
    elif count:
        assert read(tmp_path / "x.log", batch) == expected
