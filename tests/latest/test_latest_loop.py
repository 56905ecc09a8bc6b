"""Which topics have a ``__latest`` table, when it is looked at, and what is told of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition
from latest.latest_limits import LatestLimits
from latest.latest_loop import LatestLoop
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.tiering_world import STRINGS, TieringWorld
from topics.topic_rule import TopicRule

COMPACTED, PLAIN = "compacted", "plain"


class Daemon:
    """Tiering, compaction and the loop on one writer, as the daemon has them."""

    def __init__(self, root: Path, *, rule: TopicRule = STRINGS, limits: LatestLimits | None = None) -> None:
        self.world = TieringWorld(root)
        self.asked: list[set[str]] = []
        self.is_away = False
        self.partitions: dict[str, tuple[TopicIdPartition, ...]] = {}
        for topic, policy in ((COMPACTED, "compact,delete"), (PLAIN, "delete")):
            (partition,) = self.partitions[topic] = self.world.broker.create_topic(topic, cleanup=policy)
            self.world.broker.append_segment(partition, [b"1", b"2"], keys=[b"a", b"a"])
        writer = self.world.writer()
        self.tiering = RepairingDaemon(self.world, (rule,), writer=writer)
        self.loop = LatestLoop(
            writer=writer,
            directory=root / "index",
            configs_of=self.configs_of,
            clock=self.world.clock,
            limits=limits,
        )

    def configs_of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        self.asked.append(set(topics))
        if self.is_away:
            raise Unavailable("the broker does not answer")
        return self.world.broker.port.topic_configs(topics)

    def cycle(self) -> int:
        """How many turns of the loop there were."""
        self.loop.note_topics(self.tiering.loop.cycle().led)
        return len(self.loop.round())

    def tables(self) -> set[str]:
        return {name for _, name in self.world.catalog.list_tables("kafka")}


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path)


def test_topic_that_the_broker_compacts_has_the_table_and_another_has_none(daemon: Daemon) -> None:
    daemon.cycle()
    assert daemon.tables() == {COMPACTED, PLAIN, f"{COMPACTED}__latest"}
    assert daemon.asked == [{COMPACTED, PLAIN}]
    report = daemon.loop.report()
    assert (report.tables, report.behind_offsets, report.totals.builds, report.problems) == (1, 0, 1, ())


@pytest.mark.parametrize(("setting", "expected"), [(True, {COMPACTED, PLAIN}), (False, set())])
def test_setting_decides_whatever_the_broker_says(tmp_path: Path, setting: bool, expected: set[str]) -> None:
    daemon = Daemon(tmp_path, rule=replace(STRINGS, latest_by_key=setting))
    daemon.cycle()
    assert daemon.tables() - {COMPACTED, PLAIN} == {f"{topic}__latest" for topic in expected}
    assert daemon.asked == []


def test_table_is_looked_at_when_something_changed_and_not_while_nothing_does(daemon: Daemon) -> None:
    assert daemon.cycle() == 1
    assert daemon.cycle() == 1  # that nothing is left to do
    assert daemon.cycle() == 0
    daemon.world.broker.append_segment(daemon.partitions[COMPACTED][0], [b"3"], keys=[b"b"])
    assert daemon.cycle() == 1
    assert daemon.cycle() == 1
    assert daemon.cycle() == 0
    daemon.world.clock.ahead_ms += LatestLimits().look_interval_ms
    assert daemon.cycle() == 1
    assert daemon.loop.report().totals.commits == 2


def test_broker_that_is_away_is_asked_again_later_and_what_it_said_last_counts(daemon: Daemon) -> None:
    daemon.is_away = True
    daemon.cycle()
    assert [str(problem) for problem in daemon.loop.report().problems] == ["the broker does not answer."]
    daemon.cycle()
    assert len(daemon.asked) == 1
    daemon.is_away = False
    daemon.world.clock.ahead_ms += LatestLimits().retry_ms
    daemon.cycle()
    assert f"{COMPACTED}__latest" in daemon.tables()
    assert daemon.loop.report().problems == ()


def test_topic_that_does_not_get_on_is_told_and_left_alone_for_a_while(daemon: Daemon) -> None:
    daemon.cycle()
    with daemon.world.catalog.load_table(("kafka", f"{COMPACTED}__latest")).update_spec() as change:
        change.remove_field("kafka_partition")
    assert daemon.cycle() == 1
    (problem,) = daemon.loop.report().problems
    assert "drop it" in str(problem)
    assert daemon.cycle() == 0
    daemon.world.catalog.drop_table(("kafka", f"{COMPACTED}__latest"))
    daemon.world.clock.ahead_ms += LatestLimits().retry_ms
    assert daemon.cycle() == 1
    assert daemon.loop.report().problems == ()
    assert f"{COMPACTED}__latest" in daemon.tables()


def test_loop_that_is_to_end_begins_nothing(daemon: Daemon) -> None:
    daemon.loop.hurry()
    assert daemon.cycle() == 0
    assert daemon.tables() == {COMPACTED, PLAIN}
