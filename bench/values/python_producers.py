"""Values as Python's producers write them: Confluent's serializers with their header, and JSON libraries alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from bench.values.value_records import Record, RecordKind, as_json, as_proto_json
from engine.formats.protobuf.descriptors import compile_proto, load_file

Encode = Callable[[Record], bytes]


def python_values(kind: RecordKind, records: Sequence[Record]) -> dict[tuple[str, str], list[bytes]]:
    """The values of all producers by (kind's name, producer)."""
    return {
        (kind.name, producer): [encode(record) for record in records]
        for producer, encode in python_producers(kind).items()
    }


def message_class(kind: RecordKind) -> type[Message]:
    """The class of a kind's message, as protoc's generated module would have it."""
    file = load_file(compile_proto(kind.proto, {}))
    return GetMessageClass(file.message_types_by_name[kind.message.rpartition(".")[2]])


def python_producers(kind: RecordKind) -> dict[str, Encode]:
    """How each writes one record; a producer is a format and who writes it, with a registry of its own."""
    context = SerializationContext(kind.name, MessageField.VALUE)
    message = message_class(kind)

    def confluent(serializer: Callable[[Any, Any], Any], convert: Callable[[Record], Any]) -> Encode:
        return lambda record: bytes(serializer(convert(record), context))

    def plain(dumps: Callable[[Any], bytes]) -> Encode:
        return lambda record: dumps(as_json(record))

    compact = partial(json.dumps, separators=(",", ":"), ensure_ascii=False)
    return {
        "avro_confluent": confluent(AvroSerializer(_registry(), json.dumps(kind.avro)), lambda record: record),
        "protobuf_confluent": confluent(
            ProtobufSerializer(message, _registry(), {"use.deprecated.format": False}),
            lambda record: ParseDict(as_proto_json(record), message()),
        ),
        "json_confluent": confluent(JSONSerializer(json.dumps(kind.json_schema), _registry()), as_json),
        "json_dumps": plain(lambda value: json.dumps(value).encode()),
        "json_dumps_compact": plain(lambda value: compact(value).encode()),
        "json_orjson": plain(orjson.dumps),
    }


def _registry() -> SchemaRegistryClient:
    """Confluent's own, in this process."""
    return SchemaRegistryClient.new_client({"url": "mock://bench"})
