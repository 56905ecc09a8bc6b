"""Files of attempts from before a sweep: refused, however late their commits come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.fault_points import FaultPoint, armed
from engine.table.ledger import Outcome
from tests.engine.table.table_examples import append_of, ensure_table, open_writer, outcomes, reopened


def test_file_begun_before_the_fence_is_refused_and_one_begun_after_it_committed(tmp_path: Path) -> None:
    mine, theirs = open_writer(tmp_path), open_writer(tmp_path)
    table = ensure_table(mine)
    outcomes(mine, table, append_of(table, 0, 5))
    before = reopened(tmp_path)
    stopped = append_of(before, 5, 9)
    fenced = theirs.fence_sweep(before, before.sequence_number)
    assert fenced.swept == before.sequence_number < fenced.sequence_number
    with pytest.raises(Unavailable, match="may have been swept"):
        mine.commit(before, [stopped])
    now = reopened(tmp_path)
    assert outcomes(mine, now, append_of(now, 5, 9, attempt="a2")) == [Outcome.COMMITTED]


def test_commit_decided_before_the_fence_and_sent_after_it_is_refused(tmp_path: Path) -> None:
    """A process that is stopped between its decision and its request, and goes on days later."""
    mine, theirs = open_writer(tmp_path), open_writer(tmp_path)
    table = ensure_table(mine)
    outcomes(mine, table, append_of(table, 0, 5))
    before = reopened(tmp_path)
    stopped = append_of(before, 5, 9)
    fences = iter([before.sequence_number])

    def meanwhile(point: FaultPoint) -> None:
        if point is FaultPoint.SNAPSHOT_STAGED and (begun_at := next(fences, None)) is not None:
            theirs.fence_sweep(before, begun_at)

    with armed(meanwhile), pytest.raises(Unavailable, match="may have been swept"):
        mine.commit(before, [stopped])
    assert reopened(tmp_path).ledger[0].end == 5


def test_file_refused_takes_no_other_partitions_append_along(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 5))
    before = reopened(tmp_path)
    stopped = append_of(before, 5, 9)
    fenced = writer.fence_sweep(before, before.sequence_number)
    assert outcomes(writer, fenced, append_of(fenced, 0, 3, partition=1)) == [Outcome.COMMITTED]
    with pytest.raises(Unavailable):
        writer.commit(fenced, [stopped])


def test_fence_never_moves_back_and_makes_no_snapshot_for_what_stands(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    for start in (0, 5):
        outcomes(writer, table, append_of(table, start, start + 5))
    fenced = writer.fence_sweep(table, 2)
    assert writer.fence_sweep(table, 1).snapshot_id == fenced.snapshot_id
    assert reopened(tmp_path).swept == 2
    assert reopened(tmp_path).foreign is None


def test_file_of_a_later_state_than_the_catalogs_is_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    ahead = replace(table, sequence_number=table.sequence_number + 1)
    with pytest.raises(Unavailable, match="later state"):
        writer.commit(table, [append_of(ahead, 0, 5)])
