"""Schemas that values name: found, new ones that arrive, away for a while, or never to be had."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine.errors import Corrupt, Unavailable
from tests.support.interfering_workers import InterferingWorkers, RewriteAnswers, RewriteTasks
from tests.tiering.order_schemas import TEXTS, KnownSchemas, avro, columns, order
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.rewrite import RewriteTask
from tiering.tiering_limits import TieringLimits


@pytest.fixture
def source() -> KnownSchemas:
    return KnownSchemas(TEXTS)


def test_schema_is_resolved_and_its_columns_are_filled_in_the_same_cycle(
    world: TieringWorld, source: KnownSchemas
) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [order(1, {"id": number}) for number in range(5)])
    report = world.loop(rules=avro(source)).cycle()
    assert ranges_of(report, partition) == [(0, 5)]
    assert columns(world, "orders")["id"] == [0, 1, 2, 3, 4]
    assert source.asked == [1]


def test_new_schema_adds_its_column_and_older_rows_have_nulls(world: TieringWorld, source: KnownSchemas) -> None:
    (partition,) = world.broker.create_topic("orders")
    loop = world.loop(rules=avro(source))
    world.broker.append_segment(partition, [order(1, {"id": 0})])
    loop.cycle()
    world.broker.append_segment(partition, [order(2, {"id": 1, "note": "gift"}), order(1, {"id": 2})])
    loop.cycle()
    found = columns(world, "orders")
    assert (found["id"], found["note"]) == ([0, 1, 2], [None, "gift", None])


def test_restarted_loop_needs_no_registry_for_schemas_the_table_has(world: TieringWorld, source: KnownSchemas) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [order(1, {"id": 0})])
    world.loop(rules=avro(source)).cycle()
    world.broker.append_segment(partition, [order(1, {"id": 1})])
    world.loop(rules=avro(KnownSchemas({}))).cycle()
    assert columns(world, "orders")["id"] == [0, 1]


def test_id_that_nobody_knows_keeps_its_records_raw_with_the_reason(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    values = [order(1, {"id": 0}), b"\x00\x00\x00\x00\x09whatever", order(1, {"id": 2})]
    world.broker.append_segment(partition, values)
    report = world.loop(rules=avro(KnownSchemas(TEXTS))).cycle()
    assert ranges_of(report, partition) == [(0, 3)]
    found = columns(world, "orders")
    assert found["id"] == [0, None, 2]
    assert found["kafka_value_raw"] == [None, values[1], None]
    assert "there is no schema 9" in str(found["kafka_error"][1])
    assert report_of(report, partition).status.undecodable_rows == 1


def test_registry_that_is_away_is_waited_for_and_not_for_ever(world: TieringWorld, source: KnownSchemas) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [order(1, {"id": 0})])
    source.away = True
    loop = world.loop(rules=avro(source))
    report = loop.cycle()
    assert report.commits == 0
    assert isinstance(report_of(report, partition).problem, Unavailable)
    world.clock.ahead_ms += TieringLimits().schema_patience_ms
    assert ranges_of(loop.cycle(), partition) == [(0, 1)]
    assert columns(world, "orders")["kafka_value_raw"] == [order(1, {"id": 0})]


def test_registry_that_comes_back_within_patience_loses_no_column(world: TieringWorld, source: KnownSchemas) -> None:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [order(1, {"id": 7})])
    source.away = True
    loop = world.loop(rules=avro(source))
    loop.cycle()
    source.away = False
    loop.cycle()
    assert columns(world, "orders")["id"] == [7]


def test_id_that_was_given_up_is_asked_for_again_later(world: TieringWorld) -> None:
    source = KnownSchemas({})
    (partition,) = world.broker.create_topic("orders")
    loop = world.loop(rules=avro(source))
    world.broker.append_segment(partition, [order(1, {"id": 0})])
    loop.cycle()
    source.texts = TEXTS
    world.broker.append_segment(partition, [order(1, {"id": 1})])
    loop.cycle()
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    world.broker.append_segment(partition, [order(1, {"id": 2})])
    loop.cycle()
    assert columns(world, "orders")["id"] == [None, None, 2]


def test_schema_whose_field_is_one_of_kafkas_columns_keeps_its_records_raw(world: TieringWorld) -> None:
    fields = [{"name": "kafka_offset", "type": "long"}]
    texts = {1: json.dumps({"type": "record", "name": "Order", "fields": fields})}
    (partition,) = world.broker.create_topic("orders")
    value = b"\x00\x00\x00\x00\x01\x0e"
    world.broker.append_segment(partition, [value])
    report = world.loop(rules=avro(KnownSchemas(texts))).cycle()
    assert ranges_of(report, partition) == [(0, 1)]
    assert columns(world, "orders")["kafka_value_raw"] == [value]


def test_table_has_the_newest_schemas_columns_before_its_first_record(
    world: TieringWorld, source: KnownSchemas
) -> None:
    (partition,) = world.broker.create_topic("orders")
    loop = world.loop(rules=(replace(avro(source)[0], use_latest=True),))
    report = loop.cycle()
    assert report_of(report, partition).problem is None
    assert world.catalog.load_table(("kafka", "orders")).schema().column_names[-2:] == ["id", "note"]
    world.clock.ahead_ms += TieringLimits().reload_interval_ms
    loop.cycle()
    assert source.asked == [-1], "what is newest is asked for until there is an answer, and not again"
    world.broker.append_segment(partition, [order(1, {"id": 7}), order(2, {"id": 8, "note": "n"})])
    assert ranges_of(loop.cycle(), partition) == [(0, 2)]
    found = columns(world, "orders")
    assert (found["id"], found["note"]) == ([7, 8], [None, "n"])
    assert source.asked == [-1, 1]


def test_newest_schemas_that_can_not_be_had_hold_nothing_up_and_are_asked_for_later(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("orders")
    source = KnownSchemas({1: TEXTS[1]})
    source.away = True
    loop = world.loop(rules=(replace(avro(source)[0], use_latest=True),))
    for _ in range(3):
        report = loop.cycle()
        assert report_of(report, partition).problem is None
    assert source.asked == [-1]
    assert "id" not in world.catalog.load_table(("kafka", "orders")).schema().column_names
    source.away = False
    source.texts = {}
    world.clock.ahead_ms += TieringLimits().reload_interval_ms
    loop.cycle()
    source.texts = TEXTS
    world.clock.ahead_ms += TieringLimits().reload_interval_ms
    loop.cycle()
    assert source.asked == [-1, -1, -1]
    assert world.catalog.load_table(("kafka", "orders")).schema().column_names[-2:] == ["id", "note"]


class CountingWorkers(InterferingWorkers):
    """Keeps what it was sent, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[RewriteTask]] = []

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        self.calls.append(list(tasks.values()))
        return super().rewrite(tasks)


