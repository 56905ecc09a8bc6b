"""Tables of cases: what is ready, in which order, what waits and why, what the spool takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.broker import NO_LEADER, PartitionView
from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from tests.tiering.planner_cases import (
    LIMITS,
    NOW_MS,
    link,
    only,
    partition,
    plan,
    ranges,
    state,
    view,
)
from tiering.observation import PartitionState
from tiering.planner import (
    Waiting,
    WaitingReason,
    partitions_with_work,
    plan_ranges,
    plan_spool,
)
from tiering.tiering_limits import TieringLimits


@pytest.mark.parametrize(
    ("case", "expected", "waiting"),
    [
        pytest.param(state(0), [], Waiting.NOTHING_CLOSED, id="active_segment_alone"),
        pytest.param(state(0, 100), [(0, 100)], Waiting.NOTHING_CLOSED, id="closed_segment"),
        pytest.param(state(0, 100, 200), [(0, 100), (100, 200)], Waiting.NOTHING_CLOSED, id="consecutive"),
        pytest.param(state(0, 100, 200, stable=150, high=250), [(0, 100)], Waiting.OPEN_TRANSACTION, id="transaction"),
        pytest.param(state(0, 100, 200, stable=150), [(0, 100)], Waiting.NOT_REPLICATED, id="not_replicated"),
        pytest.param(state(0, 100, stable=100), [(0, 100)], Waiting.NOTHING_CLOSED, id="stable_offset_at_the_end"),
        pytest.param(state(0, 100, stable=99, high=99), [], Waiting.NOT_REPLICATED, id="stable_offset_one_short"),
        pytest.param(
            state(0, 100, 200, tiered_end=100), [(100, 200)], Waiting.NOTHING_CLOSED, id="ledger_at_a_boundary"
        ),
        pytest.param(state(0, 100, 200, tiered_end=130), [(130, 200)], Waiting.NOTHING_CLOSED, id="ledger_inside"),
        pytest.param(state(0, 100, tiered_end=100), [], Waiting.NOTHING_CLOSED, id="all_tiered"),
        pytest.param(state(300, 400), [(300, 400)], Waiting.NOTHING_CLOSED, id="first_commit_of_an_old_topic"),
        pytest.param(
            state(0, 100, log_start=40), [(40, 100)], Waiting.NOTHING_CLOSED, id="first_commit_above_log_start"
        ),
        pytest.param(
            state(200, 300, tiered_end=100, log_start=0), [], Waiting.NOT_LOCAL, id="hole_that_kafka_still_has"
        ),
    ],
)
def test_ready_segments_are_planned_in_order(case: PartitionState, expected: list[object], waiting: Waiting) -> None:
    planned = plan(case)
    assert ranges(planned) == expected
    assert all(item.skipped is None and item.leader_epoch == 5 for item in planned.ranges)
    assert planned.waiting[partition()].kind is waiting


def test_waiting_on_a_transaction_names_its_offset() -> None:
    reason = plan(state(0, 100, stable=42, high=120)).waiting[partition()]
    assert (reason.kind, reason.offset) == (Waiting.OPEN_TRANSACTION, 42)
    assert "42" in str(reason)


@pytest.mark.parametrize(
    ("case", "waiting"),
    [
        (replace(state(0, 100), is_leader=False, view=replace(view(1000), leader_id=2)), Waiting.LEADER_ELSEWHERE),
        (replace(state(0, 100), view=replace(view(1000), leader_id=NO_LEADER)), Waiting.NO_LEADER),
        (replace(state(0, 100), view=PartitionView(leader_id=1)), Waiting.NO_ANSWER),
        (replace(state(0, 100), view=None), Waiting.UNKNOWN_TOPIC),
        (replace(state(0, 100), stopped="a bad CRC"), Waiting.STOPPED),
        (state(0, 100, tiered_end=50, tiered_epoch=6), Waiting.NEWER_OWNER),
        (state(0, 100, log_epoch=4), Waiting.OTHER_EPOCH),
        (state(0, 100, log_epoch=6), Waiting.OTHER_EPOCH),
    ],
)
def test_partition_that_may_not_be_tiered_says_why(case: PartitionState, waiting: Waiting) -> None:
    planned = plan(case)
    assert planned.ranges == ()
    assert planned.waiting[partition()].kind is waiting


def test_offsets_deleted_before_they_were_tiered_are_skipped_and_said() -> None:
    item = only(plan(state(200, 300, tiered_end=100, log_start=200)))
    assert item.range == OffsetRange(start=200, end=300)
    assert item.skipped == OffsetRange(start=100, end=200)


def test_log_start_inside_a_segment_begins_the_range_there() -> None:
    item = only(plan(state(100, 300, tiered_end=100, log_start=250)))
    assert item.range == OffsetRange(start=250, end=300)
    assert item.skipped == OffsetRange(start=100, end=250)


def test_segment_whole_below_the_log_start_is_not_read() -> None:
    item = only(plan(state(0, 100, 200, tiered_end=50, log_start=100)))
    assert item.range == OffsetRange(start=100, end=200)
    assert item.skipped == OffsetRange(start=50, end=100)


def test_spooled_segment_is_used_though_kafka_deleted_it() -> None:
    planned = plan(state(200, 300, tiered_end=100, log_start=200, spooled=(link(100, 200),)))
    assert ranges(planned) == [(100, 200), (200, 300)]
    assert planned.ranges[0].path == Path("/spool/100-200.log")
    assert all(item.skipped is None for item in planned.ranges)


def test_link_is_read_rather_than_the_name_kafka_may_remove() -> None:
    assert only(plan(state(0, 100, spooled=(link(0, 100),)))).path == Path("/spool/0-100.log")


def test_first_commit_begins_where_the_log_does_though_only_a_later_segment_is_held() -> None:
    assert ranges(plan(state(0, 100, 200, spooled=(link(100, 200),)))) == [(0, 100), (100, 200)]


def test_first_commit_begins_with_what_is_held_where_kafka_has_deleted_it() -> None:
    planned = plan(state(100, 200, log_start=100, spooled=(link(0, 100),)))
    assert ranges(planned) == [(0, 100), (100, 200)]


def test_hole_between_spool_and_log_start_is_skipped_and_said() -> None:
    planned = plan(state(300, 400, tiered_end=100, log_start=300, spooled=(link(100, 200),)))
    assert ranges(planned) == [(100, 200), (300, 400)]
    assert planned.ranges[1].skipped == OffsetRange(start=200, end=300)


def test_spool_of_a_deleted_topic_is_finished_under_the_epoch_it_was_linked_in() -> None:
    case = PartitionState(
        partition=partition(), log=None, view=None, is_leader=False, spooled=(link(100, 200),), tiered_end=100
    )
    item = only(plan(case))
    assert (item.range, item.leader_epoch) == (OffsetRange(start=100, end=200), 3)


def test_segments_merged_by_compaction_continue_inside_the_merged_one() -> None:
    assert ranges(plan(state(0, 300, spooled=(link(0, 100),)))) == [(0, 100), (100, 300)]


def test_rest_of_a_segment_follows_its_tiered_prefix_once_it_is_closed() -> None:
    planned = plan(state(0, 100, 200, stable=250, tiered_end=150, freshness_ms=60_000, untiered_since_ms=NOW_MS))
    assert ranges(planned) == [(150, 200)]
    assert only(planned).closed


def test_partitions_take_turns_within_the_limit_of_tasks() -> None:
    cases = [state(0, 100, 200, 300, number=number) for number in range(3)]
    planned = plan(*cases, limits=TieringLimits(max_tasks_per_cycle=4, small_range_bytes=0))
    assert [(item.partition.partition, item.range.start) for item in planned.ranges] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (0, 100),
    ]
    assert {reason.kind for reason in planned.waiting.values()} == {Waiting.LIMIT}


def test_partition_whose_table_fails_takes_no_others_place_and_one_without_a_table_waits_its_turn() -> None:
    failing, later, ready = (state(0, 100, 200, number=number) for number in range(3))
    failing = replace(failing, has_table=False, failure=Unavailable("the catalog is away"))
    planned = plan(
        failing,
        replace(later, has_table=False),
        ready,
        limits=TieringLimits(max_tasks_per_cycle=2, small_range_bytes=0),
    )
    assert [(item.partition.partition, item.range.start) for item in planned.ranges] == [(2, 0), (2, 100)]
    assert planned.waiting[partition(0)].kind is Waiting.NOTHING_CLOSED
    assert planned.waiting[partition(1)] == WaitingReason(kind=Waiting.LIMIT, offset=0)
    work = partitions_with_work([failing, later, ready], TieringLimits(), now_ms=NOW_MS)
    found = {item.partition: item.share for item in work}
    assert found == {partition(1): 1 / 32, partition(2): 1 / 32}


def test_segment_larger_than_the_limit_of_bytes_goes_alone() -> None:
    planned = plan(state(0, 100, 200), limits=TieringLimits(max_bytes_per_cycle=1))
    assert ranges(planned) == [(0, 100)]


def test_ready_segments_are_linked_oldest_first_within_the_bound() -> None:
    cases = [state(0, 100, 200, number=0), state(50, 150, 250, number=1)]
    planned = plan_spool(cases, TieringLimits(spool_max_bytes=300))
    assert [(item.partition.partition, item.segment.range.start) for item in planned.links] == [
        (0, 0),
        (1, 50),
        (0, 100),
    ]
    assert planned.at_risk == {partition(1): 100}


def test_segments_held_count_against_the_bound() -> None:
    planned = plan_spool([state(0, 100, 200, spooled=(link(0, 100),))], TieringLimits(spool_max_bytes=150))
    assert planned.links == ()
    assert planned.at_risk == {partition(): 100}


def test_committed_segments_are_let_go_and_make_room() -> None:
    case = state(0, 100, 200, tiered_end=100, spooled=(link(0, 100),))
    planned = plan_spool([case], TieringLimits(spool_max_bytes=100))
    assert planned.unlinks == (link(0, 100),)
    assert [item.segment.range.start for item in planned.links] == [100]


def test_nothing_is_linked_where_the_broker_itself_waits() -> None:
    planned = plan_spool([replace(state(0, 100), native=True)], LIMITS)
    assert planned.links == ()
    assert planned.at_risk == {}


@settings(max_examples=200, deadline=None)
@given(
    bases=st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True).map(sorted),
    links=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=3),
    tiered_end=st.none() | st.integers(0, 45),
    log_start=st.integers(0, 40),
    stable=st.integers(0, 50),
)
def test_planned_ranges_follow_the_ledger_without_gap_or_overlap(
    bases: list[int], links: list[tuple[int, int]], tiered_end: int | None, log_start: int, stable: int
) -> None:
    spooled = tuple(link(start, start + count) for start, count in links)
    case = state(*bases, stable=stable, log_start=log_start, tiered_end=tiered_end, spooled=spooled)
    position = tiered_end
    for item in plan(case).ranges:
        if position is not None:
            covered_from = item.range.start if item.skipped is None else item.skipped.start
            assert covered_from == position
        if item.skipped is not None:
            assert item.skipped.end == item.range.start
        if item.spooled is None:
            assert log_start <= item.range.start
            assert item.range.end <= stable
        assert not item.range.is_empty
        position = item.range.end


def test_segments_of_a_broker_that_was_replaced_and_does_not_know_it_are_neither_tiered_nor_held() -> None:
    """Metadata still names it, the offsets are its successor's: what it has below them was perhaps never committed."""
    replaced = state(0, 100, 200, log_epoch=4, freshness_ms=1, untiered_since_ms=0)
    assert plan_ranges([replaced], LIMITS, now_ms=NOW_MS).ranges == ()
    assert plan_spool([replaced], LIMITS).links == ()


def test_log_without_a_checkpoint_of_epochs_is_tiered_by_the_brokers_word() -> None:
    assert len(plan_ranges([state(0, 100, log_epoch=-1)], LIMITS, now_ms=NOW_MS).ranges) == 1
