"""A commit of a ``__latest`` table that was planned before a sweep of the topic's table names nothing that is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from engine.errors import Unavailable
from engine.fault_points import FaultPoint, armed
from engine.table.catalog.access import drop
from engine.table.commit.writer import TableWriter
from engine.table.history import MAY_BE_UNANSWERED_MS
from engine.table.history_limits import HistoryLimits
from engine.table.topic_table import TopicTable
from tests.latest.latest_world import TOPIC
from tests.retention.sweep_world import GRACE_MS
from tests.retention.swept_latest import FIRST, THEN, SweptLatest

NEWEST_ALONE = HistoryLimits(max_age_ms=1, min_snapshots=1, max_snapshots=1)


@pytest.fixture
def world(tmp_path: Path) -> SweptLatest:
    world = SweptLatest(tmp_path)
    world.append(FIRST)
    return world


def days_go_by(world: SweptLatest) -> set[str]:
    """The topic's files become one, its history ends, and a sweep removes what nothing names; which files are gone."""
    before = {file.path for file in world.files()}
    world.merge(world.files())
    world.clock.ahead_ms += MAY_BE_UNANSWERED_MS + 1
    TableWriter(world.tiering.catalog, world.clock).expire(world.stream(), NEWEST_ALONE)
    world.sweep(is_latest=False).turn()
    world.clock.ahead_ms += GRACE_MS
    assert world.sweep(is_latest=False).turn().removed.files
    return {path for path in before if not world.stream().warehouse.exists(path)}


def once_at(wanted: FaultPoint, happens: Callable[[], object]) -> Callable[[FaultPoint], None]:
    waiting = [happens]

    def at(point: FaultPoint) -> None:
        if point is wanted and waiting:
            waiting.pop()()

    return at


def check_names_what_is_there(world: SweptLatest) -> None:
    table = world.latest_table()
    for snapshot in table.metadata.snapshots:
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
            assert world.stream().warehouse.exists(task.file.file_path), (snapshot.snapshot_id, task.file.file_path)


@pytest.mark.parametrize("point", [FaultPoint.LATEST_DELETES_WRITTEN, FaultPoint.SNAPSHOT_STAGED])
def test_plan_from_before_a_sweep_is_made_again(world: SweptLatest, point: FaultPoint) -> None:
    stopped = world.daemon("stopped")
    stopped.bring_up()
    (named,) = world.files()
    world.append(THEN)
    gone: set[str] = set()
    with armed(once_at(point, lambda: gone.update(days_go_by(world)))):
        turn = stopped.turn()
    assert (turn.gone, turn.committed, turn.goes_on) == (1, 0, True)
    assert gone, "nothing that was planned to be named was swept"
    assert named.path not in gone, "the table names it"
    check_names_what_is_there(world)
    stopped.bring_up()
    check_names_what_is_there(world)
    world.check_current()
    stopped.end()


def test_table_that_was_not_there_when_a_sweep_looked_is_planned_by_a_state_from_after_it(world: SweptLatest) -> None:
    """No fence can be put on it."""
    world.append(THEN)
    first = world.daemon("first")
    right, gone = first.writer.ensure_latest, set[str]()

    def late(stream: TopicTable) -> TopicTable:
        if not gone:
            gone.update(days_go_by(world))
        return right(stream)

    with mock.patch.object(first.writer, "ensure_latest", late):
        first.bring_up()
    assert gone
    check_names_what_is_there(world)
    world.check_current()
    first.end()


def test_plan_for_a_table_that_was_dropped_is_not_taken_by_the_one_in_its_place(world: SweptLatest) -> None:
    world.append(THEN)
    stopped, other = world.daemon("stopped"), world.daemon("other")
    gone: set[str] = set()

    def dropped_and_made_again() -> None:
        drop(world.tiering.catalog, ("kafka", f"{TOPIC}__latest"))
        gone.update(days_go_by(world))
        other.writer.ensure_latest(world.stream())

    with armed(once_at(FaultPoint.LATEST_DELETES_WRITTEN, dropped_and_made_again)):
        turn = stopped.turn()
    assert (turn.gone, turn.committed) == (1, 0)
    assert gone
    stopped.bring_up()
    check_names_what_is_there(world)
    world.check_current()
    for daemon in (stopped, other):
        daemon.end()


@pytest.mark.parametrize("point", [FaultPoint.SWEEP_FENCED, FaultPoint.SWEEP_FENCED_LATEST])
def test_sweep_that_ends_behind_a_fence_is_ended_by_the_next_one(world: SweptLatest, point: FaultPoint) -> None:
    daemon = world.daemon()
    daemon.bring_up()
    world.append(THEN)

    def ends() -> None:
        raise Unavailable("stopped")

    with armed(once_at(point, ends)), pytest.raises(Unavailable, match="stopped"):
        days_go_by(world)
    daemon.bring_up()
    check_names_what_is_there(world)
    world.check_current()
    assert world.sweep(is_latest=False).turn().removed.files
    check_names_what_is_there(world)
    world.check_current()
    daemon.end()


def test_fence_makes_no_snapshot_where_it_stands_and_never_moves_back(world: SweptLatest) -> None:
    daemon = world.daemon()
    daemon.bring_up()
    before = world.stream()
    world.append(THEN)
    writer = TableWriter(world.tiering.catalog, world.clock)
    writer.fence_latest(world.stream())
    fenced = world.latest_table().metadata.current_snapshot_id
    for stream in (world.stream(), before):
        writer.fence_latest(stream)
        assert world.latest_table().metadata.current_snapshot_id == fenced
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_fence_upon_another_programs_change_makes_nobody_believe_it(world: SweptLatest) -> None:
    daemon = world.daemon()
    daemon.bring_up()
    world.latest_table().delete("kafka_offset = 1")
    TableWriter(world.tiering.catalog, world.clock).fence_latest(world.stream())
    assert world.lines() == {}
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_topics_table_that_is_behind_the_fence_is_told_with_what_to_do(world: SweptLatest) -> None:
    """Somebody set the topic's table back in the catalog, and not the other one."""
    daemon = world.daemon()
    daemon.bring_up()
    before = world.stream()
    world.append(THEN)
    TableWriter(world.tiering.catalog, world.clock).fence_latest(world.stream())
    was_set_back = mock.patch.object(daemon.writer, "open", return_value=before)
    with was_set_back, pytest.raises(Unavailable, match="an earlier state than") as told:
        daemon.turn()
    assert "drop the __latest table" in str(told.value.next_step)
    drop(world.tiering.catalog, ("kafka", f"{TOPIC}__latest"))
    daemon.bring_up()
    world.check_current()
    daemon.end()
