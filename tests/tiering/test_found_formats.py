"""A topic whose rule leaves the format open: its first values tell it, and its table keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.errors import Unavailable
from engine.formats.format_facts import AUTO
from engine.formats.format_guess import ENOUGH_VALUES
from engine.schemas.folder import SchemaFolder
from engine.schemas.source import FoundSchema, Role
from tests.engine.formats.avro.avro_values import framed
from tests.tiering.broker_on_disk import let_settle
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.planner import Waiting, WaitingReason
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

OPEN = (TopicRule(pattern="*", value_format=AUTO),)
CLICK = b'{"page": "/"}'
PATIENCE_MS = TieringLimits().format_patience_ms


def test_objects_get_columns_and_a_restart_takes_the_tables_word(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append_segment(partition, [CLICK, CLICK])
    with capture_logs() as told:
        report = world.loop(rules=OPEN).cycle()
    assert ranges_of(report, partition) == [(0, 2)]
    assert report_of(report, partition).status.value_format == "json"
    (found,) = [line for line in told if line["event"] == "format_found"]
    assert (found["topic"], found["value"], found["why"]) == (
        "clicks",
        "json",
        "2 of the first 2 values are JSON objects",
    )
    # Whatever comes then: the table is of JSON, and what is none keeps its bytes with the reason.
    world.broker.append_segment(partition, [b"no JSON"] * 50)
    with capture_logs() as told:
        report = world.loop(rules=OPEN).cycle()
    assert ranges_of(report, partition) == [(2, 52)]
    status = report_of(report, partition).status
    assert (status.value_format, status.undecodable_rows) == ("json", 50)
    assert [line for line in told if line["event"] == "format_found"] == []
    rows = world.catalog.load_table(("kafka", "clicks")).scan().to_arrow().sort_by("kafka_offset").to_pydict()
    assert rows["page"] == ["/", "/"] + [None] * 50
    assert rows["kafka_value_raw"][2:] == [b"no JSON"] * 50
    assert None not in rows["kafka_error"][2:]


def test_setting_that_names_another_format_than_was_found_is_a_conflict(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append_segment(partition, [CLICK])
    world.loop(rules=OPEN).cycle()
    report = world.loop(rules=(TopicRule(pattern="*", value_format="string"),)).cycle()
    assert 'the settings say value = "string", the topic\'s table was made for value = "json"' in str(
        report_of(report, partition).problem
    )


def test_tombstones_make_no_table_and_the_first_value_after_them_does(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append_segment(partition, [None, b"", None])
    loop = world.loop(rules=OPEN)
    for _ in range(2):
        report = loop.cycle()
        seen = report_of(report, partition)
        assert (seen.status.table, seen.status.value_format, seen.problem) == (None, None, None)
        assert seen.waiting is not None
        assert seen.waiting.kind is Waiting.FORMAT
        assert "tombstones" in str(seen.waiting)
        world.clock.ahead_ms += 2 * PATIENCE_MS
    world.broker.append_segment(partition, [CLICK])
    assert ranges_of(loop.cycle(), partition) == [(0, 3), (3, 4)]
    assert world.table(partition).codec.name == "json"


def test_so_many_tombstones_that_nothing_else_is_expected_are_kept(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append_segment(partition, [None] * 10_000)
    assert ranges_of(world.loop(rules=OPEN).cycle(), partition) == [(0, 10_000)]
    assert world.table(partition).codec.name == "raw"


def test_few_texts_wait_for_more_and_are_text_after_a_while(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("notes")
    world.broker.append_segment(partition, [b"hello"])
    loop = world.loop(rules=OPEN)
    report = loop.cycle()
    waiting = report_of(report, partition).waiting
    assert waiting is not None
    assert (waiting.kind, "1 value so far" in str(waiting)) == (Waiting.FORMAT, True)
    world.clock.ahead_ms += PATIENCE_MS
    assert ranges_of(loop.cycle(), partition) == [(0, 1)]
    assert world.rows(partition) == [(0, "hello")]


def test_topic_whose_format_is_not_known_is_left_alone_for_a_while(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("notes")
    world.broker.append(partition, [b"hello"])
    limits = TieringLimits()
    loop = world.loop(rules=(TopicRule(pattern="*", value_format=AUTO, freshness_ms=1_000),), limits=limits)
    let_settle(world.broker.directory(partition))
    loop.cycle()
    world.clock.ahead_ms += 30_000
    assert report_of(loop.cycle(), partition).waiting == WaitingReason(
        kind=Waiting.FORMAT, offset=0, detail="1 value so far, taken for what they look like within 300 s"
    )
    assert loop.cycle().attended == ()
    world.clock.ahead_ms += limits.lag_interval_ms
    assert [item.partition for item in loop.cycle().attended] == [partition]


def test_enough_texts_are_text_at_once(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("notes")
    world.broker.append_segment(partition, [b"hello"] * ENOUGH_VALUES)
    assert ranges_of(world.loop(rules=OPEN).cycle(), partition) == [(0, ENOUGH_VALUES)]
    assert world.table(partition).codec.name == "string"


def test_values_of_any_partition_tell_the_topics_format(world: TieringWorld) -> None:
    first, second = world.broker.create_topic("clicks", partitions=2)
    world.broker.append_segment(first, [None])
    world.broker.append_segment(second, [CLICK])
    report = world.loop(rules=OPEN).cycle()
    assert ranges_of(report, second) == [(0, 1)]
    assert ranges_of(report, first) == [(0, 1)]


def test_daemon_that_comes_second_keeps_what_the_first_found(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append_segment(partition, [CLICK])
    writer = world.writer()

    class QuickerRival:
        """Another daemon makes the table between this one's look and its own making."""

        def __getattr__(self, name: str) -> object:
            if name == "ensure":
                world.loop(rules=(TopicRule(pattern="*", value_format="raw"),)).cycle()
            return getattr(writer, name)

    second = world.loop(rules=OPEN, writer=QuickerRival())  # type: ignore[arg-type]
    with capture_logs() as told:
        report = second.cycle()
    assert [line for line in told if line["log_level"] == "warning"] == []
    assert report_of(report, partition).status.value_format == "raw"
    assert world.rows(partition) == [(0, CLICK)]


