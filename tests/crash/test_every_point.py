"""Killed at any point and started again, a daemon loses, doubles, alters and gives away nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine.fault_points import ENVIRONMENT_VARIABLE, FaultPoint, armed, reach
from tests.crash.kill_programs import EVERY, ROOT, told_by
from tests.crash.small_history import ACTS
from tests.tiering.tiering_world import TieringWorld

PATIENCE_S = 3000 if EVERY else 900
LEFT_WRONG = ("findings", "short", "spooled", "raw", "unswept")


@pytest.mark.timeout(2 * PATIENCE_S)
def test_daemon_killed_at_any_point_leaves_a_successor_everything(tmp_path: Path) -> None:
    daemons = told_by("killed_daemons", tmp_path, patience_s=PATIENCE_S)
    undisturbed, runs = daemons[:ACTS], daemons[ACTS:]
    reached = {point for daemon in undisturbed for point in daemon["reached"]}
    assert reached == set(FaultPoint), "a point that no test reaches is no proof of anything"
    for daemon in undisturbed if EVERY else undisturbed[1:]:
        assert {run["point"] for run in runs if run["act"] == daemon["act"]} == daemon["reached"].keys()
    assert {run["point"] for run in runs} == reached
    if EVERY:
        assert len(runs) == sum(count for daemon in undisturbed for count in daemon["reached"].values())
    print(f"{len(runs)} kills survived, {sum(run['records'] for run in runs)} records audited")
    expected = {daemon["act"]: daemon["records"] for daemon in undisturbed}
    assert all(expected.values())
    assert [run for run in runs if not run["killed"] or run["records"] != expected[run["act"]]] == []
    assert [daemon for daemon in daemons if any(daemon[what] for what in LEFT_WRONG)] == []
    # All that may become one has, but for the newest.
    assert {daemon["files"] for daemon in daemons} == {2}


def test_points_lie_around_effects_and_not_around_records(tmp_path: Path) -> None:
    """What an unarmed point costs, a call and a look at a global, is paid a few dozen times a segment."""

    def reached_by(records: int) -> Counter[FaultPoint]:
        counts: Counter[FaultPoint] = Counter()
        world = TieringWorld(tmp_path / str(records))
        (partition,) = world.broker.create_topic("orders")
        world.broker.append_segment(partition, [b"value %d" % number for number in range(records)])
        loop = world.loop()
        with armed(lambda point: counts.update([point])):
            loop.cycle()
            loop.cycle()
        assert world.tiered_end(partition) == records
        return counts

    assert reached_by(10) == reached_by(100_000)


def test_every_point_has_a_row_that_says_what_it_leaves() -> None:
    text = (ROOT / "docs" / "commit_protocol.md").read_text()
    section = text.partition("## When the power fails")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert rows == list(FaultPoint)


def test_reach_tells_the_armed_hook_and_nobody_behind_the_block() -> None:
    reached: list[FaultPoint] = []
    with armed(reached.append):
        reach(FaultPoint.COMMIT_DECIDED)
    reach(FaultPoint.WRITER_TOLD)
    assert reached == [FaultPoint.COMMIT_DECIDED]


@pytest.mark.parametrize(
    ("order", "reaches"), [("ranges-written", 1), ("ranges-written#1", 1), ("ranges-written#3", 3)]
)
def test_environment_arms_a_process_to_kill_itself_at_the_nth_time(order: str, reaches: int) -> None:
    program = (
        "from engine.fault_points import FaultPoint, reach\n"
        "for _ in range(5):\n"
        "    print('x', flush=True)\n"
        "    reach(FaultPoint.RANGES_VERIFIED)\n"
        "    reach(FaultPoint.RANGES_WRITTEN)\n"
    )
    done = run_with(order, program)
    assert (done.returncode, done.stdout.count("x")) == (-9, reaches)
    assert done.stderr == "killed at ranges-written\n"


@pytest.mark.parametrize("order", ["no-such-point", "ranges-written#0", "ranges-written#x"])
def test_order_that_names_no_point_ends_the_start(order: str) -> None:
    done = run_with(order, "import engine.fault_points")
    assert done.returncode == 1
    assert ENVIRONMENT_VARIABLE in done.stderr


def run_with(order: str, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, ENVIRONMENT_VARIABLE: order},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
