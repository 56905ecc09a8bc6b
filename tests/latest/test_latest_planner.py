"""What is done next for a partition, by what the index, the line and the files say of each other."""

from __future__ import annotations

import numpy as np
import pytest
from pyiceberg.manifest import DataFileContent

from engine.offset_range import OffsetRange
from engine.table.latest.keyed_rows import StreamFile
from engine.table.latest.named_files import NamedFile, PartitionNames
from latest.planner import PartitionState, Step, advance_end, plan_files, plan_partition, units, visible


def file(start: int, end: int, rows: int | None = None) -> StreamFile:
    count = end - start if rows is None else rows
    covered = OffsetRange(start=start, end=end)
    return StreamFile(partition=0, range=covered, path=f"{start}-{end}", record_count=count)


def names(*files: StreamFile) -> PartitionNames:
    return PartitionNames(
        data={
            one.path: NamedFile(
                path=one.path,
                partition=0,
                record_count=one.record_count,
                size_bytes=1,
                content=DataFileContent.DATA,
                manifest="m",
                stream=one,
            )
            for one in files
        }
    )


TEN, TWENTY, THIRTY = file(0, 10), file(10, 20), file(20, 30)
ALL = (TEN, TWENTY, THIRTY)


@pytest.mark.parametrize(
    ("folded", "line_end", "expected"),
    [
        (None, None, (Step.BUILD, 0, 30, False)),
        (20, None, (Step.BUILD, 20, 30, False)),
        (25, 20, (Step.BUILD, 25, 30, False)),
        (40, 20, (Step.BUILD, 0, 30, True)),
        (20, 40, (Step.BUILD, 20, 30, False)),
        (None, 20, (Step.CATCH_UP, 0, 20, False)),
        (10, 20, (Step.CATCH_UP, 10, 20, False)),
        (20, 20, (Step.ADVANCE, 20, 30, False)),
        (30, 30, (Step.NOTHING, 30, 30, False)),
    ],
)
def test_index_and_line_decide_what_is_done(
    folded: int | None, line_end: int | None, expected: tuple[Step, int, int, bool]
) -> None:
    state = PartitionState(folded=folded, line_end=line_end, stream_end=30, files=ALL, named=names(*ALL))
    plan = plan_partition(state, fold_rows=100, build_factor=4)
    assert (plan.step, plan.fold.start, plan.fold.end, plan.forgets) == expected


@pytest.mark.parametrize(
    ("folded", "fold_rows", "build_factor", "expected"),
    [
        (10, 5, 4, (Step.ADVANCE, 20)),  # a unit fills it
        (10, 5, 3, (Step.BUILD, 30)),  # twenty are to come, ten are there
        (20, 2, 3, (Step.ADVANCE, 30)),  # ten are to come, twenty are there
        (10, 100, 1, (Step.ADVANCE, 30)),
    ],
)
def test_much_to_come_is_taken_in_piece_by_piece_or_all_built(
    folded: int, fold_rows: int, build_factor: int, expected: tuple[Step, int]
) -> None:
    state = PartitionState(folded=folded, line_end=folded, stream_end=30, files=ALL, named=names(*ALL))
    plan = plan_partition(state, fold_rows=fold_rows, build_factor=build_factor)
    assert (plan.step, plan.fold.end) == expected


def test_files_that_were_replaced_are_named_again_and_those_without_a_visible_row_are_not_missed() -> None:
    def step(named: PartitionNames) -> Step:
        state = PartitionState(folded=30, line_end=30, stream_end=30, files=ALL, named=named)
        return plan_partition(state, fold_rows=100, build_factor=4).step

    assert step(names(TEN, file(10, 15), file(15, 20), THIRTY)) is Step.ADVANCE
    assert step(names(TEN)) is Step.NOTHING


def test_files_that_overlap_are_read_together() -> None:
    files = (file(0, 10), file(5, 20), file(15, 18), file(20, 30), file(35, 40))
    found = [(str(settled), [one.path for one in unit]) for settled, unit in units(files, OffsetRange(start=3, end=50))]
    assert found == [
        ("[3, 20)", ["0-10", "5-20", "15-18"]),
        ("[20, 30)", ["20-30"]),
        ("[30, 50)", ["35-40"]),
    ]
    assert advance_end(files, OffsetRange(start=3, end=50), 1) == 20
    assert advance_end(files, OffsetRange(start=3, end=50), 36) == 30
    assert advance_end(files, OffsetRange(start=3, end=50), 1000) == 50
    assert advance_end((), OffsetRange(start=3, end=50), 1) == 50


def test_files_change_that_are_new_or_lose_rows_or_take_the_place_of_others() -> None:
    merged = file(0, 20)
    fold = OffsetRange(start=30, end=40)
    new = file(30, 40)
    plan = plan_files((merged, THIRTY, new), names(TEN, TWENTY, THIRTY), fold, np.array([3, 4]))
    assert ([one.path for one in plan.remade], [one.path for one in plan.sources]) == (
        ["0-20", "30-40"],
        ["0-10", "10-20"],
    )
    plan = plan_files((TEN, TWENTY, THIRTY), names(TEN, THIRTY), OffsetRange(start=30, end=30), np.array([9, 20]))
    assert [one.path for one in plan.remade] == ["0-10", "20-30"]


def test_rows_are_visible_that_were_and_are_not_superseded_and_those_that_are_shown_of_the_new_ones() -> None:
    found = visible(
        np.array([3, 1, 2, 5, 4]),
        np.array([True, False, True, True, True]),
        OffsetRange(start=4, end=6),
        np.array([2]),
        np.array([5]),
    )
    assert found.tolist() == [True, False, False, True, False]
