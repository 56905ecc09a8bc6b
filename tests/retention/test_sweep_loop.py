"""Which tables a daemon sweeps, when, and what it tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import Corrupt, Unavailable
from retention.sweep_limits import SweepLimits
from retention.sweep_loop import FIRST_LOOK_MS, RETRY_MS, UNCHANGED_MS, SweepLoop
from retention.sweep_planner import Reason
from tests.engine.table.table_examples import TOPIC_ID, append_of, catalog_in, open_writer, outcomes
from tests.retention.sweep_world import GRACE_MS, SweepWorld
from topics.topic_rule import TopicRule
from topics.topic_schemas import LedTopic, TopicSchemas

LIMITS = SweepLimits(grace_ms=GRACE_MS)


class Looped(SweepWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for partition in (0, 1):
            outcomes(self.writer, self.view(), append_of(self.view(), 0, 5, partition=partition))
        self.files.append("")
        self.loop = SweepLoop(
            catalog=catalog_in(folder),
            namespace="kafka",
            writer=open_writer(folder),
            clock=self.clock,
            limits=LIMITS,
            folder=folder / "data",
        )

    def led(self, *partitions: int) -> dict[str, LedTopic]:
        schemas = TopicSchemas(
            topic="orders",
            rule=TopicRule(pattern="*", value_format="string"),
            writer=self.writer,
            clock=self.clock,
            patience_ms=1,
            retry_ms=1,
        )
        return {TOPIC_ID: LedTopic(schemas=schemas, table=self.view(), partitions=frozenset(partitions))}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Looped]:
    world = Looped(tmp_path)
    world.loop.note_topics(world.led(0))
    assert not world.loop.turn(), "a daemon that starts has better things to do"
    world.clock.ahead_ms += FIRST_LOOK_MS + LIMITS.interval_ms
    return world


def test_table_is_swept_each_interval_and_what_was_found_is_told(world: Looped) -> None:
    file = world.written()
    assert (world.loop.turn(), world.loop.turn()) == (True, False)
    (report,) = world.loop.report()
    assert (report.topic, report.table, report.problem) == ("orders", "kafka.orders", None)
    assert report.amounts[Reason.GRACE].files == 1
    assert report.amounts[Reason.LIVE].files > 2
    assert report.goes_next_ms is not None
    world.clock.ahead_ms += LIMITS.interval_ms
    assert world.loop.turn()
    world.clock.ahead_ms += GRACE_MS
    assert world.loop.turn()
    assert not world.is_there(file.path)
    (report,) = world.loop.report()
    assert (report.removed.files, report.removed.size_bytes) == (1, file.size_bytes)


def test_only_the_leader_of_the_lowest_partition_sweeps(world: Looped) -> None:
    world.loop.note_topics(world.led(1))
    assert not world.loop.turn()
    assert world.loop.report() == ()
    world.loop.note_topics(world.led(0, 1))
    world.loop.turn()
    world.clock.ahead_ms += FIRST_LOOK_MS + LIMITS.interval_ms
    assert world.loop.turn()


def test_sweep_that_fails_is_told_and_tried_again_soon(world: Looped) -> None:
    (manifest, *_) = [path for path in world.on_disk() if path.endswith("-m0.avro")]
    content = world.view().warehouse.read_bytes(manifest)
    Path(manifest.removeprefix("file://")).unlink()
    assert world.loop.turn()
    (report,) = world.loop.report()
    assert isinstance(report.problem, Corrupt)
    world.put(manifest, content)
    assert not world.loop.turn()
    world.clock.ahead_ms += RETRY_MS
    assert world.loop.turn()
    (report,) = world.loop.report()
    assert (report.problem, report.silent_ms < RETRY_MS) == (None, True)


def test_time_without_a_whole_sweep_grows_while_another_process_sweeps(world: Looped) -> None:
    with world.sweep()._sightings:
        for _ in range(3):
            assert world.loop.turn()
            world.clock.ahead_ms += RETRY_MS
    (report,) = world.loop.report()
    assert isinstance(report.problem, Unavailable)
    assert report.silent_ms >= 3 * RETRY_MS


def test_table_that_nobody_changed_and_in_which_nothing_waits_is_looked_at_again_after_a_day(world: Looped) -> None:
    assert world.loop.turn()
    world.clock.ahead_ms += LIMITS.interval_ms
    left = world.written()
    assert not world.loop.turn()
    (report,) = world.loop.report()
    assert (report.silent_ms, report.amounts[Reason.GRACE].files) == (0, 0)
    world.clock.ahead_ms += UNCHANGED_MS
    assert world.loop.turn()
    (report,) = world.loop.report()
    assert (report.amounts[Reason.GRACE].files, world.is_there(left.path)) == (1, True)


def test_table_that_was_committed_to_is_looked_at_after_an_interval(world: Looped) -> None:
    assert world.loop.turn()
    outcomes(world.writer, world.view(), append_of(world.view(), 5, 9))
    world.loop.note_topics(world.led(0))
    world.clock.ahead_ms += LIMITS.interval_ms
    assert world.loop.turn()


def test_files_that_readers_have_open_are_asked_for(world: Looped) -> None:
    file = world.written()
    world.loop.watch_readers(lambda: {file.path})
    world.loop.turn()
    world.clock.ahead_ms += GRACE_MS
    world.loop.turn()
    (report,) = world.loop.report()
    assert report.waiting == {"a reader has it open": 1}
