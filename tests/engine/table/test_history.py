"""Which snapshots a commit lets go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from engine.errors import Invalid
from engine.table.commit.session import COMMIT_PATIENCE_MS
from engine.table.history import MAY_BE_UNANSWERED_MS, MOST_AT_ONCE, expired
from engine.table.history_limits import HistoryLimits

HOUR_MS = 60 * 60 * 1000
NOW_MS = 1_700_000_000_000
LIMITS = HistoryLimits(max_age_ms=10 * HOUR_MS, min_snapshots=3, max_snapshots=6)


def line(ages_hours: Iterable[float], *, first_id: int = 1, parent: int | None = None) -> list[Snapshot]:
    """One after the other, oldest first, numbered from ``first_id``."""
    made: list[Snapshot] = []
    for number, age in enumerate(ages_hours, first_id):
        made.append(
            Snapshot(
                snapshot_id=number,
                parent_snapshot_id=parent,
                sequence_number=number,
                timestamp_ms=NOW_MS - int(age * HOUR_MS),
                manifest_list=f"{number}.avro",
            )
        )
        parent = number
    return made


def erased_at(snapshots: list[Snapshot], *ids: int) -> list[Snapshot]:
    told = Summary(Operation.OVERWRITE, **{"floeberg.erased.0": "{}"})
    return [one.model_copy(update={"summary": told}) if one.snapshot_id in ids else one for one in snapshots]


def branch(snapshot_id: int, *, least: int | None = None, age_hours: float | None = None) -> SnapshotRef:
    return SnapshotRef(
        snapshot_id=snapshot_id,
        snapshot_ref_type=SnapshotRefType.BRANCH,
        min_snapshots_to_keep=least,
        max_snapshot_age_ms=None if age_hours is None else int(age_hours * HOUR_MS),
    )


def tag(snapshot_id: int) -> SnapshotRef:
    return SnapshotRef(snapshot_id=snapshot_id, snapshot_ref_type=SnapshotRefType.TAG)


OLD = (19, 18, 17, 16, 15, 14)
"""Hours: all older than the limit."""


@pytest.mark.parametrize(
    ("snapshots", "refs", "gone"),
    [
        pytest.param([], {}, [], id="new_table"),
        pytest.param(line(OLD), {"main": branch(6)}, [1, 2, 3], id="newest_stay_however_old"),
        pytest.param(line((12, 11, 9, 8, 7, 6)), {"main": branch(6)}, [1, 2], id="older_than_the_limit"),
        pytest.param(line((9, 8, 7, 6, 5, 4, 3, 2)), {"main": branch(8)}, [1, 2], id="more_than_the_most"),
        pytest.param(
            erased_at(line((9, 8, 7, 6, 5)), 4), {"main": branch(5)}, [1, 2, 3], id="what_was_before_an_erasure_goes"
        ),
        pytest.param(
            erased_at(line((9, 8, 7, 6, 0.05)), 2, 5),
            {"main": branch(5, least=9), "kept": tag(3)},
            [1, 2, 4],
            id="an_erasure_is_above_a_branchs_own_rules_and_below_a_tag",
        ),
        pytest.param(erased_at(line([0.05] * 4), 4), {"main": branch(4)}, [], id="before_an_erasure_but_unanswered"),
        pytest.param(line([0.05] * 9), {"main": branch(9)}, [], id="young_ones_may_be_unanswered"),
        pytest.param(line(OLD), {"main": branch(6), "kept": tag(1)}, [2, 3], id="named_by_a_tag"),
        pytest.param(
            [*line(OLD), *line(OLD, first_id=11, parent=2)],
            {"main": branch(6), "other": branch(16)},
            [1, 2, 3, 11, 12, 13],
            id="a_branch_is_kept_as_main_is",
        ),
        pytest.param(
            [*line(OLD), *line(OLD, first_id=11, parent=2)],
            {"main": branch(6), "other": branch(16, least=1)},
            [1, 2, 3, 11, 12, 13, 14, 15],
            id="least_of_a_branch_of_its_own",
        ),
        pytest.param(line(OLD), {"main": branch(6, least=5)}, [1], id="least_of_main_itself"),
        pytest.param(line(OLD), {"main": branch(6, age_hours=18)}, [1], id="age_of_main_itself"),
        pytest.param(
            line((9, 8, 7, 6, 5, 4, 3, 2)), {"main": branch(8, age_hours=24)}, [], id="age_of_its_own_is_not_cut_short"
        ),
        pytest.param(
            line((2,) * 8), {"main": branch(8, age_hours=1)}, [1, 2, 3, 4, 5], id="age_of_its_own_is_less_than_ours"
        ),
        pytest.param(
            [*line(OLD), *line((9.5, 9, 8, 7, 6, 5, 4), first_id=11, parent=6)],
            {"main": branch(3)},
            [4, 5, 6],
            id="what_is_on_no_branch_goes_by_its_age_alone",
        ),
        pytest.param(
            [*line((19, 18)), *line((15, 14, 13), first_id=5, parent=None)],
            {"main": branch(7), "kept": tag(2)},
            [1],
            id="history_with_a_gap",
        ),
    ],
)
def test_snapshots_that_go(snapshots: list[Snapshot], refs: Mapping[str, SnapshotRef], gone: list[int]) -> None:
    assert list(expired(snapshots, refs, LIMITS, NOW_MS)) == gone


def test_long_history_goes_a_part_at_a_time_the_oldest_first() -> None:
    snapshots = line(range(5000, 2000, -1))
    refs = {"main": branch(3000)}
    first = expired(snapshots, refs, LIMITS, NOW_MS)
    assert first == tuple(range(1, MOST_AT_ONCE + 1))
    left = [snapshot for snapshot in snapshots if snapshot.snapshot_id not in first]
    assert expired(left, refs, LIMITS, NOW_MS)[0] == MOST_AT_ONCE + 1


def test_ancestors_in_a_circle_end() -> None:
    one, two = line((19, 18))
    circle = [one.model_copy(update={"parent_snapshot_id": 2}), two]
    assert expired(circle, {"main": branch(2)}, LIMITS, NOW_MS) == ()


def test_clock_that_has_gone_back_lets_nothing_go_by_age() -> None:
    assert expired(line(OLD), {"main": branch(6)}, LIMITS, NOW_MS - 100 * HOUR_MS) == ()


def test_session_has_given_up_before_its_snapshot_may_go() -> None:
    assert MAY_BE_UNANSWERED_MS >= 2 * COMMIT_PATIENCE_MS


def test_bounds_that_exclude_each_other_are_invalid() -> None:
    with pytest.raises(Invalid, match="min_snapshots"):
        HistoryLimits(min_snapshots=11, max_snapshots=10)
