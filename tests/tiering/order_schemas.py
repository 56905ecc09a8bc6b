"""Two schemas of orders, a source of them, and topics of Avro values that name them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from engine.errors import Invalid, Unavailable
from engine.schemas.source import FoundSchema, Role, SchemaSource
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
TEXTS = {1: json.dumps(FIRST), 2: json.dumps(SECOND)}


class KnownSchemas(SchemaSource):
    """Schemas of a dictionary; ``away`` makes the source unavailable."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self.texts = texts
        self.away = False
        self.asked: list[int] = []

    def get(self, schema_id: int, schema_format: str) -> str:
        self.asked.append(schema_id)
        if self.away:
            raise Unavailable("the registry does not answer")
        if schema_id not in self.texts:
            raise Invalid(f"there is no schema {schema_id}")
        return self.texts[schema_id]

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        self.asked.append(-1)
        if self.away:
            raise Unavailable("the registry does not answer")
        newest = [max(self.texts)] if self.texts else []
        return tuple(FoundSchema(schema_id=schema_id, text=self.texts[schema_id]) for schema_id in newest)

    def close(self) -> None:
        pass


def order(schema_id: int, value: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(TEXTS[schema_id])), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def avro(source: KnownSchemas | None) -> tuple[TopicRule, ...]:
    return (TopicRule(pattern="*", value_format="avro", schema_source=source),)


def columns(world: TieringWorld, topic: str) -> dict[str, list[object]]:
    found: dict[str, list[object]] = (
        world.catalog.load_table(("kafka", topic)).scan().to_arrow().sort_by("kafka_offset").to_pydict()
    )
    return found
