"""A topic that is deleted and created again within a cycle: the same paths lead to another topic's records."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from unittest import mock

from engine.topic_partition import TopicIdPartition
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.tiering.tiering_world import TieringWorld, report_of


def create_again(world: TieringWorld, old: TopicIdPartition, *, native: bool) -> TopicIdPartition:
    world.broker.port.delete_topic(old.topic)
    shutil.rmtree(world.broker.directory(old))
    (new,) = world.broker.create_topic(old.topic, native=native)
    world.broker.append_segment(new, [b"of the new topic"] * 4)
    return new


def test_segment_of_a_new_topic_is_never_held_or_stored_for_the_one_before_it(world: TieringWorld) -> None:
    (old,) = world.broker.create_topic("orders")
    world.broker.append_segment(old, [b"of the old topic"] * 10)
    created: list[TopicIdPartition] = []

    right = os.link

    def link(source: Path, target: Path) -> None:
        if not created:
            created.append(create_again(world, old, native=False))
        right(source, target)

    loop = world.loop()
    with mock.patch("tiering.spool.os.link", link):
        loop.cycle()
    assert world.spooled_files() == []
    assert not world.table(old).ledger
    loop.cycle()
    assert world.rows(created[0]) == [(offset, "of the new topic") for offset in range(4)]


def test_segment_of_a_new_topic_is_never_read_for_the_one_before_it(world: TieringWorld) -> None:
    (old,) = world.broker.create_topic("orders", native=True)
    world.broker.append_segment(old, [b"of the old topic"] * 10)
    created: list[TopicIdPartition] = []

    class SlowWorkers(InterferingWorkers):
        def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
            if not created:
                created.append(create_again(world, old, native=True))
            return super().rewrite(tasks)

    loop = world.loop(workers=SlowWorkers())
    report = loop.cycle()
    assert report.commits == 0
    assert "was deleted while its segment was read" in str(report_of(report, old).problem)
    loop.cycle()
    assert world.rows(created[0]) == [(offset, "of the new topic") for offset in range(4)]
    assert not world.table(old).ledger
