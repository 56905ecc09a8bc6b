"""Schemas that change under a loop that runs: nothing stops, and the topic's setting of the day decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.schemas.folder import SchemaFolder
from tests.evolution.case import a, record
from tests.evolution.evolving_topic import avro, value_of, without_nulls
from tests.tiering.tiering_world import TieringWorld, ranges_of
from topics.topic_rule import TopicRule

SCHEMAS = {
    1: record(a("id", "int"), a("note", "string")),
    2: record(a("id", "string"), a("note", "string"), a("kafka_offset", "long")),
    3: record(a("id", "long"), a("remark", "string", aliases=["note"])),
    4: record(a("id", "boolean"), a("remark", "string")),
}
VALUES: dict[int, Any] = {
    1: {"id": 1, "note": "a"},
    2: {"id": "two", "note": "b", "kafka_offset": 7},
    3: {"id": 2**40, "remark": "c"},
    4: {"id": True, "remark": "d"},
}


def value(schema_id: int) -> bytes:
    return avro(SCHEMAS[schema_id], schema_id, VALUES[schema_id])


def test_each_schema_is_met_in_its_turn_and_the_setting_of_the_day_decides(tmp_path: Path) -> None:
    world = TieringWorld(tmp_path)
    folder = tmp_path / "schemas"
    folder.mkdir()
    for schema_id, schema in SCHEMAS.items():
        (folder / f"{schema_id}.avsc").write_text(json.dumps(schema))

    def rules(**options: str) -> tuple[TopicRule, ...]:
        source = SchemaFolder(folder)
        return (TopicRule(pattern="*", value_format="avro", schema_source=source, codec_options=options),)

    (partition,) = world.broker.create_topic("orders")
    for first in (1, 2, 3):
        world.broker.append_segment(partition, [value(schema_id) for schema_id in range(1, first + 1)])
        assert ranges_of(world.loop(rules=rules()).cycle(), partition)
    world.broker.append_segment(partition, [value(4), value(1)])
    assert ranges_of(world.loop(rules=rules(on_conflict="raw")).cycle(), partition) == [(6, 8)]

    rows = world.catalog.load_table(("kafka", "orders")).scan().to_arrow().sort_by("kafka_offset").to_pylist()
    of_schema = {
        1: {"id": 1, "note": "a"},
        2: {"id__string": "two", "note": "b"},
        3: {"id": 2**40, "note": "c"},
        4: {"note": "d"},
    }
    order = [1, 1, 2, 1, 2, 3, 4, 1]
    assert [value_of(without_nulls(row)) for row in rows] == [of_schema[schema_id] for schema_id in order]
    assert [row["kafka_value_raw"] is not None for row in rows] == [schema_id in {2, 4} for schema_id in order]
    assert all(row["kafka_schema_id"] == schema_id for row, schema_id in zip(rows, order, strict=True))
