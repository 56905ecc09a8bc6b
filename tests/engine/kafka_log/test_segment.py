from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt, Unavailable
from engine.kafka_log.segment import (
    AbortedBatches,
    AbortedTransaction,
    aborted_in,
    base_offset_in,
    format_transaction_index,
    list_segments,
    list_transaction_indexes,
    read_transaction_index,
    segment_file_name,
)
from engine.offset_range import OffsetRange


def test_only_live_segments_are_listed_by_rising_base_offset(tmp_path: Path) -> None:
    for base in (700, 0, 5):
        (tmp_path / segment_file_name(base)).write_bytes(b"x" * base)
    stem = f"{9:020d}"
    others = [f"{stem}.log.deleted", f"{stem}.log.cleaned", f"{stem}.log.swap", f"{stem}.index", f"{stem}.timeindex"]
    others += [
        f"{stem}.txnindex",
        f"{stem}.snapshot",
        "9.log",
        "partition.metadata",
        "leader-epoch-checkpoint",
        "x.log",
    ]
    for name in others:
        (tmp_path / name).touch()
    segments = list_segments(tmp_path)
    assert [(segment.base_offset, segment.size_bytes) for segment in segments] == [(0, 0), (5, 5), (700, 700)]
    assert segments[1].modified_ms == segments[1].log_path.stat().st_mtime_ns // 1_000_000


def test_transaction_index_beside_a_segment_has_its_name(tmp_path: Path) -> None:
    (tmp_path / segment_file_name(17)).touch()
    (segment,) = list_segments(tmp_path)
    assert segment.transaction_index_path == tmp_path / "00000000000000000017.txnindex"


def test_file_that_vanishes_meanwhile_is_left_out(tmp_path: Path) -> None:
    (tmp_path / segment_file_name(0)).touch()
    # A dangling link is listed and has no status, as a file that was deleted in between.
    (tmp_path / segment_file_name(5)).symlink_to(tmp_path / "gone")
    assert [segment.base_offset for segment in list_segments(tmp_path)] == [0]


def test_directory_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        list_segments(tmp_path / "gone")


def test_names_state_their_base_offset() -> None:
    assert base_offset_in(Path("/x") / segment_file_name(123)) == 123
    assert base_offset_in(Path(f"{1:020d}-{9:020d}.log")) is None


_OFFSETS = st.integers(0, 2**63 - 1)


@st.composite
def aborted(draw: st.DrawFn) -> AbortedTransaction:
    first, last = sorted((draw(_OFFSETS), draw(_OFFSETS)))
    return AbortedTransaction(
        producer_id=draw(_OFFSETS), first_offset=first, last_offset=last, last_stable_offset=draw(_OFFSETS)
    )


def test_transaction_indexes_of_a_segment_and_later_ones_are_listed(tmp_path: Path) -> None:
    for name in (0, 10, 20):
        (tmp_path / f"{name:020d}.txnindex").touch()
        (tmp_path / f"{name:020d}.txnindex.deleted").touch()
        (tmp_path / f"{name:020d}.log").touch()
    found = list_transaction_indexes(tmp_path, base_offset=10)
    assert [path.name for path in found] == [f"{10:020d}.txnindex", f"{20:020d}.txnindex"]
    with pytest.raises(Unavailable):
        list_transaction_indexes(tmp_path / "gone", base_offset=0)


def transaction(first: int, last: int, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=last + 1
    )


@given(entries=st.lists(aborted(), max_size=5), cut=st.integers(0, 33))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_entries_are_read_as_written_and_a_cut_one_is_left_out(
    entries: list[AbortedTransaction], cut: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.txnindex"
    path.write_bytes(format_transaction_index(entries) + bytes(cut))
    assert read_transaction_index(path) == tuple(entries)


def test_entry_has_the_bytes_kafka_writes() -> None:
    entry = AbortedTransaction(producer_id=1, first_offset=2, last_offset=3, last_stable_offset=4)
    assert format_transaction_index([entry]).hex() == "0000" + "".join(f"{n:016x}" for n in (1, 2, 3, 4))


def test_missing_index_is_empty_and_an_unreadable_one_unavailable(tmp_path: Path) -> None:
    assert read_transaction_index(tmp_path / "x.txnindex") == ()
    with pytest.raises(Unavailable):
        read_transaction_index(tmp_path)


@pytest.mark.parametrize("entry", [(1, 7, 0, 5, 6), (0, 7, 5, 4, 6), (0, 7, -1, 4, 6)])
def test_unknown_version_and_impossible_offsets_are_corrupt(tmp_path: Path, entry: tuple[int, ...]) -> None:
    path = tmp_path / "x.txnindex"
    path.write_bytes(struct.pack(">hqqqq", *entry))
    with pytest.raises(Corrupt) as caught:
        read_transaction_index(path)
    assert caught.value.file == str(path)


def test_transactions_that_touch_the_range_are_chosen_once() -> None:
    entries = [transaction(20, 29), transaction(0, 9), transaction(10, 19, producer_id=2), transaction(0, 9)]
    assert aborted_in(entries, OffsetRange(start=9, end=20)) == (transaction(0, 9), transaction(10, 19, producer_id=2))
    assert aborted_in(entries, OffsetRange(start=30, end=99)) == ()


def test_batches_between_first_and_last_offset_are_aborted() -> None:
    batches = AbortedBatches([transaction(20, 29), transaction(5, 9), transaction(0, 99, producer_id=2)])
    assert [offset for offset in range(40) if batches.holds(1, offset)] == [*range(5, 10), *range(20, 30)]
    assert batches.holds(2, 50)
    assert not batches.holds(3, 50)
