"""Records are erased of a topic that has a ``__latest`` table: it names the same files, and follows."""

from __future__ import annotations

from pathlib import Path

from engine.clock import SystemClock
from floeberg.sql.duckdb_condition import DuckdbCondition
from floeberg.tables.erasure import Eraser
from retention.erasure_condition import KeyCondition
from retention.erasure_report import ErasureReport
from tests.latest.latest_world import LatestWorld


def eraser(world: LatestWorld) -> Eraser:
    return Eraser(catalog=world.tiering.catalog, writer=world.tiering.writer(), clock=SystemClock())


def named(world: LatestWorld, report: ErasureReport) -> bool:
    told = Eraser.still_named(world.tiering.catalog, world.stream(), report)
    return any("orders__latest names old files" in line for line in told)


def test_erased_key_is_shown_no_more_and_others_are(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path)
    world.append([(b"alice", b"1"), (b"bob", b"1")])
    world.append([(b"alice", b"2"), (b"carol", b"1")])
    daemon = world.daemon()
    daemon.bring_up()
    report = eraser(world).erase(world.stream(), KeyCondition(world.stream(), [b"alice"]), keys=[b"alice"])
    assert report.record_count == 2
    assert named(world, report), "until its next turn it has what it had"
    daemon.bring_up()
    assert [(key, value) for _, _, key, value in world.shown()] == [(b"bob", b"1"), (b"carol", b"1")]
    assert world.shown_by_duckdb() == world.shown()
    world.append([(b"alice", b"3")])
    daemon.bring_up()
    assert (0, 4, b"alice", b"3") in world.shown()
    daemon.end()


def test_older_record_is_the_newest_where_the_newer_one_was_erased(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path)
    world.append([(b"alice", b"old"), (b"bob", b"1")])
    world.append([(b"alice", b"new"), (b"carol", b"1")])
    daemon = world.daemon()
    daemon.bring_up()
    where = "value = 'new'"
    eraser(world).erase(world.stream(), DuckdbCondition(world.stream(), where), where=where)
    daemon.bring_up()
    assert [(offset, value) for _, offset, key, value in world.shown() if key == b"alice"] == [(0, b"old")]
    daemon.end()
