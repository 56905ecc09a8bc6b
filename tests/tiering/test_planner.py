"""Tables of cases: what is ready, in which order, what waits and why, what the spool takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.broker import NO_LEADER, PartitionView
from engine.errors import Unavailable
from engine.kafka_log.segment import Segment
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog, PartitionState
from tiering.planner import (
    PlannedRange,
    RangePlan,
    Waiting,
    WaitingReason,
    partitions_with_work,
    plan_ranges,
    plan_spool,
)
from tiering.spool import SpooledSegment
from tiering.tiering_limits import TieringLimits

LIMITS = TieringLimits()
LOG_DIR = Path("/logs")
NOW_MS = 1_000_000


def partition(number: int = 0) -> TopicIdPartition:
    return TopicIdPartition(topic="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAA", partition=number)


def segments(*bases: int, size_bytes: int = 100, modified_ms: int = 0) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            base_offset=base,
            log_path=LOG_DIR / f"{base:020d}.log",
            size_bytes=size_bytes,
            modified_ms=modified_ms + base,
        )
        for base in bases
    )


def view(stable: int, *, high: int | None = None, log_start: int = 0, epoch: int = 5) -> PartitionView:
    return PartitionView(
        leader_id=1,
        leader_epoch=epoch,
        log_start_offset=log_start,
        last_stable_offset=stable,
        high_watermark=stable if high is None else high,
    )


def state(
    *bases: int,
    stable: int = 1000,
    high: int | None = None,
    log_start: int = 0,
    number: int = 0,
    spooled: tuple[SpooledSegment, ...] = (),
    tiered_end: int | None = None,
    tiered_epoch: int = -1,
    freshness_ms: int | None = None,
    untiered_since_ms: int | None = None,
    tiered_position: int = 0,
    size_bytes: int = 100,
    log_epoch: int = 5,
) -> PartitionState:
    return PartitionState(
        partition=partition(number),
        log=PartitionLog(
            partition=partition(number),
            log_dir=LOG_DIR,
            segments=segments(*bases, size_bytes=size_bytes),
            leader_epoch=log_epoch,
        ),
        view=view(stable, high=high, log_start=log_start),
        is_leader=True,
        spooled=spooled,
        tiered_end=tiered_end,
        tiered_epoch=tiered_epoch,
        tiered_position=tiered_position,
        freshness_ms=freshness_ms,
        untiered_since_ms=untiered_since_ms,
    )


def link(start: int, end: int, *, number: int = 0, size_bytes: int = 100) -> SpooledSegment:
    return SpooledSegment(
        partition=partition(number),
        range=OffsetRange(start=start, end=end),
        path=Path(f"/spool/{start}-{end}.log"),
        size_bytes=size_bytes,
        leader_epoch=3,
        aborted=(),
    )


def plan(*states: PartitionState, limits: TieringLimits = LIMITS) -> RangePlan:
    return plan_ranges(states, limits, now_ms=NOW_MS)


def ranges(planned: RangePlan) -> list[tuple[int, int]]:
    return [(item.range.start, item.range.end) for item in planned.ranges]


def only(planned: RangePlan) -> PlannedRange:
    (item,) = planned.ranges
    return item


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
    assert list(partitions_with_work([failing, later, ready], now_ms=NOW_MS)) == [partition(1), partition(2)]


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