SCHEMA = {"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}


def test_values_that_name_schemas_get_the_format_of_these(world: TieringWorld, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(SCHEMA))
    rules = (TopicRule(pattern="*", value_format=AUTO, schema_source=SchemaFolder(tmp_path / "schemas")),)
    named, plain = (world.broker.create_topic(name)[0] for name in ("named", "plain"))
    world.broker.append_segment(named, [framed(SCHEMA, {"page": "/"}, 7)])
    # Beside a source of schemas, too, values that name none show what they are.
    world.broker.append_segment(plain, [CLICK])
    world.loop(rules=rules).cycle()
    for partition, codec in ((named, "avro"), (plain, "json")):
        assert world.table(partition).codec.name == codec
        rows = world.catalog.load_table(("kafka", partition.topic)).scan().to_arrow().to_pydict()
        assert (rows["page"], rows["kafka_error"]) == (["/"], [None])
    world.broker.append_segment(plain, [b'{"page": "/", "new": 1}'])
    world.loop(rules=rules).cycle()
    assert "new" in world.catalog.load_table(("kafka", "plain")).scan().to_arrow().column_names


class SourceThatIsAway:
    def get(self, schema_id: int, schema_format: str) -> str:
        raise Unavailable("the registry is away")

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        raise Unavailable("the registry is away")

    def close(self) -> None:
        pass


def test_registry_that_is_away_is_waited_for_by_values_that_may_need_it(world: TieringWorld) -> None:
    rules = (TopicRule(pattern="*", value_format=AUTO, schema_source=SourceThatIsAway()),)
    named, plain = (world.broker.create_topic(name)[0] for name in ("named", "plain"))
    world.broker.append_segment(named, [framed(SCHEMA, {"page": "/"}, 7)])
    world.broker.append_segment(plain, [CLICK])
    report = world.loop(rules=rules).cycle()
    assert ranges_of(report, plain) == [(0, 1)]
    waiting = report_of(report, named).waiting
    assert waiting is not None
    assert (waiting.kind, "the registry is away" in str(waiting)) == (Waiting.FORMAT, True)


def test_damaged_segment_stops_its_partition_and_no_other_of_the_topic(world: TieringWorld) -> None:
    first, second = world.broker.create_topic("clicks", partitions=2)
    world.broker.append_segment(first, [CLICK])
    world.broker.append_segment(second, [CLICK])
    segment = min(world.broker.directory(first).glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-3] + b"\0\0\0")
    report = world.loop(rules=OPEN).cycle()
    assert ranges_of(report, second) == [(0, 1)]
    assert report_of(report, first).status.problem_kind == "corrupt"


@pytest.mark.parametrize("count", [1, 3])
def test_open_format_is_found_in_the_stable_records_of_an_open_segment(world: TieringWorld, count: int) -> None:
    (partition,) = world.broker.create_topic("clicks")
    world.broker.append(partition, [CLICK] * count)
    rules = (TopicRule(pattern="*", value_format=AUTO, freshness_ms=1_000),)
    loop = world.loop(rules=rules)
    loop.cycle()
    world.clock.ahead_ms += 1_000
    assert ranges_of(loop.cycle(), partition) == [(0, count)]
