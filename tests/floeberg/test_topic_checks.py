"""What a check says of topics: what each will be, and which will stay without a table, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.topic_partition import TopicIdPartition
from floeberg.settings import Settings
from floeberg.setup.check_result import CheckResult, Verdict
from floeberg.setup.topic_checks import MOST_TOLD, check_topics
from floeberg.tables.topic_tables import TopicTables
from tests.tiering.broker_on_disk import NODE_ID
from tests.tiering.tiering_world import TieringWorld


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)


def checked(
    world: TieringWorld, *topics: dict[str, object], leaders: dict[TopicIdPartition, int] | None = None
) -> dict[str, CheckResult]:
    settings = Settings(
        broker={"bootstrap": "b:1", "log_dirs": [str(world.broker.log_dir)]},
        data_dir=world.root / "data",
        topics=topics or ({},),
    )
    tables = TopicTables(world.catalog, "kafka")
    return {one.name: one for one in check_topics(tables, settings, SystemClock(), leaders=leaders)}


def test_topics_that_will_stay_without_a_table_are_noted(world: TieringWorld) -> None:
    values = {"clicks": [b"{}"], "gone": [None], "framed": [b"\0\0\0\0\1x"] * 10, "slow": [b"x"], "empty": []}
    for topic, of_topic in values.items():
        (partition,) = world.broker.create_topic(topic)
        world.broker.append(partition, of_topic)
    found = checked(world, {"name": "slow", "freshness_ms": "closed"}, {"name": "payments"}, {})
    assert {name: one.verdict for name, one in found.items()} == {
        "topic clicks": Verdict.GOOD,
        "topic gone": Verdict.NOTE,
        "topic framed": Verdict.NOTE,
        "topic slow": Verdict.NOTE,
        "topic empty": Verdict.NOTE,
        "topics payments": Verdict.NOTE,
    }
    for name, words in {
        "topic gone": "tombstones",
        "topic framed": "may name schemas",
        "topic slow": "no segment is closed yet",
        "topic empty": "no record yet",
    }.items():
        assert words in found[name].message


def test_topic_that_others_lead_is_theirs_to_tier(world: TieringWorld) -> None:
    partitions = [world.broker.create_topic(topic)[0] for topic in ("ours", "theirs", "nobodys")]
    for partition in partitions:
        world.broker.append(partition, [b"{}"])
    found = checked(world, leaders=dict(zip(partitions, (NODE_ID, 7, -1), strict=True)))
    assert found["topic ours"].verdict is Verdict.GOOD
    assert "led by node 7: the daemon beside that broker" in found["topic theirs"].message
    assert "no broker leads" in found["topic nobodys"].message


def test_table_that_is_there_says_the_format(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [b"{}"])
    world.loop().cycle()
    assert "value = string, as the table kafka.orders has it" in checked(world)["topic orders"].message


def test_damaged_log_is_wrong(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append(partition, [b"{}"])
    segment = next(world.broker.directory(partition).glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    assert checked(world)["topic orders"].verdict is Verdict.WRONG


def test_many_topics_are_told_in_a_few_lines(world: TieringWorld) -> None:
    for number in range(MOST_TOLD + 3):
        world.broker.create_topic(f"t{number}")
    found = checked(world)
    assert len(found) == MOST_TOLD + 1
    assert found["topics"].message.startswith("3 more")
