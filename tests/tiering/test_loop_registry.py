"""The loop with a registry that is slow, silent or gone: other topics go on, and so does what is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backoff import Backoff
from engine.clock import SystemClock
from engine.errors import Unavailable
from engine.schemas import desk as schema_desk
from engine.schemas import http as schema_http
from engine.table.columns import TableLayout
from floeberg.daemon.status_board import StatusBoard
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.schema_sources import SchemaSources
from floeberg.settings.topic import TopicSettings
from tests.engine.formats.avro.avro_values import framed as avro_framed
from tests.engine.schemas.registry_server import RegistryServer, running_registry
from tests.tiering.order_schemas import FIRST, SECOND, columns, order
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running_registry() as server:
        server.register("orders-value", 1, json.dumps(FIRST))
        server.register("orders-value", 2, json.dumps(SECOND))
        yield server


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 30)


def loop_with(world: TieringWorld, sources: SchemaSources, url: str) -> TieringLoop:
    avro = TopicSettings(name="orders*", value="avro", schemas=RegistrySettings(url=(url,)))
    orders = TopicRule(pattern="orders*", value_format="avro", schema_source=sources.of(avro))
    other = TopicRule(pattern="*", value_format="raw", layout=TableLayout(key="raw"))
    return world.loop(rules=(orders, other))


def cycle_until_committed(world: TieringWorld, loop: TieringLoop, topic: str, end: int) -> None:
    for _ in range(3000):
        loop.cycle()
        if world.catalog.table_exists(("kafka", topic)) and len(columns(world, topic)["kafka_offset"]) == end:
            return
        world.clock.ahead_ms += 100
        world.clock.sleep(10)
    raise AssertionError(f"{topic} is not tiered")


def test_registry_that_says_nothing_stalls_no_other_topic_and_is_not_asked_again_and_again(
    world: TieringWorld, registry: RegistryServer, tmp_path: Path
) -> None:
    topics = [world.broker.create_topic(name)[0] for name in ("orders", "orders-eu", "orders-us", "others")]
    for partition in topics:
        for schema_id in (1, 2):
            world.broker.append_segment(partition, [order(schema_id, {"id": 1, "note": None})])
    registry.silent.set()
    sources = SchemaSources(tmp_path / "data", world.clock)
    loop = loop_with(world, sources, registry.url)
    report = loop.cycle()
    assert ranges_of(report, topics[-1]) == [(0, 1), (1, 2)]
    for _ in range(5):
        report = loop.cycle()
        for partition in topics[:-1]:
            assert isinstance(report_of(report, partition).problem, Unavailable)
    (health,) = sources.health()
    assert health.questions == 1, "one question hangs, all others wait behind it"
    registry.silent.clear()
    for topic in ("orders", "orders-eu", "orders-us"):
        cycle_until_committed(world, loop, topic, 2)
        assert columns(world, topic)["id"] == [1, 1]
    assert len(registry.requests) == 2, "the topics share what the registry said"
    sources.close()


def test_registry_that_is_gone_costs_its_topics_their_columns_only_for_what_is_unknown(
    world: TieringWorld, registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_http, "WAITS", Backoff(first_ms=1, longest_ms=2_000))
    known, new = (world.broker.create_topic(name)[0] for name in ("orders", "orders-eu"))
    before = SchemaSources(tmp_path / "data", world.clock)
    world.broker.append_segment(known, [order(1, {"id": 0})])
    cycle_until_committed(world, loop_with(world, before, registry.url), "orders", 1)
    before.close()
    world.broker.append_segment(known, [order(1, {"id": 1})])
    world.broker.append_segment(new, [order(1, {"id": 2}), order(2, {"id": 3, "note": "n"})])
    gone = registry.url
    registry.silent.set()
    monkeypatch.setattr(schema_http, "TIMEOUT_S", 0.02)
    after = SchemaSources(tmp_path / "data", SystemClock())
    loop = loop_with(world, after, gone)
    cycle_until_committed(world, loop, "orders", 2)
    assert columns(world, "orders")["id"] == [0, 1], "the table has the schema"
    assert ranges_of(loop.cycle(), new) == []
    while after.health()[0].away_ms is None:
        world.clock.sleep(10)
    world.clock.ahead_ms += TieringLimits().schema_patience_ms
    cycle_until_committed(world, loop, "orders-eu", 2)
    found = columns(world, "orders-eu")
    assert found["id"] == [2, None], "the registry said it once, so it is known; the other waits in raw"
    assert found["kafka_value_raw"] == [None, order(2, {"id": 3, "note": "n"})]
    assert "the schema registry does not answer" in str(found["kafka_error"][1])
    board = StatusBoard(version="test", clock=world.clock, limits=TieringLimits())
    board.watch_sources(after.health)
    (problem,) = board.status().all_problems
    assert problem.startswith(f"the schema registry does not answer: timed out (file {gone}). Next: ")
    after.close()


def test_schemas_of_two_compatibility_groups_that_contradict_each_other_stand_in_one_table(
    world: TieringWorld, registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 60_000)
    texts = {}
    for schema_id, kind in ((11, "long"), (12, "string"), (13, "long")):
        texts[schema_id] = {"type": "record", "name": "Fee", "fields": [{"name": "amount", "type": kind}]}
        group = {"metadata": {"properties": {"major": "2" if kind == "string" else "1"}}}
        registry.register("fees-value", schema_id, json.dumps(texts[schema_id]), **group)
    (partition,) = world.broker.create_topic("fees")
    sources = SchemaSources(tmp_path / "data", world.clock)
    schemas = RegistrySettings(url=(registry.url,), use_latest=True, metadata={"major": "2"})
    source = sources.of(TopicSettings(value="avro", schemas=schemas))
    loop = world.loop(rules=(TopicRule(pattern="*", value_format="avro", schema_source=source, use_latest=True),))
    loop.cycle()
    table = world.catalog.load_table(("kafka", "fees"))
    assert str(table.schema().find_field("amount").field_type) == "string", "of the newest in the group of major 2"
    values = [avro_framed(texts[13], {"amount": 5}, 13), avro_framed(texts[12], {"amount": "5"}, 12)]
    world.broker.append_segment(partition, values)
    assert ranges_of(loop.cycle(), partition) == [(0, 2)]
    found = columns(world, "fees")
    assert (found["amount"], found["amount__long"]) == ([None, "5"], [5, None])
    assert found["kafka_value_raw"] == [None, None]
    sources.close()


@pytest.mark.parametrize("place", ["registry", "file"])
def test_plain_json_has_the_columns_of_its_topics_newest_schema(
    world: TieringWorld, registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 60_000)
    schema = json.dumps({"type": "object", "properties": {"at": {"type": "string", "format": "date"}}})
    registry.register("visit", 21, "{}", schemaType="JSON")
    registry.register("visit", 22, schema, schemaType="JSON")
    (tmp_path / "visit.json").write_text(schema)
    sources = SchemaSources(tmp_path / "data", world.clock)
    schemas = RegistrySettings(url=(registry.url,), subject=("visit",)) if place == "registry" else None
    topic = TopicSettings(value="json", schemas=schemas or str(tmp_path / "visit.json"))
    (partition,) = world.broker.create_topic("visits")
    values = [b'{"at":"2026-11-21"}', b'{"at":"2026-11-22"}']
    world.broker.append_segment(partition, values)
    loop = world.loop(rules=(TopicRule(pattern="*", value_format="json", schema_source=sources.of(topic)),))
    assert ranges_of(loop.cycle(), partition) == [(0, 2)]
    found = columns(world, "visits")
    assert [str(at) for at in found["at"]] == ["2026-11-21", "2026-11-22"]
    assert found["kafka_value_raw"] == [None, None]
    assert found["kafka_error"] == [None, None]
    sources.close()
