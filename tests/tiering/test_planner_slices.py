"""The open segment: when its stable prefix is cut off, from where it is read, what its records wait for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker import PartitionView
from engine.records.digest import EMPTY_DIGEST
from engine.table.commit.range_append import RangeAppend
from tests.tiering.planner_cases import (
    LIMITS,
    NOW_MS,
    link,
    only,
    partition,
    plan,
    ranges,
    state,
)
from tiering.observation import PartitionState
from tiering.partition_record import PartitionRecord
from tiering.planner import (
    Waiting,
    plan_ranges,
)
from tiering.range_work import ReadyAppend
from tiering.tiering_limits import TieringLimits


def waiting_since(since_ms: int | None, *, number: int = 0, active_mib: int = 0) -> PartitionState:
    """Records of an active segment that may wait for a minute; the ledger's end is at its 100th MiB."""
    return replace(
        state(0, stable=150, high=170, tiered_end=50, tiered_position=100 << 20, number=number, freshness_ms=60_000),
        untiered_since_ms=since_ms,
        active_bytes=(100 + active_mib) << 20,
    )


def due_ms(case: PartitionState) -> int:
    assert case.prefix_due_ms is not None
    return case.prefix_due_ms


def test_stable_prefix_of_the_active_segment_is_tiered_when_it_is_due() -> None:
    case = waiting_since(NOW_MS - 1)
    early, due = (plan_ranges([case], LIMITS, now_ms=due_ms(case) + late) for late in (-1, 0))
    assert ranges(early) == []
    assert ranges(due) == [(50, 150)]
    assert not only(due).closed
    assert plan(waiting_since(None)).ranges == ()
    assert plan(replace(waiting_since(0), freshness_ms=None)).ranges == ()


@given(since_ms=st.integers(0, 10**12), freshness_ms=st.integers(0, 10**6), active_mib=st.integers(0, 4096))
def test_no_record_waits_longer_than_it_may(since_ms: int, freshness_ms: int, active_mib: int) -> None:
    """What the work takes included: a MiB 40 ms."""
    case = replace(waiting_since(since_ms, active_mib=active_mib), freshness_ms=freshness_ms)
    assert since_ms <= due_ms(case) <= since_ms + max(0, freshness_ms - 40 * active_mib)


ROUND_MS = 54_000
"""A tenth less than the minute that records may wait."""


def at_topics_time() -> int:
    """One of the moments at which the partitions of the topic are due."""
    topic_phase = crc32(partition().topic_id.encode()) % ROUND_MS
    return NOW_MS - NOW_MS % ROUND_MS + topic_phase


def test_partitions_of_a_topic_are_due_together() -> None:
    began_ms = at_topics_time()
    for since_ms in range(began_ms + 1, began_ms + 40_000, 911):
        assert due_ms(waiting_since(since_ms, number=since_ms % 7)) == began_ms + ROUND_MS


def test_partition_that_is_out_of_step_makes_no_tiny_slices_and_falls_in_within_three() -> None:
    began_ms = at_topics_time()
    for first_ms in range(began_ms, began_ms + ROUND_MS, 911):
        since_ms = first_ms
        for _ in range(3):
            case = waiting_since(since_ms)
            assert due_ms(case) - since_ms >= ROUND_MS // 4
            since_ms = due_ms(case)
        assert (due_ms(waiting_since(since_ms)) - began_ms) % ROUND_MS == 0


def test_work_that_takes_long_is_begun_so_much_earlier() -> None:
    since_ms = at_topics_time()
    assert due_ms(waiting_since(since_ms, active_mib=100)) == since_ms + ROUND_MS
    assert due_ms(waiting_since(since_ms, active_mib=500)) == since_ms + 40_000
    assert due_ms(waiting_since(since_ms, active_mib=4096)) == since_ms
    rolled = replace(waiting_since(since_ms, active_mib=500), log=state(0, 100).log)
    assert due_ms(rolled) == since_ms + 60_000 - 600 * 40  # the position is one in the segment before


