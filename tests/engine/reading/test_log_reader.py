"""Reading by offset: every record once, in order, as it was, from any offset, over gaps and files."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt, Invalid, Unavailable
from engine.kafka_log.compression import Compression
from engine.kafka_log.record_batch import CONTROL_FLAG, parse_header
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from tests.engine.offset_table import FileShape, OffsetTable, records_of
from tests.engine.reading.client_reads import as_a_client_reads, check_batches, plain, read


@pytest.fixture
def reader() -> Iterator[LogReader]:
    index = FileIndex()
    found = LogReader(file_index=index)
    yield found
    found.close()
    index.close()


_text = st.text(max_size=4).map(str.encode)


@st.composite
def stored_ranges(draw: st.DrawFn) -> list[tuple[OffsetRange, Records]]:
    """Adjacent ranges, each a file of its own (or empty), with gaps, epochs, headers, tombstones, keys not UTF-8."""
    at = draw(st.integers(0, 1 << 40))
    ranges = []
    epoch = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 3))):
        gaps = draw(st.lists(st.sampled_from((1, 1, 1, 2, 5, 100)), max_size=60))
        start, offsets = at, []
        at += draw(st.integers(0, 3))
        for gap in gaps:
            offsets.append(at)
            at += gap
        at += draw(st.integers(0 if offsets else 1, 4))
        changes = draw(st.integers(1, 80))
        seed = draw(st.integers(0, 5))

        def headers(offset: int, seed: int = seed) -> list[tuple[bytes, bytes | None]]:
            return [(b"h%d" % n, None if n % 2 else b"%d" % offset) for n in range((offset + seed) % 4)] * (seed > 2)

        def epoch_of(offset: int, start: int = start, epoch: int = epoch, changes: int = changes) -> int:
            return epoch + (offset - start) // changes

        ranges.append(
            (
                OffsetRange(start=start, end=at),
                records_of(
                    offsets,
                    value=lambda offset: None if offset % 7 == 0 else b"\xff" * (offset % 3) + b"%d" % offset,
                    key=lambda offset: (None, b"", b"\xfe\xff", b"key")[offset % 4],
                    timestamp_ms=lambda offset, seed=seed: 1_700_000_000_000 + offset * 37 % (50 + seed * 1000),
                    headers=headers,
                    leader_epoch=epoch_of,
                ),
            )
        )
        epoch = epoch_of(at)
    return ranges


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    ranges=stored_ranges(),
    shape=st.sampled_from(
        [
            FileShape(row_group_rows=16, page_rows=4),
            FileShape(row_group_rows=1000, page_rows=8),
            FileShape(row_group_rows=8, page_rows=1000),
            FileShape(row_group_rows=16, page_rows=4, writer_options={"write_page_index": False}),
            FileShape(row_group_rows=8, page_rows=2, window_rows=32),
            FileShape(row_group_rows=7, page_rows=3, window_rows=23),
            FileShape(row_group_rows=5, page_rows=2, window_rows=1000),
            FileShape(row_group_rows=16, page_rows=4, window_rows=40, writer_options={"write_page_index": False}),
        ]
    ),
    where=st.floats(0, 1),
    compression=st.sampled_from(Compression),
)
def test_records_read_from_any_offset_are_those_stored(
    ranges: list[tuple[OffsetRange, Records]], shape: FileShape, where: float, compression: Compression
) -> None:
    with TemporaryDirectory() as folder:
        table = OffsetTable(Path(folder))
        for range_, records in ranges:
            table.add(range_, records, shape=shape)
        wanted = OffsetRange(start=ranges[0][0].start, end=ranges[-1][0].end)
        start = wanted.start + int(where * (wanted.offset_count - 1))
        expected = [record for _, records in ranges for record in plain(records)]
        index = FileIndex()
        reader = LogReader(file_index=index)
        try:
            batches = read(reader, table, wanted, start, compression=compression)
            check_batches(batches, [record for record in expected if record.offset >= start], wanted)
            found = [record for part in reader.records(table.view, 0, wanted) for record in plain(part)]
            assert found == expected
        finally:
            reader.close()
            index.close()


@pytest.mark.parametrize("window_rows", [None, 3000, 100_000])
def test_fetches_one_after_another_see_every_record_once(
    reader: LogReader, tmp_path: Path, window_rows: int | None
) -> None:
    """As the broker does it: position from the index, skip batches below the offset, go on behind the last batch."""
    table = OffsetTable(tmp_path)
    shape = FileShape(row_group_rows=4096 if window_rows is None else 500, page_rows=256, window_rows=window_rows)
    table.add(OffsetRange(start=5, end=9000), records_of(range(5, 9000), value=lambda o: b"x" * (o % 500)), shape=shape)
    table.add(OffsetRange(start=9000, end=9900), records_of(range(9100, 9800, 3)), shape=shape)
    wanted = OffsetRange(start=5, end=9900)
    grid = reader.offset_grid(table.view, 0, wanted).tolist()
    assert grid == sorted(set(grid))
    assert len(grid) > 10
    at, seen, off_grid = wanted.start, [], 0
    while at < wanted.end:
        entry = bisect.bisect_right(grid, at - wanted.start)
        position = grid[entry - 1] if entry else 0
        batches = read(reader, table, wanted, wanted.start + position, max_bytes=100_000)
        headers = [parse_header(bytes(batch)) for batch in batches]
        kept = [batch for batch, header in zip(batches, headers, strict=True) if header.next_offset > at]
        off_grid += sum(header.next_offset <= at and header.record_count > 0 for header in headers)
        seen += [record.offset for record in as_a_client_reads(kept) if record.offset >= at]
        at = headers[-1].next_offset
    assert seen == [*range(5, 9000), *range(9100, 9800, 3)]
    # But where a fetch happens to end with a block, whose end is on no grid.
    assert off_grid <= (0 if window_rows is None else 3), (
        "what a sequential reader is sent never lies before its offset"
    )


@pytest.mark.parametrize("seed", range(5))
def test_readers_of_blocks_that_others_had_decoded_see_every_record_once(
    reader: LogReader, tmp_path: Path, seed: int
) -> None:
    """Blocks begin where their reader did and grow as it goes on, so those of two readers overlap."""
    table, chance = OffsetTable(tmp_path), random.Random(seed)
    wanted = OffsetRange(start=0, end=20_000)
    table.add(
        wanted,
        records_of(range(20_000), value=lambda _: b"x" * 100),
        shape=FileShape(row_group_rows=10_000, page_rows=128),
    )
    for _ in range(12):
        start, budget = chance.choice((0, chance.randrange(20_000))), chance.choice((1_000, 50_000, 200_000, None))
        seen = [record.offset for record in as_a_client_reads(read(reader, table, wanted, start, max_bytes=budget))]
        assert seen == [*range(start, seen[-1] + 1)]
        assert budget is not None or seen[-1] == wanted.end - 1


def test_grid_entries_are_16_to_64_kib_apart(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=20_000)
    table.add(
        wanted,
        records_of(range(20_000), value=lambda _: b"v" * 200),
        shape=FileShape(row_group_rows=8192, page_rows=512),
    )
    batches = read(reader, table, wanted, 0)
    sizes = [len(batch) for batch in batches[1:-1]]
    assert min(sizes) >= 16 << 10
    assert max(sizes) <= 64 << 10


def test_grid_is_the_same_for_a_new_process(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=7, end=5007)
    table.add(wanted, records_of(range(7, 5007), value=lambda o: b"v" * (o % 300)))
    grids = []
    for _ in range(2):
        grids.append(LogReader(file_index=FileIndex()).offset_grid(table.view, 0, wanted).tolist())
    assert grids[0] == grids[1] != []


def covered_by(batches: Sequence[memoryview]) -> list[tuple[int, int, int, bool]]:
    """(base offset, next offset, records, is control batch) of each."""
    headers = [parse_header(batch) for batch in batches]
    return [(h.base_offset, h.next_offset, h.record_count, bool(h.attributes & CONTROL_FLAG)) for h in headers]


def test_gap_is_covered_by_the_batch_after_it_and_the_last_one_by_a_control_batch(
    reader: LogReader, tmp_path: Path
) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=2000)
    table.add(OffsetRange(start=0, end=1000), records_of(range(100, 120)))
    table.add(OffsetRange(start=1000, end=2000), records_of([1500]))
    after = [(120, 1501, 1, False), (1501, 2000, 1, True)]
    assert covered_by(read(reader, table, wanted, 0)) == [(0, 120, 20, False), *after]
    assert covered_by(read(reader, table, wanted, 50)) == [(50, 120, 20, False), *after]
    assert covered_by(read(reader, table, wanted, 110)) == [(110, 120, 10, False), *after]
    assert covered_by(read(reader, table, wanted, 700)) == [(700, 1501, 1, False), (1501, 2000, 1, True)]
    assert covered_by(read(reader, table, wanted, 1700)) == [(1700, 2000, 1, True)]


def test_range_without_a_record_is_one_control_batch(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=10, end=50)
    table.add(wanted, records_of([]))
    batches = read(reader, table, wanted, 10)
    assert as_a_client_reads(batches) == []
    assert covered_by(batches) == [(10, 50, 1, True)]
    assert len(reader.offset_grid(table.view, 0, wanted)) == 0
    assert len(reader.time_index(table.view, 0, wanted)[0]) == 0


def test_first_batch_larger_than_the_budget_is_given_whole(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=3)
    table.add(wanted, records_of(range(3), value=lambda _: b"v" * 300_000))
    (batch,) = read(reader, table, wanted, 1, max_bytes=1000)
    assert [record.offset for record in as_a_client_reads([batch])] == [1]


def test_segment_inside_a_file_is_read_alone(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=1000), records_of(range(1000)))
    wanted = OffsetRange(start=300, end=700)
    batches = read(reader, table, wanted, 300)
    assert [record.offset for record in as_a_client_reads(batches)] == list(range(300, 700))
    assert parse_header(bytes(batches[-1])).next_offset == 700


def test_range_beyond_the_ledger_is_unavailable(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    with pytest.raises(Unavailable, match=r"\[0, 10\)"):
        read(reader, table, OffsetRange(start=0, end=11), 0)
    with pytest.raises(Unavailable):
        list(reader.read(table.view, 1, offsets=OffsetRange(start=0, end=5), start=0))


def test_start_outside_the_range_is_invalid(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    with pytest.raises(Invalid):
        read(reader, table, OffsetRange(start=2, end=10), 1)


def test_covered_offsets_that_no_file_holds_are_corrupt(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    table.add(OffsetRange(start=10, end=20), records_of([]))
    table.view = replace(table.view, empty={})
    with pytest.raises(Corrupt, match="offset 10"):
        read(reader, table, OffsetRange(start=0, end=20), 0)


def test_offsets_below_the_log_start_may_be_gone(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(OffsetRange(start=0, end=10), records_of([]))
    table.add(OffsetRange(start=10, end=20), records_of(range(10, 20)))
    ledger = {0: replace(table.view.ledger[0], log_start=10)}
    table.view = replace(table.view, empty={}, ledger=ledger)
    batches = read(reader, table, OffsetRange(start=0, end=20), 12)
    assert [record.offset for record in as_a_client_reads(batches)] == list(range(12, 20))


def test_missing_file_is_named(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    path = table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    assert path is not None
    path.unlink()
    with pytest.raises(Corrupt, match=path.name):
        read(reader, table, OffsetRange(start=0, end=10), 0)


def test_file_swapped_for_another_of_the_same_size_is_named(reader: LogReader, tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    first = table.add(OffsetRange(start=0, end=10), records_of(range(10)))
    second = table.add(OffsetRange(start=10, end=20), records_of(range(10, 20)))
    assert first is not None
    assert second is not None
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(Corrupt, match=r"footer says|has \d+ bytes"):
        read(reader, table, OffsetRange(start=0, end=20), 0)


def test_flipped_byte_anywhere_never_gives_a_wrong_record(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=64)
    records = records_of(range(64), value=lambda o: b"value %d" % (o * 7919))
    path = table.add(wanted, records, shape=FileShape(row_group_rows=32, page_rows=8))
    assert path is not None
    content, expected = path.read_bytes(), plain(records)
    refused = tried = 0
    for at in range(4, len(content), 23):
        tried += 1
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        index = FileIndex()
        reader = LogReader(file_index=index)
        try:
            check_batches(read(reader, table, wanted, 0), expected, wanted)
        except Corrupt:
            refused += 1
        finally:
            reader.close()
            index.close()
    assert refused > tried / 4, "page data must be covered by checksums"
