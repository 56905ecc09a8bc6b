"""What is merged, what is not, and why: every file has one reason, and planning comes to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.merge_limits import Demand, MergeLimits
from compaction.planner import LeftReason, MergeGroup, MergePlan, MergeReason, plan_merges
from engine.offset_range import OffsetRange
from engine.table.adopted_range import ForeignFile
from engine.table.manifests import TableFile
from tests.compaction.simulated_partition import SimulatedPartition

LIMITS = MergeLimits(target_file_bytes=1000, files_per_group=50)
FOREIGN = ForeignFile(path="f", partition=0, size_bytes=1, record_count=1)


def files_of(sizes: Sequence[int], *, partition: int = 0, gap: int = 0) -> list[TableFile]:
    return [
        TableFile(
            partition=partition,
            range=OffsetRange(start=index * 10 + gap * index, end=index * 10 + gap * index + 10),
            path=f"p{partition}-{index}",
            size_bytes=size,
            record_count=10,
            leader_epoch=0,
        )
        for index, size in enumerate(sizes)
    ]


def sizes_of(plan: MergePlan) -> list[list[int]]:
    return [[file.size_bytes for file in group.files] for group in plan.groups]


def left_of(plan: MergePlan) -> list[LeftReason]:
    return [left.reason for left in plan.left]


def test_target_is_reached_in_two_steps_of_the_root_of_what_lies_between() -> None:
    # A slice of 10 and a target of 1000: 10 times each.
    assert LIMITS.growth(10) == 10
    assert sizes_of(plan_merges(files_of([10] * 13), LIMITS)) == []
    assert sizes_of(plan_merges(files_of([10] * 14), LIMITS)) == [[10] * 10]
    plan = plan_merges(files_of([100] * 7 + [10] * 4), LIMITS)
    assert sizes_of(plan) == []
    plan = plan_merges(files_of([100] * 8 + [10] * 4), LIMITS)
    assert [(group.reason, group.size_bytes) for group in plan.groups] == [(MergeReason.FULL, 800)]


def test_newest_files_are_left_and_say_how_large_a_slice_is() -> None:
    plan = plan_merges(files_of([10] * 14), LIMITS)
    assert left_of(plan) == [LeftReason.NEWEST] * 4
    assert plan.groups[0].range == OffsetRange(start=0, end=100)


def test_growth_has_bounds() -> None:
    limits = MergeLimits()
    assert [limits.growth(size) for size in (1, 5_000, 1 << 20, 256 << 20)] == [128, 128, 16, 8]


def test_large_adopted_and_held_files_end_a_run() -> None:
    files = files_of([10] * 30)
    files[5] = replace(files[5], size_bytes=501)
    files[11] = replace(files[11], parts=(FOREIGN,))
    plan = plan_merges(files, LIMITS, held={"p0-19": "it is damaged"}, is_asked=True)
    assert [(group.range.start, len(group.files)) for group in plan.groups] == [(0, 5), (60, 5), (120, 7), (200, 10)]
    assert [str(left) for left in plan.left] == [
        "it is large enough",
        "another program wrote it",
        "it can't be merged for now: it is damaged",
    ]


def test_large_file_in_stream_order_is_written_once_more_where_the_topic_asks_for_windows() -> None:
    files = files_of([501, 10, 600])
    files[2] = replace(files[2], clustering_checksum=7)
    plan = plan_merges(files, LIMITS, is_clustered=True)
    assert [(group.reason, sizes) for group, sizes in zip(plan.groups, sizes_of(plan), strict=True)] == [
        (MergeReason.CLUSTERED, [501])
    ]
    assert left_of(plan) == [LeftReason.NEWEST, LeftReason.LARGE]
    assert not plan_merges(files, LIMITS).groups


def test_ranges_without_a_record_end_no_run() -> None:
    assert sizes_of(plan_merges(files_of([10] * 14, gap=7), LIMITS)) == [[10] * 10]


def test_group_ends_where_the_next_file_would_go_beyond_the_target() -> None:
    plan = plan_merges(files_of([300, 300, 300, 300, 300, 300] + [10] * 4), LIMITS)
    assert sizes_of(plan) == [[300] * 3, [300] * 3]


def test_group_ends_at_the_most_files() -> None:
    plan = plan_merges(files_of([1] * 104), replace(LIMITS, most_growth=16))
    assert [len(group.files) for group in plan.groups] == [50, 50]


def test_file_is_written_again_only_for_a_larger_one() -> None:
    plan = plan_merges(files_of([400] + [10] * 20), LIMITS)
    assert sizes_of(plan) == [[10] * 16]
    assert str(plan.left[0]) == (
        "it waits for more files beside it: 17 files no larger, itself among them, have 560 bytes; merged at "
        "2 files of 10 times its size or 256 files of 2 times its size"
    )


def test_many_files_of_a_quiet_partition_are_merged_the_newest_too() -> None:
    files = files_of([100] + [1] * 40)
    limits = replace(LIMITS, files_per_group=1000)
    assert sizes_of(plan_merges(files, replace(limits, least_growth=100))) == []
    plan = plan_merges(files, replace(limits, least_growth=100), quiet={0})
    assert sizes_of(plan) == [[1] * 40]
    assert plan.groups[0].reason is MergeReason.QUIET


def test_large_and_small_by_turns_are_merged_when_they_are_too_many() -> None:
    limits = replace(LIMITS, files_per_group=1000, target_file_bytes=100_000, crowded=Demand(growth=2, files=60))
    plan = plan_merges(files_of(([1] * 20 + [1000]) * 3 + [1] * 4), limits)
    assert [(group.reason, len(group.files)) for group in plan.groups] == [(MergeReason.CROWDED, 63)]


def test_groups_that_spare_the_most_files_come_first() -> None:
    few, many = files_of([300] * 8), files_of([10] * 40, partition=1)
    assert [group.partition for group in plan_merges([*few, *many], LIMITS).groups] == [1, 0]


def test_partition_of_one_file_is_left() -> None:
    assert left_of(plan_merges(files_of([10]), LIMITS, is_asked=True)) == [LeftReason.ALONE]
    assert plan_merges([], LIMITS) == MergePlan(groups=(), left=())


SIZES = st.lists(st.one_of(st.integers(1, 30), st.integers(1, 1200)), max_size=120)
ANY_LIMITS = st.builds(
    MergeLimits,
    target_file_bytes=st.integers(50, 2000),
    files_per_group=st.integers(2, 60),
    newest_left=st.integers(1, 5),
    crowded=st.builds(Demand, growth=st.integers(2, 3), files=st.integers(2, 40)),
)


@given(st.lists(SIZES, max_size=3), ANY_LIMITS, st.booleans(), st.booleans(), st.sets(st.integers(0, 119)))
def test_plan_is_within_its_bounds_and_has_each_file_once(
    partitions: list[list[int]], limits: MergeLimits, is_quiet: bool, is_asked: bool, odd: set[int]
) -> None:
    files = [file for number, sizes in enumerate(partitions) for file in files_of(sizes, partition=number)]
    adopted = {file.path for index, file in enumerate(files) if index in odd}
    files = [replace(file, parts=(FOREIGN,)) if file.path in adopted else file for file in files]
    plan = plan_merges(files, limits, quiet={0, 1} if is_quiet else (), is_asked=is_asked)
    named = Counter([left.file.path for left in plan.left] + [file.path for g in plan.groups for file in g.files])
    assert named == Counter(file.path for file in files)
    assert [left.file for left in plan.left] == sorted(left.file for left in plan.left)
    place = {file.path: index for index, file in enumerate(files)}
    for group in plan.groups:
        check_group(group, limits)
        places = [place[file.path] for file in group.files]
        assert places == list(range(places[0], places[0] + len(places))), "nothing stands between"
        assert not any(file.path in adopted for file in group.files)


def check_group(group: MergeGroup, limits: MergeLimits) -> None:
    assert 2 <= len(group.files) <= limits.files_per_group
    assert group.size_bytes <= limits.target_file_bytes
    assert group.size_bytes >= 2 * max(file.size_bytes for file in group.files)
    assert {file.partition for file in group.files} == {group.partition}


@given(SIZES, ANY_LIMITS, st.booleans(), st.integers(0, 20))
def test_planning_comes_to_an_end(sizes: list[int], limits: MergeLimits, is_asked: bool, overhead: int) -> None:
    partition = SimulatedPartition(limits=limits, overhead_bytes=overhead)
    for size in sizes:
        partition.append(size)
    turns = 0
    while partition.compact(is_quiet=True, is_asked=is_asked):
        turns += 1
        # A byte's file at least doubles each time that the byte is written.
        assert turns <= 12
    assert partition.merges < max(1, len(sizes))


@given(SIZES)
def test_no_two_neighbours_are_left_that_a_merge_could_double_when_all_is_asked_for(sizes: list[int]) -> None:
    partition = SimulatedPartition(limits=LIMITS, overhead_bytes=0)
    for size in sizes:
        partition.append(size)
    while partition.compact(is_asked=True):
        pass
    for one, two in zip(partition.files, partition.files[1:], strict=False):
        assert one.size_bytes != two.size_bytes or LIMITS.is_large(one.size_bytes)


@pytest.mark.parametrize("held", ["", "why"])
def test_why_a_file_is_left_is_told_in_words(held: str) -> None:
    plan = plan_merges(files_of([1, 2]), LIMITS, held={"p0-0": held}, is_asked=True)
    assert str(plan.left[0]).startswith("it can't be merged for now")
    assert left_of(plan) == [LeftReason.HELD, LeftReason.ALONE]
