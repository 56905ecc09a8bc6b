"""Topics of every value format, written by the serializers that producers use, with their schemas in folders."""

from __future__ import annotations

import json
from pathlib import Path

from bench.values.python_producers import python_producers
from bench.values.value_records import KINDS, RecordKind
from floeberg.settings.topic import TopicSettings

PRODUCERS = {
    "values-avro": "avro_confluent",
    "values-protobuf": "protobuf_confluent",
    "values-json": "json_confluent",
    "values-json-plain": "json_dumps",
}
"""Which of Python's producers writes a topic."""

KEY_SCHEMA = json.dumps(
    {"type": "record", "name": "Key", "fields": [{"name": "shop", "type": "int"}, {"name": "number", "type": "long"}]}
)
SCHEMA_ID = 1
"""Each serializer registers the one schema it knows at a registry of its own."""

_ORDERS: RecordKind = next(kind for kind in KINDS if kind.name == "orders")


def write_schemas(folder: Path) -> None:
    """What ``value_topics`` name: the schemas under their ids, by topic."""
    texts = {
        "values-avro/1.avsc": json.dumps(_ORDERS.avro),
        "values-avro/2.avsc": KEY_SCHEMA,
        "values-protobuf/1.proto": _ORDERS.proto,
        "values-json/1.json": json.dumps(_ORDERS.json_schema),
    }
    for name, text in texts.items():
        path = folder / "schemas" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def value_topics(folder: Path) -> tuple[TopicSettings, ...]:
    """The topics' settings, as an operator would write them."""

    def topic(name: str, **settings: str) -> TopicSettings:
        return TopicSettings.model_validate({"name": name, "freshness_ms": "closed", **settings})

    def schemas(name: str) -> str:
        return str(folder / "schemas" / name)

    return (
        topic("values-avro", value="avro", key="avro", schemas=schemas("values-avro")),
        topic("values-protobuf", value="protobuf", schemas=schemas("values-protobuf")),
        topic("values-json", value="json", schemas=schemas("values-json")),
        topic("values-json-plain", value="json"),
    )


def values_of(topic: str, count: int) -> list[bytes]:
    """``count`` orders as the topic's producer writes them."""
    write = python_producers(_ORDERS)[PRODUCERS[topic]]
    return [write(record) for record in _ORDERS.records(count)]
