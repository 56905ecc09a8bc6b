"""A database's changes tiered with ``unwrap = "debezium"``: the table answers what the rows are now, no byte lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.fsck.check import fsck_table
from engine.schemas.folder import SchemaFolder
from tests.engine.formats.envelopes.debezium_examples import (
    CUSTOMER_FIELDS,
    CUSTOMERS,
    SCHEMA_ID,
    as_avro,
    changes,
    customer,
    envelope,
    event,
)
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule

PHONE = {"name": "phone", "type": ["null", "string"], "default": None}
WITH_PHONE = envelope([*CUSTOMER_FIELDS, PHONE])
NOW = """
    select id, name, phone from (
        select *, coalesce(id, debezium_before.id) as row_id from changes where not kafka_is_null
    ) qualify row_number() over (partition by row_id order by kafka_partition, kafka_offset desc) = 1
    and debezium_op <> 'd' order by id
"""


def with_schema_beside(value: dict[str, Any]) -> bytes:
    for row in (value["before"], value["after"]):
        if row is not None:
            row["balance"] = "BNU="
    kept = {name: value[name] for name in ("before", "after", "source", "op", "ts_ms")}
    schema = {"type": "struct", "name": "shop.inventory.customers.Envelope"}
    return json.dumps({"schema": schema, "payload": kept}, separators=(",", ":"), ensure_ascii=False).encode()


def unwrapping(folder: Path) -> tuple[TopicRule, ...]:
    folder.mkdir()
    for schema_id, schema in ((SCHEMA_ID, CUSTOMERS), (8, WITH_PHONE)):
        (folder / f"{schema_id}.avsc").write_text(json.dumps(schema))
    source = SchemaFolder(folder)
    return (TopicRule(pattern="*", value_format="avro", codec_options={"unwrap": "debezium"}, schema_source=source),)


def test_changes_of_a_table_are_whole_and_tell_its_rows_of_now(world: TieringWorld, tmp_path: Path) -> None:
    events: list[tuple[int, dict[str, Any] | None]] = list(changes(20))
    rows_now = {number: value["after"] | {"phone": None} for number, value in events if value and value["after"]}
    for number, value in events:
        if value is None:
            del rows_now[number]
    values = [as_avro(value) for _, value in events]
    rows_now[1] = customer(1, phone="0815")
    more = [as_avro(event("u", {**customer(1), "phone": None}, rows_now[1]), WITH_PHONE, 8), b"no envelope at all"]
    (partition,) = world.broker.create_topic("shop.inventory.customers")
    loop = world.loop(rules=unwrapping(tmp_path / "schemas"))
    for segment in (values[:17], values[17:], more):
        world.broker.append_segment(partition, segment)
        loop.cycle()

    view = world.table(partition)
    report = fsck_table(view, log_dirs=[world.broker.log_dir])
    assert report.findings == ()
    changed: pa.Table = world.catalog.load_table(view.identifier).scan().to_arrow()
    assert changed.num_rows == len(values) + len(more)
    assert changed["kafka_value_raw"].null_count == changed.num_rows - 1

    with duckdb.connect() as connection:
        connection.register("changes", changed)
        found = connection.execute(NOW).fetchall()
    assert found == [(number, row["name"], row["phone"]) for number, row in sorted(rows_now.items())]


def test_changes_in_json_without_a_schema_source_get_their_columns_from_payloads(world: TieringWorld) -> None:
    """Kafka Connect as it is by default: JSON with the schema beside each value."""
    events = [value for _, value in changes(20)]
    values = [None if value is None else with_schema_beside(value) for value in events]
    (partition,) = world.broker.create_topic("shop.inventory.customers")
    loop = world.loop(rules=(TopicRule(pattern="*", value_format="json", codec_options={"unwrap": "debezium"}),))
    for segment in (values[:17], values[17:]):
        world.broker.append_segment(partition, segment)
        loop.cycle()
    view = world.table(partition)
    assert fsck_table(view, log_dirs=[world.broker.log_dir]).findings == ()
    found = world.catalog.load_table(view.identifier).scan().to_arrow().sort_by("kafka_offset")
    assert found["kafka_value_raw"].null_count == len(values)
    assert found["id"].to_pylist() == [value["after"]["id"] if value and value["after"] else None for value in events]
    assert found["debezium_op"].to_pylist() == [value and value["op"] for value in events]
    assert len(set(found["debezium_schema"].drop_null().to_pylist())) == 1
