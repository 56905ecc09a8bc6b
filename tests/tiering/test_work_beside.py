"""What becomes due while a large segment is worked on does not wait for it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from engine.clock import SystemClock
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.status_board import StatusBoard
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.tiering.planner_cases import partition as some_partition
from tests.tiering.tiering_world import TieringWorld, ranges_of
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.planner import Waiting
from tiering.range_work import Job, RangeSteps, WorkDone
from tiering.tiering_limits import TieringLimits
from tiering.work_beside import WorkBeside
from workers.workers import InProcessWorkers

LIMITS = TieringLimits(
    small_range_bytes=2000, cycle_interval_ms=10, lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0
)
PATIENCE_SECONDS = 30


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


class HeldWorkers(InterferingWorkers):
    """Rewrites of one partition begin once they are ``released``."""

    def __init__(self, held: TopicIdPartition) -> None:
        self._held = held
        self.asked, self.released = threading.Event(), threading.Event()

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        if any(task.partition == self._held for task in tasks.values()):
            self.asked.set()
            assert self.released.wait(PATIENCE_SECONDS), "nobody released the work"
        return super().rewrite(tasks)


class Heard:
    """Reports of a loop, as they come."""

    def __init__(self, loop: TieringLoop) -> None:
        self.reports: list[CycleReport] = []
        self._more = threading.Condition()
        loop.on_cycle(self._note)

    def _note(self, report: CycleReport) -> None:
        with self._more:
            self.reports.append(report)
            self._more.notify_all()

    def wait_for(self, is_there: Callable[[CycleReport], bool]) -> CycleReport:
        """The first report that is so."""
        with self._more:
            assert self._more.wait_for(lambda: any(map(is_there, self.reports)), PATIENCE_SECONDS), "it never came"
            return next(filter(is_there, self.reports))


@contextmanager
def running(loop: TieringLoop) -> Iterator[threading.Event]:
    """The loop in a thread of its own, until the body ends or sets the event."""
    stop = threading.Event()
    runner = threading.Thread(target=loop.run_forever, args=(stop,))
    runner.start()
    try:
        yield stop
    finally:
        stop.set()
        loop.hurry()
        runner.join(PATIENCE_SECONDS)
    assert not runner.is_alive(), "the loop ends"


def test_range_that_becomes_due_is_committed_before_the_large_one_that_is_under_way(world: TieringWorld) -> None:
    large, small = world.broker.create_topic("mixed", partitions=2)
    world.broker.append_segment(large, values(0, 200))
    workers = HeldWorkers(large)
    loop = world.loop(workers=workers, limits=LIMITS)
    heard = Heard(loop)
    with running(loop):
        assert workers.asked.wait(PATIENCE_SECONDS)
        world.broker.append_segment(small, values(0, 5))
        world.broker.append_segment(large, values(200, 205))
        meanwhile = heard.wait_for(lambda report: ranges_of(report, small) == [(0, 5)])
        waiting = {item.partition: item.waiting for item in meanwhile.partitions if item.waiting is not None}
        assert waiting[large].kind is Waiting.UNDER_WAY
        assert not meanwhile.is_behind, "nothing more is left than what is under way"
        assert not any(large in report.committed for report in heard.reports)
        workers.released.set()
        heard.wait_for(lambda report: (0, 200) in ranges_of(report, large))
        heard.wait_for(lambda report: (200, 205) in ranges_of(report, large))
    assert world.offsets(large) == list(range(205))
    assert world.offsets(small) == list(range(5))


def test_work_that_hangs_shows_as_a_cycle_that_hangs(world: TieringWorld) -> None:
    (large,) = world.broker.create_topic("large")
    world.broker.append_segment(large, values(0, 200))
    workers = HeldWorkers(large)
    loop = world.loop(workers=workers, limits=LIMITS)
    board = StatusBoard(version="test", clock=world.clock, limits=LIMITS)
    loop.on_cycle(board.note_cycle)
    heard = Heard(loop)
    with running(loop):
        assert workers.asked.wait(PATIENCE_SECONDS)
        world.clock.ahead_ms += 3_600_000
        later_ms = world.clock.now_ms()
        heard.wait_for(lambda report: report.started_ms >= later_ms)
        assert board.status().silent_ms >= 3_600_000
        workers.released.set()
        heard.wait_for(lambda report: report.started_ms >= later_ms and report.busy_since_ms is None)
        assert board.status().silent_ms < 3_600_000


def test_small_ranges_are_not_kept_out_by_large_ones_that_wait_for_their_turn(world: TieringWorld) -> None:
    first, second, small = world.broker.create_topic("mixed", partitions=3)
    world.broker.append_segment(first, values(0, 200))
    workers = HeldWorkers(first)
    loop = world.loop(workers=workers, limits=LIMITS)
    heard = Heard(loop)
    with running(loop):
        assert workers.asked.wait(PATIENCE_SECONDS)
        world.broker.append_segment(second, values(0, 200))
        world.broker.append_segment(small, values(0, 5))
        meanwhile = heard.wait_for(lambda report: ranges_of(report, small) == [(0, 5)])
        waits = {item.partition: item.waiting.kind for item in meanwhile.partitions if item.waiting is not None}
        assert (waits[first], waits[second]) == (Waiting.UNDER_WAY, Waiting.LIMIT)
        assert meanwhile.is_behind
        workers.released.set()
        heard.wait_for(lambda report: ranges_of(report, second) == [(0, 200)])


def test_large_range_that_is_under_way_when_the_loop_ends_is_committed(world: TieringWorld) -> None:
    (large,) = world.broker.create_topic("large")
    world.broker.append_segment(large, values(0, 200))
    workers = HeldWorkers(large)
    loop = world.loop(workers=workers, limits=LIMITS)
    with running(loop) as stop:
        assert workers.asked.wait(PATIENCE_SECONDS)
        stop.set()
        workers.released.set()
    assert world.offsets(large) == list(range(200))


def test_topic_that_is_made_again_while_its_range_is_under_way_is_forgotten_afterwards(world: TieringWorld) -> None:
    (old,) = world.broker.create_topic("large", native=True)
    world.broker.append_segment(old, values(0, 200))
    workers = HeldWorkers(old)
    loop = world.loop(workers=workers, limits=LIMITS)
    heard = Heard(loop)
    with running(loop):
        assert workers.asked.wait(PATIENCE_SECONDS)
        world.broker.port.delete_topic(old.topic)
        shutil.rmtree(world.broker.directory(old))
        (new,) = world.broker.create_topic("large", native=True)
        world.broker.append_segment(new, values(0, 5))
        meanwhile = heard.wait_for(lambda report: ranges_of(report, new) == [(0, 5)])
        assert old in {item.partition for item in meanwhile.partitions}
        workers.released.set()
        heard.wait_for(lambda report: {item.partition for item in report.partitions} == {new})
    assert not any(old in report.committed for report in heard.reports)


def test_work_that_raises_ends_alone() -> None:
    def failing() -> RangeSteps:
        yield Job(work=len, tasks={})
        raise ValueError("a step")

    def good(done: WorkDone) -> RangeSteps:
        answers = yield Job(work=len, tasks={0: "four"})
        assert answers == {0: 4}
        return done

    ended = threading.Semaphore(0)
    beside, expected = WorkBeside(InProcessWorkers(), SystemClock(), on_done=ended.release), WorkDone()
    beside.begin(failing(), frozenset({some_partition(0)}))
    beside.begin(good(expected), frozenset({some_partition(1)}))
    assert beside.partitions == {some_partition(0), some_partition(1)}
    assert ended.acquire(timeout=PATIENCE_SECONDS)
    with pytest.raises(ValueError, match="a step"):
        beside.take()
    assert beside.partitions == {some_partition(1)}
    assert beside.take() == []
    assert ended.acquire(timeout=PATIENCE_SECONDS)
    assert beside.take() == [expected]
    assert not beside.partitions
