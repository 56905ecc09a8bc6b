"""Any history of a topic and its tables: what ``__latest`` shows is, at every moment, what it says it shows."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fault_points import FaultPoint, armed
from latest.latest_limits import LatestLimits
from tests.latest.latest_world import TOPIC, LatestDaemon, LatestWorld, Record

EXAMPLES = int(os.environ.get("FLOEBERG_TEST_LATEST_HISTORIES", "12"))
PARTITIONS = 2
SMALL = LatestLimits(fold_rows=3, build_factor=2)
"""A commit takes in few rows, and a partition with more to come is built whole."""

keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"\xff\x00", b"a longer key"])
values = st.sampled_from([None, b"", b"one", b"two", b"\xfe"])
records: st.SearchStrategy[list[Record]] = st.lists(st.tuples(keys, values), min_size=1, max_size=6)
partitions = st.integers(0, PARTITIONS - 1)
steps = st.one_of(
    st.tuples(st.just("append"), partitions, records),
    st.tuples(st.just("turn"), partitions, st.booleans()),
    st.tuples(st.just("merge"), partitions, st.integers(0, 3)),
    st.tuples(st.just("die"), partitions, st.sampled_from([point for point in FaultPoint if "latest" in point])),
    st.tuples(st.just("lead"), partitions, st.integers(0, 1)),
    st.tuples(st.just("lose index"), partitions, st.none()),
    st.tuples(st.just("drop"), partitions, st.none()),
    st.tuples(st.just("delete"), partitions, st.none()),
    st.tuples(st.just("erase"), partitions, st.integers(0, 12)),
    st.tuples(st.just("horizon"), partitions, st.integers(0, 3)),
)


class _Killed(BaseException):
    pass


class _History:
    """Two daemons; each partition is led by one of them at a time."""

    def __init__(self, root: Path) -> None:
        self.world = LatestWorld(root, partitions=PARTITIONS)
        self.daemons = [self.started(number) for number in (0, 1)]
        self.leader = [0, 1]
        self.is_there = False

    def started(self, number: int) -> LatestDaemon:
        return self.world.daemon(f"index-{number}", SMALL)

    def led(self, number: int) -> list[int]:
        stream = self.world.stream() if any(self.world.records.values()) else None
        return [p for p in range(PARTITIONS) if self.leader[p] == number and stream is not None and p in stream.ledger]

    def restarted(self, number: int, *, loses: bool = False) -> None:
        self.daemons[number].end()
        if loses:
            shutil.rmtree(self.world.root / f"index-{number}", ignore_errors=True)
        self.daemons[number] = self.started(number)

    def turn(self, number: int) -> None:
        if self.led(number):
            turn = self.daemons[number].turn(self.led(number))
            assert turn.problems == ()
            self.is_there = True

    def do(self, what: str, partition: int, how: object) -> None:
        leader, world = self.leader[partition], self.world
        if what == "append":
            assert isinstance(how, list)
            world.append(how, partition)
        elif what == "turn":
            self.turn(leader)
        elif what == "merge":
            assert isinstance(how, int)
            files = world.files(partition)[how : how + 3] if world.records[partition] else ()
            if len(files) > 1:
                world.merge(files)
        elif what == "die":
            self.die(leader, FaultPoint(str(how)))
        elif what == "lead":
            assert isinstance(how, int)
            self.leader[partition] = how
        elif what == "lose index":
            self.restarted(leader, loses=True)
        elif what == "drop" and self.is_there:
            world.tiering.catalog.drop_table(("kafka", f"{TOPIC}__latest"))
            self.is_there = False
        elif what == "erase":
            assert isinstance(how, int)
            self.erase(partition, how)
        elif what == "horizon":
            assert isinstance(how, int)
            self.move_horizon(partition, how)
        elif what == "delete" and self.is_there:
            world.latest_table().delete("kafka_partition == 0")
            for number in (0, 1):  # what another program did is seen by whoever has something to do
                self.turn(number)

    def erase(self, partition: int, offset: int) -> None:
        """One record; who leads finds out in its next turn."""
        world = self.world
        if world.starts[partition] <= offset < len(world.records[partition]):
            where = f"kafka_partition = {partition} AND kafka_offset = {offset}"
            gone = () if (partition, offset) in world.erased else ((partition, offset),)
            world.erase(where, *gone)
            self.turn(self.leader[partition])

    def move_horizon(self, partition: int, files: int) -> None:
        """So many of the oldest files leave the table."""
        listed = self.world.files(partition) if self.world.records[partition] else ()
        if listed:
            self.world.move_horizon(listed[min(files, len(listed) - 1)].range.start, partition)
            self.turn(self.leader[partition])

    def die(self, number: int, point: FaultPoint) -> None:
        def kill(reached: FaultPoint) -> None:
            if reached is point:
                raise _Killed

        with armed(kill):
            try:
                self.turn(number)
            except _Killed:
                self.is_there = True
        self.restarted(number)

    def check(self) -> None:
        if self.is_there:
            self.world.check()

    def end(self) -> None:
        for _ in range(2):
            for number in (0, 1):
                if self.led(number):
                    self.daemons[number].bring_up(self.led(number))
        if any(self.world.records.values()):
            self.world.check_current()
            assert self.world.shown_by_duckdb() == self.world.shown()
            assert [(p, offset) for p, offset, _, _ in self.world.shown()] == self.world.newest_by_duckdb()
        for daemon in self.daemons:
            daemon.end()


@pytest.mark.timeout(60 * EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="FLOEBERG_TEST_LATEST_HISTORIES" not in os.environ,
)
@given(st.lists(steps, min_size=4, max_size=12))
def test_any_history_shows_the_newest_of_each_key_up_to_where_it_says(
    history: Sequence[tuple[str, int, object]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        played = _History(Path(root))
        for what, partition, how in history:
            played.do(what, partition, how)
            played.check()
        played.end()
