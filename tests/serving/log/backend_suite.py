"""What every LogDoorBackend must do. A subclass gives ``backend``, a log of ``sample_records()``, all committed, that
tests may share: those that keep something in it keep it for ranges of their own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from engine.errors import Unavailable
from engine.kafka_log.record_batch import CONTROL_FLAG, parse_header
from engine.records.records import ByteSpans, Headers, Records
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import LogDoorBackend, NoSuchSegment, RemoteSegment
from tests.serving.log.kept_log import segment

END = 5000
GAP = range(1200, 1300)
"""Offsets without a record, as aborted transactions leave them."""
OFFSETS = [offset for offset in range(END) if offset not in GAP and offset != END - 1]
WHOLE = 1 << 30


@cache
def sample_records() -> Records:
    """Offsets 0 to 4999 but for a gap and the last one; timestamps that fall back now and then; some headers."""
    offset = np.array(OFFSETS, np.int64)
    count = len(offset)
    headers: list[list[tuple[bytes, bytes | None]]] = [
        [(b"h", None), (b"h", b"x")] if row % 97 == 0 else [] for row in range(count)
    ]
    return Records(
        offset=offset,
        timestamp_ms=1_700_000_000_000 + offset * 10 - (offset % 7) * 25,
        timestamp_type=np.zeros(count, np.int8),
        leader_epoch=np.where(offset < 2500, 3, 4).astype(np.int32),
        key=ByteSpans.from_list([b"key-%d" % number if number % 5 else None for number in OFFSETS]),
        value=ByteSpans.from_list([b"value-%06d" % number * 8 if number % 11 else None for number in OFFSETS]),
        headers=Headers.from_lists(headers),
    )


def coverage(batches: Iterable[memoryview]) -> list[tuple[int, int, int]]:
    """(base offset, last offset, how many records consumers are shown) of each batch."""
    found = []
    for batch in batches:
        header = parse_header(batch)
        assert len(batch) == header.size_bytes, "an item is one whole batch"
        assert header.record_count > 0, "some clients never pass a batch without a record"
        found.append(
            (header.base_offset, header.last_offset, 0 if header.attributes & CONTROL_FLAG else header.record_count)
        )
    return found


class BackendSuite:
    @pytest.fixture
    def backend(self) -> LogDoorBackend:
        raise NotImplementedError

    @pytest.fixture
    def whole(self) -> RemoteSegment:
        return segment(0, END)

    def test_committed_range_is_verified(self, backend: LogDoorBackend, whole: RemoteSegment) -> None:
        verified = backend.verified(whole)
        assert verified is not None
        assert verified.range.covers(whole.range)
        assert (verified.topic_id, verified.partition) == (whole.topic_id, whole.partition)

    def test_range_with_other_boundaries_is_verified_too(self, backend: LogDoorBackend) -> None:
        assert backend.verified(segment(17, 3333)) is not None

    def test_range_past_the_end_of_the_table_is_not_verified_yet(self, backend: LogDoorBackend) -> None:
        assert backend.verified(segment(END - 1, END + 1)) is None

    def test_unknown_topic_is_not_verified_yet(self, backend: LogDoorBackend) -> None:
        assert backend.verified(segment(0, END, topic_id="AAAAAAAAAAAAAAAAAAAAAA")) is None

    def test_records_of_an_unknown_topic_are_unavailable(self, backend: LogDoorBackend) -> None:
        with pytest.raises(Unavailable):
            next(backend.records(segment(0, END, topic_id="AAAAAAAAAAAAAAAAAAAAAA"), start=0, max_bytes=WHOLE))

    def test_batches_rise_to_the_segments_end_and_hold_every_record(
        self, backend: LogDoorBackend, whole: RemoteSegment
    ) -> None:
        found = coverage(backend.records(whole, start=0, max_bytes=WHOLE))
        assert found[0][0] == 0
        assert all(last + 1 == base for (_, last, _), (base, _, _) in pairwise(found))
        assert found[-1][1] == END - 1
        assert sum(count for _, _, count in found) == len(OFFSETS)

    @pytest.mark.parametrize("start", [1, 1199, 1200, 1250, 1300, 2500, END - 2])
    def test_first_batch_begins_at_the_offset_asked_for_be_it_in_a_gap(
        self, backend: LogDoorBackend, whole: RemoteSegment, start: int
    ) -> None:
        found = coverage(backend.records(whole, start=start, max_bytes=WHOLE))
        assert found[0][0] == start
        assert found[-1][1] == END - 1

    def test_offset_after_the_last_record_is_covered_by_a_batch_that_shows_none(
        self, backend: LogDoorBackend, whole: RemoteSegment
    ) -> None:
        assert coverage(backend.records(whole, start=END - 1, max_bytes=WHOLE)) == [(END - 1, END - 1, 0)]

    def test_windows_that_follow_each_other_give_the_whole_segment(
        self, backend: LogDoorBackend, whole: RemoteSegment
    ) -> None:
        found: list[tuple[int, int, int]] = []
        start = 0
        while start < END:
            window = coverage(backend.records(whole, start=start, max_bytes=50_000))
            assert window, f"no batch from {start}"
            assert window[0][0] == start
            found += window
            start = window[-1][1] + 1
        assert len(found) > 5
        assert sum(count for _, _, count in found) == len(OFFSETS)

    def test_window_smaller_than_a_batch_is_one_batch(self, backend: LogDoorBackend, whole: RemoteSegment) -> None:
        assert len(coverage(backend.records(whole, start=0, max_bytes=1))) == 1

    def test_grid_rises_within_the_segment_and_batches_begin_on_it(
        self, backend: LogDoorBackend, whole: RemoteSegment
    ) -> None:
        grid = backend.offset_grid(whole)
        assert len(grid) > 0
        assert np.all(np.diff(grid) > 0)
        assert grid[0] > 0
        assert grid[-1] < END
        for entry in grid[:: max(1, len(grid) // 5)]:
            found = coverage(backend.records(whole, start=int(entry), max_bytes=1))
            assert found[0][0] == entry

    def test_positions_of_a_segment_that_begins_later_are_relative_to_its_start(self, backend: LogDoorBackend) -> None:
        later = segment(3000, END)
        grid = backend.offset_grid(later)
        assert grid[-1] < END - 3000
        last_entry = 3000 + int(grid[-1])
        assert coverage(backend.records(later, start=last_entry, max_bytes=1))[0][0] == last_entry

    def test_time_index_leaves_no_later_record_behind(self, backend: LogDoorBackend, whole: RemoteSegment) -> None:
        timestamp_ms, relative_offset = backend.time_index(whole)
        records = sample_records()
        assert len(timestamp_ms) > 0
        assert np.all(np.diff(timestamp_ms) > 0)
        assert np.all(np.diff(relative_offset) >= 0)
        for wanted in (int(timestamp_ms[0]), int(timestamp_ms[-1]), int(timestamp_ms[len(timestamp_ms) // 2]) + 3):
            entry = int(np.searchsorted(timestamp_ms, wanted, "right")) - 1
            before = records.offset < relative_offset[entry]
            assert not np.any(records.timestamp_ms[before] >= wanted)

    def test_auxiliary_state_comes_back_for_exactly_its_range(self, backend: LogDoorBackend) -> None:
        state = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=b"\x00\x01")
        backend.keep_auxiliary_state(segment(0, 1000), state)
        assert backend.auxiliary_state(segment(0, 1000)) == state
        with pytest.raises(NoSuchSegment):
            backend.auxiliary_state(segment(0, 1001))

    def test_copy_of_the_same_range_replaces_its_auxiliary_state(self, backend: LogDoorBackend) -> None:
        newer = AuxiliaryState(leader_epochs=b"0\n1\n4 0\n", producer_snapshot=None)
        backend.keep_auxiliary_state(
            segment(0, 2000), AuxiliaryState(leader_epochs=b"0\n0\n", producer_snapshot=b"old")
        )
        backend.keep_auxiliary_state(segment(0, 2000), newer)
        assert backend.auxiliary_state(segment(0, 2000)) == newer

    def test_release_above_the_log_start_removes_nothing(self, backend: LogDoorBackend, whole: RemoteSegment) -> None:
        state = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=None)
        backend.keep_auxiliary_state(segment(0, 3000), state)
        backend.release(segment(0, 3000))
        backend.release(whole)
        assert backend.auxiliary_state(segment(0, 3000)) == state
        assert coverage(backend.records(whole, start=0, max_bytes=1))[0][0] == 0

    def test_release_of_something_unknown_does_nothing(self, backend: LogDoorBackend) -> None:
        state = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=b"its own")
        backend.keep_auxiliary_state(segment(0, 10), state)
        before = coverage(backend.records(segment(0, 10), start=0, max_bytes=WHOLE))
        backend.release(segment(0, 10, topic_id="AAAAAAAAAAAAAAAAAAAAAA"))
        backend.release(segment(0, 10, partition=77))
        assert backend.auxiliary_state(segment(0, 10)) == state
        assert coverage(backend.records(segment(0, 10), start=0, max_bytes=WHOLE)) == before
