from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import HealthCheck, given, settings

from engine.errors import Corrupt, Unavailable
from engine.kafka_log import record_block
from engine.kafka_log.batch_writer import encode_batches
from engine.kafka_log.compression import Compression, Compressor
from engine.kafka_log.segment import AbortedTransaction, segment_file_name
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.records.records import Records
from engine.topic_partition import TopicIdPartition
from tests.engine.kafka_log import batch_twin as twin
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_of, rows_strategy
from tests.support.counted_reads import bytes_read

PARTITION = TopicIdPartition(topic="orders", topic_id="A" * 22, partition=3)
EVERYTHING = OffsetRange(start=0, end=2**62)
FIRST_FIVE = OffsetRange(start=0, end=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / segment_file_name(0)


def blocks_of(
    path: Path,
    data: bytes,
    *,
    within: OffsetRange = EVERYTHING,
    aborted: Sequence[AbortedTransaction] = (),
    closed: bool = True,
    block_bytes: int = 1 << 20,
    position: int = 0,
) -> list[Records]:
    path.write_bytes(data)
    found = read_segment(
        path,
        partition=PARTITION,
        offsets=within,
        aborted=aborted,
        closed=closed,
        block_bytes=block_bytes,
        position=position,
    )
    return list(found)


def rows_in(path: Path, data: bytes, **options: object) -> list[Row]:
    return rows_of(blocks_of(path, data, **options))  # type: ignore[arg-type]


def rows(start: int, count: int, **fields: object) -> list[Row]:
    return [Row(offset=start + n, value=b"v%d" % (start + n), **fields) for n in range(count)]  # type: ignore[arg-type]


def by_aiokafka(rows: Sequence[Row], compression: int, transactional: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=transactional,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    base = rows[0].offset
    for row in rows:
        headers = [(key.decode(), value) for key, value in row.headers]
        assert builder.append(
            row.offset - base, timestamp=row.timestamp_ms, key=row.key, value=row.value, headers=headers
        )
    built = bytes(builder.build())
    return struct.pack(">q", base) + built[8:12] + bytes(4) + built[16:]


@pytest.mark.parametrize("compression", Compression)
@given(rows=rows_strategy(epochs=False, time_types=False))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_of_aiokafka_are_read_with_every_codec(
    compression: Compression, rows: list[Row], tmp_path: Path
) -> None:
    base = rows[0].offset
    # aiokafka takes header keys as text and knows no timestamp before 1970.
    inside = [
        replace(
            row,
            timestamp_ms=abs(row.timestamp_ms) % 2**62,
            headers=tuple((key.decode("latin-1").encode(), value) for key, value in row.headers),
        )
        for row in rows
        if row.offset - base < 2**31
    ]
    assert rows_in(tmp_path / "x.log", by_aiokafka(inside, compression)) == inside


def test_blocks_are_of_whole_batches_and_of_about_the_size_asked_for(path: Path) -> None:
    batches = [rows(base, 100) for base in range(0, 5000, 100)]
    data = b"".join(map(twin.batch, batches))
    blocks = blocks_of(path, data, block_bytes=4000)
    assert rows_of(blocks) == [row for part in batches for row in part]
    assert len(blocks) > 10
    assert all(len(block) % 100 == 0 for block in blocks)


def test_blocks_stay_valid_after_the_next_was_asked_for(path: Path) -> None:
    path.write_bytes(b"".join(twin.batch(rows(base, 50)) for base in range(0, 2000, 50)))
    reader = read_segment(path, partition=PARTITION, offsets=EVERYTHING, aborted=(), block_bytes=1000)
    first = next(reader)
    before = rows_of([first])
    list(reader)
    assert rows_of([first]) == before


def test_windows_smaller_than_the_file_lose_no_batch(path: Path) -> None:
    big = [Row(offset=n, value=os.urandom(400_000)) for n in range(20)]
    data = b"".join(twin.batch([row]) for row in big)
    assert len(data) > 7 << 20
    assert rows_in(path, data, block_bytes=1 << 20) == big


def test_records_of_one_byte_and_of_20_mb_are_read(path: Path) -> None:
    large = [Row(offset=0, value=b"x"), Row(offset=1, value=os.urandom(20_000_000), key=b""), Row(offset=2, value=b"y")]
    plain = b"".join(twin.batch([row]) for row in large)
    assert rows_in(path, plain) == large
    for compression in (Compression.ZSTD, Compression.LZ4, Compression.SNAPPY, Compression.GZIP):
        batches = encode_batches(records_from(large), compression=compression)
        assert rows_in(path, b"".join(batches)) == large


def test_batch_of_a_hundred_thousand_records_is_read(path: Path) -> None:
    many = rows(0, 100_000)
    blocks = blocks_of(path, twin.batch(many), block_bytes=1 << 14)
    assert [len(block) for block in blocks] == [100_000]
    assert rows_of(blocks)[::9973] == many[::9973]


def test_log_append_time_is_the_batchs_maximum_for_every_record(path: Path) -> None:
    part = [Row(offset=n, timestamp_ms=1000 + n, timestamp_type=1) for n in range(3)]
    found = rows_in(path, twin.batch(part, max_timestamp_ms=5_000))
    assert [(row.timestamp_ms, row.timestamp_type) for row in found] == [(5_000, 1)] * 3


def test_delete_horizon_in_the_base_timestamp_is_only_what_deltas_start_from(path: Path) -> None:
    part = rows(0, 3, timestamp_ms=1_000)
    assert rows_in(path, twin.batch(part, attributes=0x40, base_timestamp_ms=1_900_000_000_000)) == part


def test_control_and_empty_batches_are_dropped(path: Path) -> None:
    marker = Row(offset=3, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")
    data = twin.batch(rows(0, 3)) + twin.batch([marker], attributes=0x30, producer_id=9)
    data += twin.batch([], base_offset=4, last_offset=8) + twin.batch(rows(9, 2))
    assert [row.offset for row in rows_in(path, data)] == [0, 1, 2, 9, 10]


def test_only_the_aborted_transactions_of_the_same_producer_are_dropped(path: Path) -> None:
    def transactional(start: int, producer_id: int) -> bytes:
        return twin.batch(rows(start, 2), attributes=0x10, producer_id=producer_id)

    data = transactional(0, 7) + transactional(2, 8) + transactional(4, 7) + twin.batch(rows(6, 2), producer_id=7)
    data += transactional(8, 7) + transactional(10, 7)
    aborted = [
        AbortedTransaction(producer_id=7, first_offset=10, last_offset=15, last_stable_offset=16),
        AbortedTransaction(producer_id=7, first_offset=0, last_offset=7, last_stable_offset=8),
        AbortedTransaction(producer_id=9, first_offset=0, last_offset=99, last_stable_offset=99),
    ]
    assert [row.offset for row in rows_in(path, data, aborted=aborted)] == [2, 3, 6, 7, 8, 9]


def test_only_offsets_of_the_range_are_returned_and_blocks_without_any_are_not(path: Path) -> None:
    data = b"".join(twin.batch(rows(base, 10)) for base in range(0, 100, 10))
    found = rows_in(path, data, within=OffsetRange(start=15, end=42))
    assert [row.offset for row in found] == list(range(15, 42))
    assert blocks_of(path, data, within=OffsetRange(start=100, end=200)) == []
    assert blocks_of(path, data, within=OffsetRange(start=5, end=5)) == []


def test_compacted_batch_keeps_its_gaps(path: Path) -> None:
    kept = [Row(offset=12), Row(offset=17), Row(offset=18)]
    assert rows_in(path, twin.batch(kept, base_offset=10, last_offset=19)) == kept


def test_empty_segment_has_no_blocks(path: Path) -> None:
    assert blocks_of(path, b"") == []


def test_bytes_past_the_range_are_not_looked_at(path: Path) -> None:
    data = twin.batch(rows(0, 5)) + b"not written yet" * 10
    assert len(rows_in(path, data, within=OffsetRange(start=0, end=5), closed=False)) == 5


@pytest.mark.parametrize("cut_at", [1, 16, 17, 60, 61, 70, -1])
def test_truncated_trailing_batch_is_left_for_the_next_cycle(path: Path, cut_at: int) -> None:
    data = twin.batch(rows(0, 5)) + twin.batch(rows(5, 5))[:cut_at]
    assert [row.offset for row in rows_in(path, data, within=FIRST_FIVE, closed=False)] == list(range(5))
    with pytest.raises(Corrupt, match="ends at offset 5, the broker says that it is stable up to 6") as caught:
        blocks_of(path, data, within=OffsetRange(start=0, end=6), closed=False)
    assert (caught.value.offset, caught.value.file) == (5, str(path))


def test_reading_begins_after_the_batch_that_the_position_names(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [twin.batch(rows(base, 10)) for base in range(0, 40_000, 10)]
    position, wanted = sum(map(len, batches[:-3])), OffsetRange(start=39_985, end=39_995)
    read = bytes_read(monkeypatch)
    for closed in (True, False):
        read.clear()
        found = rows_in(path, b"".join(batches), within=wanted, position=position, closed=closed)
        assert [row.offset for row in found] == list(range(39_985, 39_995))
        assert sum(read) <= sum(map(len, batches[-3:])) + len(batches[-3])


@pytest.mark.parametrize("position", [1, 61, -1, 10**6, 2**31 - 1])
def test_position_at_which_no_batch_begins_is_not_believed(path: Path, position: int) -> None:
    data = b"".join(twin.batch(rows(base, 10)) for base in range(0, 100, 10))
    found = rows_in(path, data, within=OffsetRange(start=55, end=75), position=position)
    assert [row.offset for row in found] == list(range(55, 75))


@pytest.mark.parametrize(
    "damaged",
    [
        twin.batch(rows(50, 10)),  # reaches into the range
        twin.batch(rows(40, 10), crc=1),
        twin.batch(rows(40, 10), magic=1),
        twin.batch(rows(40, 10))[:-1],
        twin.batch(rows(40, 10), last_offset=39),
    ],
)
def test_batch_at_a_position_is_whole_and_right_and_ends_before_the_range(path: Path, damaged: bytes) -> None:
    """It is read from the start instead, and what is wrong is found where it was found without a position."""
    position = len(twin.batch(rows(0, 10)))
    data = twin.batch(rows(0, 10)) + damaged
    wanted = OffsetRange(start=55, end=75)
    outcomes = []
    for hint in (position, 0):
        try:
            outcomes.append(str(rows_in(path, data, within=wanted, position=hint)))
        except Corrupt as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("cut_at", [1, 16, 17, 60, 61, 70, -1])
def test_truncated_batch_in_a_closed_segment_is_corrupt(path: Path, cut_at: int) -> None:
    data = twin.batch(rows(0, 5)) + twin.batch(rows(5, 5))[:cut_at]
    with pytest.raises(Corrupt, match="ends inside a batch") as caught:
        blocks_of(path, data)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 5)
    assert caught.value.file == str(path)


def test_preallocated_zeros_end_an_open_segment_and_are_corrupt_in_a_closed_one(path: Path) -> None:
    data = twin.batch(rows(0, 5)) + bytes(4096)
    assert len(rows_in(path, data, within=FIRST_FIVE, closed=False)) == 5
    with pytest.raises(Corrupt, match="zeros"):
        blocks_of(path, data)


def test_wrong_crc_names_the_batch(path: Path) -> None:
    data = twin.batch(rows(0, 5)) + twin.batch(rows(5, 5), crc=1)
    with pytest.raises(Corrupt, match="CRC") as caught:
        blocks_of(path, data)
    assert caught.value.offset == 5


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_with_the_segments_name(path: Path, magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(7, timestamp=1, key=b"k", value=b"v" * 50)
    with pytest.raises(Corrupt, match=f"message format v{magic}") as caught:
        blocks_of(path, bytes(builder.build()))
    assert caught.value.file == str(path)
    assert "retention" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (twin.batch(rows(0, 2), magic=3), "magic 3"),
        (twin.batch(rows(0, 2), compression=5), "codec 5"),
        (twin.batch(rows(0, 9), record_count=10), "fewer records"),
        (twin.batch(rows(0, 2), record_count=1), "bytes are left"),
        (twin.batch(rows(0, 2), record_count=-1), "claims -1 records"),
        (twin.batch(rows(0, 2), record_count=0), "claims 0 records"),
        (twin.batch(rows(0, 2), record_count=2**31 - 1), "claims 2147483647 records"),
        (twin.batch(rows(0, 2), last_offset=0), "offset is outside"),
        (twin.batch([Row(offset=4), Row(offset=4)]), "offset is outside"),
        (twin.batch([Row(offset=4), Row(offset=3)], last_offset=9), "offset is outside"),
        (twin.batch(rows(5, 2)) + twin.batch(rows(6, 2)), "follows offset 6"),
        (twin.batch(rows(5, 2), last_offset=4), "covers offsets 5 to 4"),
        (twin.batch(rows(0, 2), body=b"\0" * 40, compression=4), "does not decompress"),
        (twin.batch(rows(0, 2), body=b"\x70" + bytes(40)), "goes past the end of its batch"),
        (twin.batch(rows(0, 2), body=b"\xff" * 40), "variable-length"),
        (twin.batch([Row(offset=0, headers=((b"k", b"v"),))]).replace(b"\x02k\x02v", b"\x02k\x04v"), "CRC"),
        (twin.batch(rows(2**31 + 5, 2)), "too far away"),
    ],
    ids=itertools.count(),
)
def test_lies_are_named(path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(Corrupt, match=problem) as caught:
        blocks_of(path, data)
    assert caught.value.partition == 3


def test_bad_headers_name_the_batch_they_are_in(path: Path) -> None:
    good, bad = rows(0, 3, headers=((b"a", b"b"),)), [Row(offset=3, headers=((b"k", b"v"),))]
    body = twin.record_bytes(bad[0], 3, 0).replace(b"\x02k\x02v", b"\x02k\x04v")
    with pytest.raises(Corrupt, match="headers") as caught:
        blocks_of(path, twin.batch(good) + twin.batch(bad, body=body))
    assert caught.value.offset == 3


def test_first_batch_below_the_segments_base_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="follows offset 99"):
        blocks_of(tmp_path / segment_file_name(100), twin.batch(rows(36, 2)), within=OffsetRange(start=100, end=200))


def test_base_offset_that_jumps_past_the_range_is_seen_by_the_batch_behind_it(path: Path) -> None:
    data = twin.batch(rows(0, 5)) + twin.batch(rows(5 + 2**20, 5)) + twin.batch(rows(10, 5))
    with pytest.raises(Corrupt, match="covers offsets 10 to 14"):
        blocks_of(path, data, within=OffsetRange(start=0, end=15))


def test_decompression_bomb_is_refused_at_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_block, "MAX_BATCH_BYTES", 1 << 20)
    bomb = Compressor(Compression.ZSTD).compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(Corrupt, match="more than Kafka can count"):
        blocks_of(path, twin.batch(rows(0, 1), body=bomb, compression=4), block_bytes=1 << 14)


def test_missing_file_is_unavailable(tmp_path: Path) -> None:
    gone = tmp_path / segment_file_name(0)
    with pytest.raises(Unavailable) as caught:
        list(read_segment(gone, partition=PARTITION, offsets=EVERYTHING, aborted=()))
    assert caught.value.file == str(gone)


def test_digest_does_not_depend_on_blocks_or_codec(path: Path) -> None:
    many = [Row(offset=n, timestamp_ms=n, key=b"k%d" % n, value=b"v" * n, headers=((b"h", None),)) for n in range(400)]
    whole = digest_of(records_from(many))
    for compression in Compression:
        data = b"".join(encode_batches(records_from(many), target_bytes=2000, compression=compression))
        found = EMPTY_DIGEST
        for block in blocks_of(path, data, block_bytes=5000):
            found = found.then(digest_of(block))
        assert found == whole
