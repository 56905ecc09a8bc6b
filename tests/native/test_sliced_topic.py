"""A native topic whose records are in the table before their segments are closed: many small files cover a segment."""

from __future__ import annotations

import itertools

import pytest

from engine.offset_range import OffsetRange
from engine.table.live_files import LiveFiles
from tests.native.clients import CLIENTS
from tests.native.conftest import SLICED
from tests.native.stage import TIERED, NativeStage, eventually, sample

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]

SLICE = 800
SLICES = 20


def produce_slices(stage: NativeStage, count: int, *, start: int = 0) -> int:
    """Each slice is in the table before the next is produced; the end."""
    for number in range(count):
        end = start + (number + 1) * SLICE
        stage.produce(SLICED, sample(end - SLICE, SLICE))

        def is_there(end: int = end) -> bool:
            found = [report.status.tiered_end for report in stage.reports() if report.partition.topic == SLICED]
            return found == [end]

        eventually(is_there, lambda: stage.describe(SLICED))
    return start + count * SLICE


def files_by_segment(stage: NativeStage, bases: list[int]) -> dict[int, list[OffsetRange]]:
    """Of each of the segments that begin there, the ranges of the files that hold a part of it; not of the last."""
    table = stage.table(SLICED)
    files = LiveFiles(tables=1, snapshots=1).of(table, 0)
    return {
        base: [file.range for file in files.overlapping(OffsetRange(start=base, end=following))]
        for base, following in itertools.pairwise(bases)
    }


@pytest.fixture(scope="module")
def end(stage: NativeStage) -> int:
    """All closed segments are gone from the broker's disk; the rest was never in a closed one."""
    stage.create(SLICED, TIERED)
    bases: set[int] = set()
    end = 0
    for _ in range(4):
        end = produce_slices(stage, SLICES // 4, start=end)
        bases.update(map(int, stage.local_segments(SLICED)))
    covered = files_by_segment(stage, sorted({0, *bases}))
    assert max(len(ranges) for ranges in covered.values()) > 2, covered
    stage.await_history_gone(SLICED)
    return end


@pytest.mark.parametrize("client", CLIENTS)
def test_history_that_was_copied_in_slices_is_read_whole(stage: NativeStage, end: int, client: str) -> None:
    found = CLIENTS[client](stage.broker.bootstrap, SLICED, 0, end, lambda _: None, False)
    assert found == list(enumerate(sample(0, end)))


def test_table_with_slices_is_sound(stage: NativeStage, end: int) -> None:
    assert stage.fsck(SLICED).is_healthy
    assert [offset for offset, _ in stage.stored(SLICED)] == list(range(end))


def test_copy_is_answered_by_a_daemon_that_verified_none_of_the_slices(stage: NativeStage, end: int) -> None:
    with stage.closed_door():
        end = produce_slices(stage, SLICES // 2, start=end)
        assert len(stage.local_segments(SLICED)) > 1, "a segment was closed and could not be copied"
    stage.await_history_gone(SLICED)
    found = CLIENTS["confluent-kafka"](stage.broker.bootstrap, SLICED, 0, end, lambda _: None, False)
    assert found == list(enumerate(sample(0, end)))
