"""The history outlives the daemon, is bounded, and no damage of it stops anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from floeberg.daemon.history_keeper import HistoryKeeper
from serving.status.daemon_status import DaemonStatus, Phase
from serving.status.history import MOST_POINTS, NAMES, SLOT_BYTES, SLOTS, STEP_MS, History, Sample, decode, encode
from serving.status.metrics import DaemonLook
from serving.status.topic_series import PartitionNow
from tests.tiering.tiering_world import SettableClock
from topics.partition_status import PartitionStatus
from topics.topic_totals import TopicTotals

NOON_MS = 1_700_000_000_000 // (8 * STEP_MS) * (8 * STEP_MS)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


def sample_at(step: int, **values: int) -> Sample:
    return Sample(time_ms=NOON_MS + step * STEP_MS, **values)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS)), st.integers(0, SLOT_BYTES - 1), st.integers(1, 255))
def test_sample_comes_back_from_its_slot_and_never_from_a_damaged_one(
    values: dict[str, int], place: int, flip: int
) -> None:
    slot = bytearray(encode(Sample(**values)))
    assert decode(bytes(slot)) == Sample(**values)
    slot[place] ^= flip
    assert decode(bytes(slot)) is None
    assert decode(bytes(slot[:-1])) is None


def test_samples_are_there_after_a_restart_and_the_file_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(path)
    for step in range(-SLOTS - 10, 0):
        history.keep(sample_at(step, records=step + 5_000))
    assert path.stat().st_size <= SLOTS * SLOT_BYTES
    again = History(path).points(now_ms=NOON_MS, length_ms=10 * STEP_MS)
    assert again["time_ms"] == [NOON_MS + step * STEP_MS for step in range(-10, 0)]
    assert again["records"] == [step + 5_000 for step in range(-10, 0)]


def test_damaged_slots_count_as_not_there_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(path)
    for step in range(-4, 0):
        history.keep(sample_at(step, records=7))
    content = bytearray(path.read_bytes())
    content[(sample_at(-3).time_ms // STEP_MS % SLOTS) * SLOT_BYTES + 20] ^= 1
    path.write_bytes(bytes(content))
    assert History(path).points(now_ms=NOON_MS, length_ms=4 * STEP_MS)["records"] == [7, None, 7, 7]
    path.write_bytes(b"anything" * 100_000)
    assert History(path).points(now_ms=NOON_MS, length_ms=STEP_MS)["records"] == [None]


def test_file_that_cannot_be_read_or_written_is_told_of_once_and_memory_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.mkdir()
    with capture_logs() as logs:
        history = History(path)
        history.keep(sample_at(-2, fetches=3))
        history.keep(sample_at(-1, fetches=4))
    assert [line["event"] for line in logs] == ["history_not_kept"]
    assert history.points(now_ms=NOON_MS, length_ms=2 * STEP_MS)["fetches"] == [3, 4]


def test_day_is_answered_in_bounded_points_that_add_up_and_keep_the_worst() -> None:
    history = History()
    for step in range(-SLOTS, 0):
        history.keep(sample_at(step, records=1, lag_records=1 if step % 100 else 500))
    day = history.points(now_ms=NOON_MS, length_ms=SLOTS * STEP_MS)
    assert len(day["time_ms"]) <= MOST_POINTS
    # The newest point has time left to come, for which the oldest samples make room.
    width = -(-SLOTS // MOST_POINTS)
    assert SLOTS - width < sum(value or 0 for value in day["records"]) <= history.day(NOON_MS)["records"] == SLOTS
    assert sum(value == 500 for value in day["lag_records"]) == SLOTS // 100
    assert history.points(now_ms=NOON_MS, length_ms=10**15).keys() == set(NAMES)


def test_sample_of_yesterday_or_of_a_clock_that_went_back_is_not_of_now() -> None:
    history = History()
    history.keep(sample_at(-1, records=9))
    for later_ms in (0, STEP_MS - 1, STEP_MS + 1, 2 * STEP_MS - 1):
        assert history.last(NOON_MS + later_ms) == sample_at(-1, records=9)
    assert history.last(NOON_MS + 2 * STEP_MS + 1) is None
    assert history.last(NOON_MS + SLOTS * STEP_MS) is None
    assert history.last(NOON_MS - 10 * STEP_MS) is None
    assert history.points(now_ms=NOON_MS + SLOTS * STEP_MS, length_ms=STEP_MS)["records"] == [None]


class Board:
    """A daemon's board, as a test has it."""

    def __init__(self) -> None:
        self.reads = (3, 900)
        self.take(
            NOON_MS + 5, stable_end=150, totals=TopicTotals(typed_rows=1_000, log_bytes=5_000, parquet_bytes=2_000)
        )

    def take(self, now_ms: int, *, stable_end: int, totals: TopicTotals) -> None:
        part = PartitionStatus(topic="orders", partition=0, tiered_end=100, stable_end=stable_end, lag_ms=4_000)
        now = DaemonStatus(version="1", phase=Phase.RUNNING, started_ms=0, now_ms=now_ms)
        self.now = DaemonLook(status=now, partitions=(PartitionNow.of(part),), totals={"orders": totals})

    def look(self) -> DaemonLook:
        return self.now

    def fetched(self) -> tuple[int, int]:
        return self.reads


def test_keeper_keeps_what_was_done_in_each_step_and_how_fast_topics_grow() -> None:
    board, history, clock = Board(), History(), SettableClock()
    keeper = HistoryKeeper(board, history, clock)
    keeper.sample()
    assert keeper.rates == {}
    board.reads = (5, 1_000)
    totals = TopicTotals(typed_rows=1_050, raw_rows=7, undecodable_rows=3, log_bytes=5_600, parquet_bytes=2_200)
    board.take(NOON_MS + STEP_MS + 5, stable_end=450, totals=totals)
    clock.ahead_ms += STEP_MS
    keeper.sample()
    last = history.last(NOON_MS + STEP_MS + 5)
    assert last == sample_at(
        0, records=60, log_bytes=600, file_bytes=200, fetches=2, fetched_bytes=100, lag_records=350, lag_ms=4_000
    )
    assert keeper.rates == {"orders": pytest.approx(10.0, rel=0.01)}
