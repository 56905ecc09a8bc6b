from __future__ import annotations

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import Headers
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_strategy


def canonical(row: Row) -> bytes:
    """The canonical form in plain Python, as engine/records/digest.py states it."""

    def span(value: bytes | None) -> bytes:
        return struct.pack("<i", -1) if value is None else struct.pack("<i", len(value)) + value

    fixed = struct.pack("<qqBi", row.offset, row.timestamp_ms, row.timestamp_type, row.leader_epoch)
    headers = b"".join(span(key) + span(value) for key, value in row.headers)
    return fixed + span(row.key) + span(row.value) + struct.pack("<i", len(row.headers)) + headers


def expected(rows: list[Row]) -> RangeDigest:
    data = b"".join(map(canonical, rows))
    return RangeDigest(crc32c=crc32c.crc32c(data), length_bytes=len(data), record_count=len(rows))


@pytest.mark.kernels
@given(rows=rows_strategy())
@settings(max_examples=150, deadline=None)
def test_digest_is_the_crc_of_the_canonical_forms(rows: list[Row]) -> None:
    assert digest_of(records_from(rows)) == expected(rows)


@pytest.mark.kernels
@given(rows=rows_strategy(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_digests_of_adjacent_ranges_combine(rows: list[Row], data: st.DataObject) -> None:
    records = records_from(rows)
    at = data.draw(st.integers(0, len(rows)))
    assert digest_of(records.slice(0, at)).then(digest_of(records.slice(at, len(rows)))) == digest_of(records)


@pytest.mark.kernels
def test_records_larger_than_the_scratch_are_digested() -> None:
    rows = [Row(offset=0, value=b"a"), Row(offset=1, value=bytes(3_000_000)), Row(offset=2, key=b"k" * 300_000)]
    rows += [Row(offset=3 + n, value=b"v" * n, headers=((b"h", b"x" * n), (b"", None))) for n in range(1000)]
    assert digest_of(records_from(rows)) == expected(rows)


@pytest.mark.kernels
def test_span_outside_its_buffer_raises_and_reads_nothing() -> None:
    records = records_from([Row(offset=0, value=b"abc")])
    records.value.length[0] = 4
    with pytest.raises(IndexError):
        digest_of(records)
    records.value.length[0] = 1
    records.value.start[0] = -1
    with pytest.raises(IndexError):
        digest_of(records)


@pytest.mark.parametrize(
    "changed",
    [
        Row(offset=2, timestamp_ms=5, value=b"v"),
        Row(offset=1, timestamp_ms=6, value=b"v"),
        Row(offset=1, timestamp_ms=5, value=b"v", timestamp_type=1),
        Row(offset=1, timestamp_ms=5, value=b"v", leader_epoch=1),
        Row(offset=1, timestamp_ms=5, value=b"v", key=b""),
        Row(offset=1, timestamp_ms=5, value=None),
        Row(offset=1, timestamp_ms=5, value=b""),
        Row(offset=1, timestamp_ms=5, value=b"", key=b"v"),
        Row(offset=1, timestamp_ms=5, value=b"v", headers=((b"", None),)),
    ],
)
def test_every_field_of_a_record_changes_the_digest(changed: Row) -> None:
    assert digest_of(records_from([changed])) != digest_of(records_from([Row(offset=1, timestamp_ms=5, value=b"v")]))


def test_records_with_and_without_a_header_array_agree() -> None:
    records = records_from([Row(offset=0, value=b"v")])
    with_headers = type(records)(
        **{name: getattr(records, name) for name in ("offset", "timestamp_ms", "timestamp_type", "leader_epoch")},
        key=records.key,
        value=records.value,
        headers=Headers.from_lists([[]]),
    )
    assert digest_of(records) == digest_of(with_headers)


def digest_of_bytes(data: bytes) -> RangeDigest:
    return RangeDigest(crc32c=crc32c.crc32c(data), length_bytes=len(data), record_count=1)


@pytest.mark.kernels
@given(first=st.binary(max_size=300), second=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_digests_combine_as_if_the_bytes_were_joined(first: bytes, second: bytes) -> None:
    combined = digest_of_bytes(first).then(digest_of_bytes(second))
    assert combined.crc32c == crc32c.crc32c(first + second)
    assert (combined.length_bytes, combined.record_count) == (len(first + second), 2)


def test_digests_of_terabytes_combine() -> None:
    megabyte = digest = digest_of_bytes(bytes(1 << 20))
    for _ in range(20):
        digest = digest.then(digest)
    assert megabyte.then(megabyte).crc32c == crc32c.crc32c(bytes(2 << 20))
    assert digest.length_bytes == 1 << 40
    assert EMPTY_DIGEST.then(digest).crc32c == digest.crc32c


def test_empty_digest_changes_nothing() -> None:
    digest = digest_of(records_from([Row(offset=0, value=b"v")]))
    assert EMPTY_DIGEST.then(digest) == digest
    assert digest.then(EMPTY_DIGEST) == digest
    assert digest_of(records_from([Row(offset=0)]).slice(0, 0)) == EMPTY_DIGEST


@given(
    st.builds(
        RangeDigest,
        crc32c=st.integers(0, 2**32 - 1),
        length_bytes=st.integers(0, 2**50),
        record_count=st.integers(0, 2**40),
    )
)
@settings(max_examples=50, deadline=None)
def test_text_is_read_as_written(digest: RangeDigest) -> None:
    assert RangeDigest.from_text(digest.to_text()) == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1:2:3",
        "0000000g:1:2",
        "00000000:1",
        "00000000:-1:2",
        "00000000:01:2",
        "0000000A:1:2",
        " 00000000:1:2",
        "00000000:1:2\n",
        "00000000:\N{ARABIC-INDIC DIGIT ONE}:2",
    ],
)
def test_text_that_is_no_digest_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="crc:length:count"):
        RangeDigest.from_text(text)
