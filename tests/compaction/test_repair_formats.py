"""Repair of every format that has schemas, and of typed keys: the same records, with columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.formats.protobuf.descriptors import compile_proto
from engine.fsck.check import fsck_table
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.columns import TableLayout
from engine.topic_partition import TopicIdPartition
from tests.engine.formats.envelopes.debezium_examples import CUSTOMERS, SCHEMA_ID, as_avro, customer, event
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.order_schemas import TEXTS, KnownSchemas, order
from tests.tiering.tiering_world import TieringWorld
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"type": "string"}}},
    }
)
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; repeated string lines = 2; }'


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


@dataclass
class Topic:
    """``values`` and ``keys`` of one segment; ``texts`` the schemas that come later; ``repaired`` columns then."""

    value_format: str
    values: list[bytes | None]
    texts: Mapping[int, str]
    repaired: Mapping[str, list[Any]]
    keys: list[bytes | None] | None = None
    layout: TableLayout = field(default_factory=TableLayout)
    options: Mapping[str, str] = field(default_factory=dict)


def topics() -> dict[str, Topic]:
    body = [b'{"id":1,"lines":["a","b"]}', b'{"id":2,"lines":[]}', b'{"lines": ["c"], "id": 3}']
    columns = {"id": [1, 2, 3], "lines": [["a", "b"], [], ["c"]], "kafka_value_raw": [None] * 3}
    changed = [event("c", None, customer(1)), event("c", None, customer(2)), None]
    return {
        "json, framed": Topic("json", [framed(7, one) for one in body], {7: JSON_SCHEMA}, columns),
        "json, plain": Topic("json", [*body], {7: JSON_SCHEMA}, columns),
        "protobuf": Topic(
            "protobuf",
            [framed(9, b"\x00\x08\x01\x12\x01a\x12\x01b"), None, framed(9, b"\x00\x08\x03")],
            {9: compile_proto(PROTO, {})},
            {"id": [1, None, 3], "lines": [["a", "b"], None, []], "kafka_value_raw": [None] * 3},
        ),
        "debezium": Topic(
            "avro",
            [as_avro(change) for change in changed],
            {SCHEMA_ID: json.dumps(CUSTOMERS)},
            {"id": [1, 2, None], "debezium_op": ["c", "c", None], "kafka_value_raw": [None] * 3},
            options={"unwrap": "debezium"},
        ),
        "avro keys": Topic(
            "string",
            [b"x", b"y", b"z"],
            {1: TEXTS[1]},
            {"kafka_key": [{"id": 1}, None, {"id": 3}], "kafka_key_raw": [None] * 3, "value": ["x", "y", "z"]},
            keys=[order(1, {"id": 1}), None, order(1, {"id": 3})],
            layout=TableLayout(key="avro"),
        ),
    }


TOPICS = topics()


def consumed(world: TieringWorld, partition: TopicIdPartition) -> bytes:
    table, reader = world.table(partition), LogReader(file_index=FileIndex())
    content = b"".join(reader.read(table, 0, offsets=table.ledger[0].range, start=0))
    reader.close()
    return content


@pytest.mark.parametrize("name", TOPICS)
def test_records_get_columns_once_their_schema_is_there(world: TieringWorld, name: str) -> None:
    topic, source = TOPICS[name], KnownSchemas({})
    rule = TopicRule(
        pattern="*",
        value_format=topic.value_format,
        codec_options=topic.options,
        layout=topic.layout,
        schema_source=source,
    )
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, topic.values, keys=topic.keys)
    daemon = RepairingDaemon(world, (rule,))
    assert daemon.cycle()[0].commits == 1
    before, digest = consumed(world, partition), world.table(partition).ledger[0].digest
    source.texts = dict(topic.texts)
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    _, turn = daemon.cycle()
    assert (turn.replaced, turn.gained) == (
        1,
        sum(one is not None for one in (topic.keys or topic.values)),
    )
    found = world.catalog.load_table("kafka.orders").scan().to_arrow().sort_by("kafka_offset").to_pydict()
    assert {column: found[column] for column in topic.repaired} == topic.repaired
    assert found["kafka_error"] == [None] * len(topic.values)
    assert (consumed(world, partition), world.table(partition).ledger[0].digest) == (before, digest)
    assert fsck_table(world.table(partition), log_dirs=[world.broker.log_dir]).findings == ()
    assert daemon.repaired_files() == 0
