"""The own files of a ``__latest`` table, its delete files and metadata; what data files it names are the topic's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.fault_points import FaultPoint, armed
from engine.table.history import MAY_BE_UNANSWERED_MS
from floeberg.tables.erasure import Eraser
from retention.erasure_condition import KeyCondition
from retention.sweep_planner import Reason
from tests.latest.latest_world import TOPIC
from tests.retention.swept_latest import FIRST, THEN, SweptLatest


class Killed(BaseException):
    """The process ends here."""


def erase_key(world: SweptLatest, key: bytes) -> None:
    table = world.stream()
    eraser = Eraser(catalog=world.tiering.catalog, writer=world.tiering.writer(), clock=world.clock)
    assert eraser.erase(table, KeyCondition(table, [key]), keys=[key]).record_count == 2


@pytest.fixture
def world(tmp_path: Path) -> SweptLatest:
    world = SweptLatest(tmp_path)
    world.append(FIRST)
    world.daemon().bring_up()
    return world


def killed_before_its_commit(world: SweptLatest) -> None:
    def kill(point: FaultPoint) -> None:
        if point is FaultPoint.LATEST_DELETES_WRITTEN:
            raise Killed

    daemon = world.daemon("killed")
    with armed(kill), suppress(Killed):
        daemon.turn()
    daemon.end()


def test_delete_files_that_no_commit_took_go_and_the_others_stay(world: SweptLatest) -> None:
    before = world.delete_files()
    world.append(THEN)
    killed_before_its_commit(world)
    left = world.delete_files().keys() - before.keys()
    assert left
    turn = world.swept_after_the_grace()
    assert turn.removed.files >= len(left)
    assert turn.held is None
    assert not left & world.delete_files().keys()
    assert before.keys() <= world.delete_files().keys()
    assert turn.amounts[Reason.FOREIGN].files == 0
    world.daemon("next").bring_up()
    world.check_current()


def test_commit_of_delete_files_that_were_swept_is_refused_and_made_again(world: SweptLatest) -> None:
    before = world.delete_files()
    world.append(THEN)
    stopped = world.daemon("stopped")
    sweeps = iter([world.swept_after_the_grace])

    def goes_on_days_later(point: FaultPoint) -> None:
        if point is FaultPoint.LATEST_DELETES_WRITTEN and (swept := next(sweeps, None)) is not None:
            assert swept().removed.files

    with armed(goes_on_days_later), pytest.raises(Unavailable, match="may have been swept"):
        stopped.turn()
    stopped.bring_up()
    assert before.keys() <= world.delete_files().keys()
    world.check_current()


def test_data_files_of_the_topic_that_the_latest_table_names_are_live_to_the_topics_own_sweep(
    world: SweptLatest,
) -> None:
    turn = world.sweep(is_latest=False).turn()
    assert turn.latest == f"kafka.{TOPIC}__latest"
    assert turn.amounts[Reason.GRACE].files == 0
    assert world.sweep().turn().latest is None


def test_history_from_before_an_erasure_is_cut_though_nobody_commits(world: SweptLatest) -> None:
    erase_key(world, b"a")
    world.daemon("next").bring_up()
    assert len(world.latest_table().metadata.snapshots) > 1
    world.sweep().turn()
    assert len(world.latest_table().metadata.snapshots) > 1, "an unanswered commit may still need them"
    world.clock.ahead_ms += MAY_BE_UNANSWERED_MS + 1
    world.sweep().turn()
    assert len(world.latest_table().metadata.snapshots) == 1
    assert [key for _, _, key, _ in world.shown()] == [b"b"]
