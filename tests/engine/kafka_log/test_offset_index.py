"""Kafka's sparse index: the last batch that ends before an offset, whatever state the file is in."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.kafka_log.offset_index import position_before
from engine.kafka_log.segment import Segment, segment_file_name

BASE = 1000
ENTRIES = ((9, 4_200), (19, 8_500), (29, 12_700))


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(base_offset=BASE, log_path=tmp_path / segment_file_name(BASE), size_bytes=1 << 20, modified_ms=0)


def write_index(segment: Segment, *, unused: int = 0, cut: int = 0) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in ENTRIES) + bytes(8 * unused)
    segment.offset_index_path.write_bytes(data[: len(data) - cut])


@pytest.mark.parametrize("unused", [0, 1, 5, 1000])
@pytest.mark.parametrize(
    ("offset", "expected"),
    [(900, 0), (1000, 0), (1005, 0), (1009, 0), (1010, 4_200), (1019, 4_200), (1020, 8_500), (5000, 12_700)],
)
def test_last_batch_that_ends_before_the_offset_is_found_also_in_a_preallocated_index(
    segment: Segment, unused: int, offset: int, expected: int
) -> None:
    write_index(segment, unused=unused)
    assert position_before(segment, offset) == expected


def test_missing_and_empty_indexes_say_the_start(segment: Segment) -> None:
    assert position_before(segment, 5000) == 0
    segment.offset_index_path.write_bytes(b"")
    assert position_before(segment, 5000) == 0
    segment.offset_index_path.unlink()
    segment.offset_index_path.mkdir()
    assert position_before(segment, 5000) == 0


def test_entry_that_is_cut_is_not_there(segment: Segment) -> None:
    write_index(segment, cut=3)
    assert position_before(segment, 5000) == 8_500