def test_work_that_waits_for_other_partitions_is_begun_as_much_earlier_as_it_took_last_time() -> None:
    since_ms = at_topics_time()
    case = waiting_since(since_ms, active_mib=200)
    assert due_ms(case) == due_ms(replace(case, seen_ms_per_mib=52)) == since_ms + 52_000
    assert due_ms(replace(case, seen_ms_per_mib=100)) == since_ms + 60_000 - (20_000 - 2_500)
    assert due_ms(replace(case, seen_ms_per_mib=1_000)) == since_ms


def test_what_a_mebibyte_took_is_counted_from_the_plan_to_the_commit_and_forgotten_after_small_ranges() -> None:
    record = PartitionRecord()
    for mib, took_ms, seen in ((8, 2_000, 250.0), (8, 800, 100.0), (3, 2_000, 0.0)):
        planned = plan(replace(waiting_since(0, active_mib=mib), freshness_ms=0)).ranges
        record.begin(planned, now_ms=NOW_MS)
        append = RangeAppend(partition=0, range=planned[0].range, leader_epoch=1, digest=EMPTY_DIGEST, file=None)
        record.succeed(
            ReadyAppend(planned=planned[0], append=append, settings=None, value_bytes=0, log_bytes=0),
            now_ms=NOW_MS + took_ms,
        )
        assert record.seen_ms_per_mib == seen


def test_position_of_the_ledgers_end_is_given_to_the_range_of_its_segment_alone() -> None:
    case = state(0, 100, 200, stable=250, tiered_end=150, tiered_position=70, freshness_ms=1, untiered_since_ms=0)
    rest, active = plan(replace(case, active_bytes=120)).ranges
    assert (rest.range.start, rest.position, rest.size_bytes) == (150, 70, 30)
    assert (active.range.start, active.position, active.size_bytes) == (200, 0, 120)
    spooled = plan(replace(case, spooled=(link(100, 200),))).ranges[0]
    assert (spooled.path, spooled.position, spooled.size_bytes) == (Path("/spool/100-200.log"), 70, 30)


def test_small_ranges_are_counted_by_what_they_cost_and_not_by_their_number() -> None:
    limits = TieringLimits(max_tasks_per_cycle=2)
    tiny = [state(0, 100, number=number, size_bytes=1000) for number in range(100)]
    assert len(plan(*tiny, limits=limits).ranges) == 64
    half = [state(0, 100, number=number, size_bytes=2 << 20) for number in range(100)]
    assert len(plan(*half, limits=limits).ranges) == 4
    large = [state(0, 100, number=number, size_bytes=1 << 30) for number in range(100)]
    assert len(plan(*large, limits=limits).ranges) == 2


@pytest.mark.parametrize(
    ("case", "waiting"),
    [
        (state(0, stable=10, freshness_ms=1000, untiered_since_ms=NOW_MS), Waiting.FRESHNESS),
        (state(0, stable=10, freshness_ms=1000), Waiting.FRESHNESS),
        (state(0, stable=10, tiered_end=10, freshness_ms=1000), Waiting.NOTHING_NEW),
        (state(0, stable=10, tiered_end=5, log_start=10, freshness_ms=1000), Waiting.NOTHING_NEW),
        (state(0, stable=10, high=20, tiered_end=10, freshness_ms=1000), Waiting.OPEN_TRANSACTION),
        (state(0, 100, stable=42, high=120, tiered_end=42, freshness_ms=1000), Waiting.OPEN_TRANSACTION),
        (replace(state(0, freshness_ms=1000), view=PartitionView(leader_id=1)), Waiting.NOTHING_NEW),
    ],
)
def test_what_the_records_of_an_active_segment_wait_for_is_said(case: PartitionState, waiting: Waiting) -> None:
    planned = plan(case)
    assert planned.ranges == ()
    assert planned.waiting[partition()].kind is waiting
