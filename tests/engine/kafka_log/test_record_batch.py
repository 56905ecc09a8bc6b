from __future__ import annotations

import struct
from dataclasses import astuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kafka_log.compression import Compression
from engine.kafka_log.record_batch import HEADER_SIZE_BYTES, TRANSACTIONAL_FLAG, BatchHeader, parse_header

_INT64 = st.integers(-(2**63), 2**63 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT16 = st.integers(-(2**15), 2**15 - 1)


@given(
    header=st.builds(
        BatchHeader,
        base_offset=_INT64,
        length_bytes=_INT32,
        leader_epoch=_INT32,
        magic=st.integers(-128, 127),
        crc32c=st.integers(0, 2**32 - 1),
        attributes=_INT16,
        last_offset_delta=_INT32,
        base_timestamp_ms=_INT64,
        max_timestamp_ms=_INT64,
        producer_id=_INT64,
        producer_epoch=_INT16,
        base_sequence=_INT32,
        record_count=_INT32,
    ),
    before=st.binary(max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_header_is_read_as_written(header: BatchHeader, before: bytes) -> None:
    written = struct.pack(">qiibIhiqqqhii", *astuple(header))
    assert len(written) == HEADER_SIZE_BYTES
    assert parse_header(before + written, len(before)) == header


def test_header_of_aiokafka_is_understood() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=1,
        is_transactional=1,
        producer_id=123456,
        producer_epoch=12,
        base_sequence=9999,
        batch_size=1 << 20,
    )
    for number in range(10):
        builder.append(number, timestamp=9999999 + number, key=b"k", value=b"v", headers=[])
    data = bytes(builder.build())
    header = parse_header(data)
    assert header.size_bytes == len(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (0, 9, 10, 10)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (9999999, 10000008)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (123456, 12, 9999)
    assert header.compression is Compression.GZIP
    assert header.attributes == TRANSACTIONAL_FLAG | Compression.GZIP


def test_codec_that_kafka_has_not_defined_has_no_name() -> None:
    header = BatchHeader(
        base_offset=0,
        length_bytes=49,
        leader_epoch=0,
        attributes=7,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        record_count=0,
    )
    assert header.compression_id == 7
    with pytest.raises(ValueError):
        _ = header.compression


def test_header_that_is_cut_is_not_read() -> None:
    with pytest.raises(struct.error):
        parse_header(bytes(60))
