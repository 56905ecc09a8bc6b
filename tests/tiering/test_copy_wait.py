"""A broker that has tiered storage turned on for a topic, and asks for no copy of it: the status says so."""

from __future__ import annotations

from pathlib import Path

from engine.offset_range import OffsetRange
from floeberg.daemon.status_board import StatusBoard
from serving.log.backend import RemoteSegment
from serving.log.copy_requests import CopyRequests
from serving.status.copy_wait import LONGEST_COPY_WAIT_MS
from tests.faults.broken_world import BrokenWorld


class Watched:
    """A topic with two closed segments in the table, whose copies nobody has asked for."""

    def __init__(self, root: Path, *, native: bool) -> None:
        self.world = BrokenWorld(root)
        self.copies = CopyRequests(self.world.clock)
        self.world.board.watch_copies(self.copies)
        (self.partition,) = self.world.broker.create_topic("paid", native=native)
        for _ in range(2):
            self.world.broker.append_segment(self.partition, [b"value"] * 10)
        self.loop = self.world.watched_loop()
        self.world.cycle(self.loop)

    def later(self, wait_ms: int) -> tuple[str, ...]:
        """The problems there are then."""
        self.world.clock.ahead_ms += wait_ms
        self.world.cycle(self.loop)
        return self.world.board.status().all_problems

    def ask(self, end: int, *, is_safe: bool) -> None:
        who = self.partition
        whole = OffsetRange(start=0, end=end)
        segment = RemoteSegment(topic_id=who.topic_id, partition=who.partition, range=whole)
        self.copies.note(segment, is_safe=is_safe)


def test_broker_that_asks_for_nothing_is_a_problem_until_it_asks(tmp_path: Path) -> None:
    watched = Watched(tmp_path, native=True)
    end = watched.world.tiered_end(watched.partition)
    assert watched.later(LONGEST_COPY_WAIT_MS - 60_000) == ()
    (problem,) = watched.later(LONGEST_COPY_WAIT_MS)
    assert problem.startswith("the broker has asked for no copy of paid for 9 min")
    # It asks: what it is told of is another matter, and has alarms of its own.
    watched.ask(end, is_safe=False)
    assert watched.later(1_000) == ()
    assert len(watched.later(LONGEST_COPY_WAIT_MS + 1)) == 1
    watched.ask(end, is_safe=True)
    assert watched.later(10 * LONGEST_COPY_WAIT_MS) == ()
    (status,) = (part for part in watched.world.board.status().partitions if part.topic == "paid")
    assert (status.copied_end, status.copy_wait_ms) == (end, 0)


def test_topic_in_watch_mode_waits_for_no_copies(tmp_path: Path) -> None:
    assert Watched(tmp_path, native=False).later(10 * LONGEST_COPY_WAIT_MS) == ()


def test_what_an_earlier_daemon_committed_is_no_problem_of_this_one(tmp_path: Path) -> None:
    watched = Watched(tmp_path, native=True)
    # A daemon that has committed nothing yet, over the tables as they are.
    world = watched.world
    world.board = StatusBoard(version="test", clock=world.clock, limits=world.limits)
    world.board.watch_copies(watched.copies)
    watched.loop = watched.world.watched_loop()
    assert watched.later(10 * LONGEST_COPY_WAIT_MS) == ()
    assert watched.later(10 * LONGEST_COPY_WAIT_MS) == ()


def test_wait_begins_with_what_is_committed_after_all_was_copied(tmp_path: Path) -> None:
    watched = Watched(tmp_path, native=True)
    watched.ask(watched.world.tiered_end(watched.partition), is_safe=True)
    assert watched.later(10 * LONGEST_COPY_WAIT_MS) == ()
    watched.world.broker.append_segment(watched.partition, [b"value"] * 10)
    assert watched.later(0) == ()
    assert watched.later(LONGEST_COPY_WAIT_MS - 60_000) == ()
    assert len(watched.later(61_000)) == 1


def test_wait_goes_on_while_more_is_committed_and_nothing_copied(tmp_path: Path) -> None:
    watched = Watched(tmp_path, native=True)
    for _ in range(3):
        watched.world.broker.append_segment(watched.partition, [b"value"] * 10)
        watched.later(LONGEST_COPY_WAIT_MS // 2)
    assert len(watched.later(0)) == 1
