"""Killed at moments nobody chose, or answered wrong, every record is in the table exactly once.

The moments that somebody chose are in tests/crash.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import CommitUnknown, Corrupt
from engine.parquet.settings import ParquetSettings
from engine.table.commit.range_append import CommitResult, RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from floeberg.processes.tied_process import tied
from tests.support.interfering_workers import InterferingWorkers, ReadBackAnswers, ReadBackTasks
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of

ROOT = Path(__file__).resolve().parent.parent.parent


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


@pytest.fixture
def orders(world: TieringWorld) -> TopicIdPartition:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(0, 10))
    world.broker.append_segment(partition, values(10, 20))
    return partition


class UnansweredCommit(TableWriter):
    """The commit lands and its answer is lost."""

    def commit(
        self, table: TopicTable, appends: Sequence[RangeAppend], settings: ParquetSettings | None = None
    ) -> CommitResult:
        super().commit(table, appends, settings)
        raise CommitUnknown("the catalog's answer was lost")


def test_commit_whose_answer_was_lost_is_found_in_the_ledger(world: TieringWorld, orders: TopicIdPartition) -> None:
    loop = world.loop(writer=UnansweredCommit(world.catalog, world.clock))
    assert isinstance(report_of(loop.cycle(), orders).problem, CommitUnknown)
    assert ranges_of(loop.cycle(), orders) == []
    assert world.offsets(orders) == list(range(20))


def test_file_damaged_between_writing_and_verifying_is_not_committed_and_said(
    world: TieringWorld, orders: TopicIdPartition
) -> None:
    class DamagedOnce(InterferingWorkers):
        damaged = False

        def read_back(self, tasks: ReadBackTasks) -> ReadBackAnswers:
            if not self.damaged:
                self.damaged = True
                path = Path(tasks[0].file.path.removeprefix("file://"))
                content = bytearray(path.read_bytes())
                content[len(content) // 2] ^= 1
                path.write_bytes(content)
            return super().read_back(tasks)

    loop = world.loop(workers=DamagedOnce())
    report = loop.cycle()
    assert report.commits == 0
    assert isinstance(report_of(report, orders).problem, Corrupt)
    world.clock.ahead_ms += 120_000
    assert ranges_of(loop.cycle(), orders) == [(0, 10), (10, 20)]
    assert world.offsets(orders) == list(range(20))


KILLED_LOOPS = """
import os, signal, sys, time
from pathlib import Path
from floeberg.processes.tied_process import end_with_parent
from tests.tiering.tiering_world import TieringWorld
from tiering.tiering_limits import TieringLimits

for turn in range(60):
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        end_with_parent(parent)
        loop = TieringWorld.reopen(Path(sys.argv[1])).loop(
            limits=TieringLimits(max_tasks_per_cycle=4, small_range_bytes=0)
        )
        while loop.cycle().more:
            pass
        os._exit(0)
    time.sleep((30 + 37 * turn % 400 + 10 * turn) / 1000)
    os.kill(pid, signal.SIGKILL)
    if os.waitpid(pid, 0)[1] == 0:
        break
    print(f"kill {turn}", flush=True)
"""
"""Each loop is a process of its own, forked from one that has paid for the imports; until one ends by itself."""


def test_killed_at_random_times_it_commits_every_record_exactly_once(world: TieringWorld) -> None:
    """SIGKILL over a backlog, at moments that no code of ours chose."""
    partitions = world.broker.create_topic("orders", partitions=4)
    for segment in range(12):
        for partition in partitions:
            world.broker.append_segment(partition, values(segment * 50, segment * 50 + 50))
    world.broker.save(world.root / "broker.pickle")
    command = tied([sys.executable, "-c", KILLED_LOOPS, str(world.root)])
    done = subprocess.run(command, cwd=ROOT, check=True, timeout=120, stdout=subprocess.PIPE)
    assert done.stdout.count(b"kill ") > 1
    loop = world.loop()
    while loop.cycle().commits:
        pass
    for partition in partitions:
        assert world.offsets(partition) == list(range(600))
        assert world.tiered_end(partition) == 600
