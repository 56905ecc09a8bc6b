"""Which files a horizon passes: from the oldest on, whole, each for a reason, and none after one that stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.offset_range import OffsetRange
from engine.table.adopted_range import ForeignFile
from engine.table.manifests import TableFile
from retention.horizon_planner import LeaveReason, StayReason, plan_horizon
from topics.retention_rule import Keep

NOW_MS = 1_000_000
FOREIGN = ForeignFile(path="f", partition=0, size_bytes=1, record_count=1)


def files_of(ages_ms: Sequence[int | None], *, size_bytes: int = 100, foreign: int | None = None) -> list[TableFile]:
    """A file of ten offsets for each age of its newest record, None where that is not known."""
    return [
        TableFile(
            partition=0,
            range=OffsetRange(start=index * 10, end=index * 10 + 10),
            path=f"{index}",
            size_bytes=size_bytes,
            record_count=10,
            leader_epoch=0,
            newest_timestamp_ms=None if age_ms is None else NOW_MS - age_ms,
            parts=(FOREIGN,) if index == foreign else (),
        )
        for index, age_ms in enumerate(ages_ms)
    ]


AGED = Keep(age_ms=50)
SIZED = Keep(size_bytes=250)


@pytest.mark.parametrize(
    ("files", "keep", "left", "reason", "due_ms"),
    [
        pytest.param(files_of([99, 60, 9]), Keep(), 0, StayReason.FOR_EVER, None, id="no_bound_keeps_all"),
        pytest.param(files_of([99, 60, 9]), AGED, 2, StayReason.YOUNG, NOW_MS + 41, id="old_ones_leave"),
        pytest.param(files_of([51, 50]), AGED, 1, StayReason.YOUNG, NOW_MS, id="exactly_as_old_stays"),
        pytest.param(files_of([99, 9, 99]), AGED, 1, StayReason.YOUNG, NOW_MS + 41, id="young_one_keeps_what_follows"),
        pytest.param(files_of([99, -500, 99]), AGED, 1, StayReason.YOUNG, NOW_MS + 550, id="time_to_come_keeps_it"),
        pytest.param(files_of([99, None, 99]), AGED, 1, StayReason.NO_TIME, None, id="unknown_time_keeps_it"),
        pytest.param(files_of([99, 99]), AGED, 2, None, None, id="all_may_leave"),
        pytest.param(files_of([], size_bytes=1), AGED, 0, None, None, id="no_file"),
        pytest.param(files_of([9] * 4), SIZED, 1, StayReason.FITS, None, id="as_much_stays_as_is_kept"),
        pytest.param(files_of([None] * 4), SIZED, 1, StayReason.FITS, None, id="size_needs_no_time"),
        pytest.param(files_of([9] * 2), SIZED, 0, StayReason.FITS, None, id="less_than_is_kept_stays"),
        pytest.param(files_of([9], size_bytes=999), SIZED, 0, StayReason.FITS, None, id="last_one_stays_whatever_size"),
        pytest.param(files_of([99] * 3, foreign=1), AGED, 1, StayReason.FOREIGN, None, id="others_file_keeps_the_rest"),
        pytest.param(
            files_of([99, 9, 9, 9]),
            Keep(age_ms=50, size_bytes=300),
            1,
            StayReason.YOUNG,
            NOW_MS + 41,
            id="either_bound_makes_it_leave",
        ),
    ],
)
def test_leading_files_leave_and_the_first_that_stays_says_why(
    files: list[TableFile], keep: Keep, left: int, reason: StayReason | None, due_ms: int | None
) -> None:
    plan = plan_horizon(files, keep, now_ms=NOW_MS)
    assert [leaving.file for leaving in plan.leaving] == files[:left]
    assert plan.horizon == left * 10
    if reason is None:
        assert plan.staying is None
    else:
        assert plan.staying is not None
        assert (plan.staying.file, plan.staying.reason, plan.staying.due_ms) == (files[left], reason, due_ms)


def test_each_file_leaves_for_its_own_reason() -> None:
    plan = plan_horizon(files_of([9, 99, 9, 9, 9]), Keep(age_ms=50, size_bytes=300), now_ms=NOW_MS)
    assert [leaving.reason for leaving in plan.leaving] == [LeaveReason.SIZE, LeaveReason.SIZE]
    plan = plan_horizon(files_of([9, 99, 9, 9]), Keep(age_ms=50, size_bytes=300), now_ms=NOW_MS)
    assert [leaving.reason for leaving in plan.leaving] == [LeaveReason.SIZE, LeaveReason.AGE]


@given(
    ages_ms=st.lists(st.none() | st.integers(-20, 120), max_size=8),
    age_ms=st.none() | st.integers(1, 100),
    size_bytes=st.none() | st.integers(1, 900),
    foreign=st.none() | st.integers(0, 7),
)
def test_nothing_young_unknown_or_foreign_ever_leaves_but_for_size(
    ages_ms: list[int | None], age_ms: int | None, size_bytes: int | None, foreign: int | None
) -> None:
    files = files_of(ages_ms, foreign=foreign)
    keep = Keep(age_ms=age_ms, size_bytes=size_bytes)
    plan = plan_horizon(files, keep, now_ms=NOW_MS)
    assert [leaving.file for leaving in plan.leaving] == files[: len(plan.leaving)]
    for leaving in plan.leaving:
        assert not leaving.file.parts
        if leaving.reason is LeaveReason.AGE:
            assert age_ms is not None
            assert leaving.file.newest_timestamp_ms is not None
            assert NOW_MS - leaving.file.newest_timestamp_ms > age_ms
        else:
            assert size_bytes is not None
            after = files[files.index(leaving.file) + 1 :]
            assert sum(file.size_bytes for file in after) >= size_bytes
    if keep.is_for_ever:
        assert not plan.leaving
