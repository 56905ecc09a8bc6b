"""Two daemons over one table: one that slept while another took over, and two on the same log directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.schema import Schema

from engine.fault_points import FaultPoint, armed
from tests.tiering.tiering_world import TieringWorld, report_of
from tiering.planner import Waiting
from tiering.spool import LogDirClaims, spool_root
from tiering.tiering_limits import TieringLimits

_ONE_A_CYCLE = TieringLimits(
    lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0, max_tasks_per_cycle=1, small_range_bytes=0
)


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)


def test_loop_that_slept_through_a_change_of_leader_is_fenced_and_tells_it_after_the_problem_is_over(
    world: TieringWorld,
) -> None:
    (who,) = world.broker.create_topic("orders")
    for number in range(3):
        world.broker.append_segment(who, [b"%d" % number] * 10)
    zombie, successor = world.loop(), world.loop(limits=_ONE_A_CYCLE)

    def take_over(point: FaultPoint) -> None:
        if point is FaultPoint.RANGES_VERIFIED and world.broker.view(who).leader_epoch == 0:
            world.broker.port.set_view(who, leader_epoch=1)
            assert successor.cycle().commits == 1

    with armed(take_over):
        report = report_of(zombie.cycle(), who)
    assert world.tiered_end(who) == 10
    assert report.status.refusals == 2
    assert "[20, 30) in epoch 0: fenced" in (report.status.last_refusal or "")
    assert report.problem is not None

    world.broker.port.set_view(who, leader_id=2)
    report = report_of(zombie.cycle(), who)
    assert report.waiting is not None
    assert report.waiting.kind is Waiting.LEADER_ELSEWHERE
    assert report.problem is None
    assert "fenced" in (report.status.last_refusal or "")
    assert world.offsets(who) == list(range(10))


_OTHER_PROCESS = """
import sys
from pathlib import Path
from tiering.spool import LogDirClaims
claims = LogDirClaims([Path(sys.argv[1])])
print(len(list(claims.rivals())), flush=True)
sys.stdin.read()
"""


def test_log_directory_of_another_process_is_a_problem_that_names_it_until_it_ends(tmp_path: Path) -> None:
    log_dir = tmp_path / "kafka-logs"
    log_dir.mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS, str(log_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "0\n"
    claims = LogDirClaims([log_dir])
    (problem,) = claims.rivals()
    assert f"process {other.pid}" in str(problem)
    assert [str(again) for again in claims.rivals()] == [str(problem)]
    other.communicate()
    assert list(claims.rivals()) == []
    assert not list(spool_root(log_dir).glob("*/*"))


def test_log_directory_whose_spool_can_not_be_made_has_no_claim(tmp_path: Path) -> None:
    log_dir = tmp_path / "kafka-logs"
    log_dir.mkdir()
    spool_root(log_dir).write_text("in the way")
    assert list(LogDirClaims([log_dir]).rivals()) == []


def test_loop_whose_work_was_done_by_another_goes_on_with_a_topic_that_has_no_table_yet(world: TieringWorld) -> None:
    (orders,), (refunds,) = world.broker.create_topic("orders"), world.broker.create_topic("refunds")
    slow = world.loop(limits=_ONE_A_CYCLE)
    slow.cycle()
    world.broker.append_segment(orders, [b"1"] * 10)
    assert world.loop(limits=_ONE_A_CYCLE).cycle().commits == 1
    world.broker.append_segment(refunds, [b"2"] * 10)
    # It plans orders by the table it knew, which was none, and finds the work done: refunds comes up, unprepared.
    reports = [slow.cycle(), slow.cycle()]
    assert [report.problems for report in reports] == [(), ()]
    assert [report_of(report, refunds).problem for report in reports] == [None, None]
    assert world.offsets(refunds) == list(range(10))
    assert world.offsets(orders) == list(range(10))


def test_topic_whose_table_can_not_be_opened_takes_no_other_topics_place(world: TieringWorld) -> None:
    """``audit`` is planned first and can't be done; one range a cycle is all that is planned."""
    (audit,), (orders,) = world.broker.create_topic("audit"), world.broker.create_topic("orders")
    for who in (audit, orders):
        world.broker.append_segment(who, [b"1"] * 10)
    world.catalog.create_namespace("kafka")
    world.catalog.create_table("kafka.audit", schema=Schema())
    report = world.loop(limits=_ONE_A_CYCLE).cycle()
    assert "is not a topic's" in str(report_of(report, audit).problem)
    assert report_of(report, orders).problem is None
    assert world.offsets(orders) == list(range(10))