def test_first_range_of_a_new_table_finds_out_for_all_others(world: TieringWorld, source: KnownSchemas) -> None:
    partitions = world.broker.create_topic("orders", partitions=3)
    for partition in partitions:
        for first in (0, 5):
            world.broker.append_segment(partition, [order(1, {"id": first + number}) for number in range(5)])
    workers = CountingWorkers()
    loop = world.loop(rules=avro(source), workers=workers)
    report = loop.cycle()
    assert [ranges_of(report, partition) for partition in partitions] == [[(0, 5), (5, 10)]] * 3
    assert [len(call) for call in workers.calls] == [1, 1, 5]
    assert all(task.table.settings is not None for task in workers.calls[-1])
    for partition in partitions:
        world.broker.append_segment(partition, [order(1, {"id": 10})])
    loop.cycle()
    assert [len(call) for call in workers.calls[3:]] == [3]


def test_damaged_first_range_of_a_new_table_holds_up_no_other_partition(
    world: TieringWorld, source: KnownSchemas
) -> None:
    damaged, sound = world.broker.create_topic("orders", partitions=2)
    for partition in (damaged, sound):
        for number in range(2):
            world.broker.append_segment(partition, [order(1, {"id": number})])
    path = min(world.broker.directory(damaged).glob("*.log"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    report = world.loop(rules=avro(source)).cycle()
    assert ranges_of(report, sound) == [(0, 1), (1, 2)]
    assert ranges_of(report, damaged) == []
    assert isinstance(report_of(report, damaged).problem, Corrupt)


def test_values_that_only_look_like_framed_ones_are_tiered_raw_and_the_source_is_not_flooded(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiering.rewrite.BLOCK_BYTES", 1000)
    source = KnownSchemas(TEXTS)
    (partition,) = world.broker.create_topic("orders")
    numbers = [b"\x00" + (number * 7919 + 77).to_bytes(4, "big") + b"no schema's" for number in range(3000)]
    for first in range(0, 3000, 50):
        world.broker.append(partition, numbers[first : first + 50])
    world.broker.append(partition, [order(1, {"id": 7})])
    world.broker.append_segment(partition, [order(1, {"id": 8})])
    loop = world.loop(rules=avro(source))
    for _ in range(3):
        report = loop.cycle()
    assert report_of(report, partition).problem is None
    found = columns(world, "orders")
    assert found["kafka_value_raw"][:3000] == numbers
    assert all(found["kafka_error"][:3000])
    assert len(source.asked) < 600
