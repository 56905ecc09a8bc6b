"""Schemas that change behind an envelope, and those of typed keys: the same rules, at another place of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.evolution.case import a, optional, record
from tests.evolution.evolving_topic import EvolvingTopic, Warehouse, avro, value_of


def envelope(*fields: dict[str, Any]) -> dict[str, Any]:
    """Debezium's, as far as it matters: the row before and after."""
    row = record(*fields, name="Value")
    return record(a("before", optional(row)), a("after", optional("Value")), a("op", "string"), name="Envelope")


def test_rows_of_change_events_evolve_at_the_top_and_in_the_row_before(tmp_path: Path) -> None:
    topic = EvolvingTopic(Warehouse(tmp_path / "world"), "changes", options={"unwrap": "debezium"})
    versions = [
        (envelope(a("a", "int"), a("kafka_x", "int")), {"a": 1, "kafka_x": 3}, {"a": 1, "after_kafka_x": 3}),
        (envelope(a("a", "long"), a("b", "string")), {"a": 2**40, "b": "x"}, {"a": 2**40, "b": "x"}),
        (envelope(a("a", "string")), {"a": "s"}, {"a__string": "s"}),
        (envelope(a("total", "string", aliases=["a"])), {"total": "q"}, {"a__string": "q"}),
        (envelope(a("a", "int")), {"a": 5}, {"a": 5}),
    ]
    expected: list[dict[str, Any]] = []
    for count in range(1, len(versions) + 1):
        topic.add(count, json.dumps(versions[count - 1][0]))
        values = []
        for schema_id, (schema, row, laid) in enumerate(versions[:count], 1):
            values.append(avro(schema, schema_id, {"before": None, "after": row, "op": "c"}))
            values.append(avro(schema, schema_id, {"before": row, "after": None, "op": "d"}))
            before = {"a": None, "kafka_x": None, "b": None, "a__string": None}
            before |= {name.removeprefix("after_"): value for name, value in laid.items()}
            expected += [laid | {"debezium_op": "c"}, {"debezium_before": before, "debezium_op": "d"}]
        topic.tier(values)
    assert {field.name: str(field.type) for field in topic.reopened().value_fields} == {
        "a": "int64",
        "after_kafka_x": "int32",
        "debezium_before": "struct<a: int64, kafka_x: int32, b: string, a__string: string>",
        "debezium_op": "string",
        "b": "string",
        "a__string": "string",
    }
    rows = topic.rows()
    assert [value_of(row) for row in rows] == expected
    assert not any("kafka_value_raw" in row for row in rows)
    assert topic.read_back() == topic.values
    assert topic.findings() == []


def test_fields_of_typed_keys_evolve_within_the_key(tmp_path: Path) -> None:
    topic = EvolvingTopic(Warehouse(tmp_path / "world"), "keyed", key_codec="avro")
    value_schema = record(a("v", "int"))
    topic.add(50, json.dumps(value_schema))
    versions = [
        (record(a("id", "int")), {"id": 1}, {"id": 1, "id__string": None, "kafka_offset": None}),
        (record(a("id", "long")), {"id": 2**40}, {"id": 2**40, "id__string": None, "kafka_offset": None}),
        (record(a("key", "int", aliases=["id"])), {"key": 3}, {"id": 3, "id__string": None, "kafka_offset": None}),
        (
            record(a("id", "string"), a("kafka_offset", "int")),
            {"id": "x", "kafka_offset": 9},
            {"id": None, "id__string": "x", "kafka_offset": 9},
        ),
    ]
    expected = []
    for count in range(1, len(versions) + 1):
        topic.add_key(count, json.dumps(versions[count - 1][0]))
        keys = [avro(schema, schema_id, key) for schema_id, (schema, key, _) in enumerate(versions[:count], 1)]
        expected += [row for _, _, row in versions[:count]]
        topic.tier([avro(value_schema, 50, {"v": number}) for number in range(count)], keys)
    assert topic.reopened().key_codec is not None
    rows = topic.rows()
    assert [row["kafka_key"] for row in rows] == expected
    assert not any("kafka_key_raw" in row for row in rows)
    assert topic.read_keys_back() == topic.keys
    assert topic.read_back() == topic.values
    assert topic.findings() == []
