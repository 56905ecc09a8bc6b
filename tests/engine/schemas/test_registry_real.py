"""A real registry, filled by Confluent's own client and serializers: what they registered is what our codecs read."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from engine.clock import SystemClock
from engine.errors import Invalid, Unavailable
from engine.formats.codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.formats.protobuf.descriptors import compile_proto, load_file
from engine.records.records import ByteSpans
from engine.schemas.source import FoundSchema, Role, SchemaSource
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.schema_sources import SchemaSources
from floeberg.settings.topic import TopicSettings
from tests.support.schema_registry_server import OLDEST_JAVA, SchemaRegistryServer, java_of_the_registry

pytestmark = [
    pytest.mark.catalog,
    pytest.mark.xdist_group("schema-registry"),
    pytest.mark.skipif(java_of_the_registry() is None, reason=f"the registry needs a Java {OLDEST_JAVA} or newer"),
]

ADDRESS = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "street", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": "shop.Address"}],
}
SECOND_ORDER = {
    **ORDER,
    "fields": [
        *ORDER["fields"],  # type: ignore[misc]
        {"name": "bill_to", "type": ["null", "shop.Address"], "default": None},
    ],
}
MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; string currency = 2; }'
# Named, though it is the default: the serializers would ask for the topic's associations first, a path that this
# registry doesn't have, and once in some hundred times it never ends its 404.
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}
PAYMENT = (
    'syntax = "proto3"; package shop; import "shop/money.proto"; import "google/protobuf/timestamp.proto";'
    "message Payment { Money amount = 1; google.protobuf.Timestamp at = 2; }"
)
CUSTOMER = {"type": "object", "title": "Customer", "properties": {"name": {"$ref": "#/definitions/name"}}} | {
    "definitions": {"name": {"type": "string", "maxLength": 5}}
}
VISIT = {
    "type": "object",
    "title": "Visit",
    "properties": {"who": {"$ref": "customer.json"}, "by": {"$ref": "customer.json#/definitions/name"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer(tmp_path_factory.mktemp("schema-registry")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: SchemaRegistryServer) -> SchemaRegistryClient:
    """With what is referred to registered: an address, an amount of money, a customer."""
    client = SchemaRegistryClient({"url": server.url, "timeout": 30})
    client.register_schema("shop.Address", Schema(json.dumps(ADDRESS), "AVRO"))
    client.register_schema("shop/money.proto", Schema(MONEY, "PROTOBUF"))
    client.register_schema("customer", Schema(json.dumps(CUSTOMER), "JSON"))
    return client


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Callable[..., SchemaSource]]:
    made: list[SchemaSources] = []

    def make(server: SchemaRegistryServer, value: str = "avro", **settings: Any) -> SchemaSource:
        made.append(SchemaSources(tmp_path, SystemClock()))
        registry = RegistrySettings(url=(server.url,), **settings)
        source = made[-1].of(TopicSettings.model_construct(value=value, schemas=registry))
        assert source is not None
        return source

    yield make
    for one in made:
        one.close()


def answered(ask: Callable[[], Any]) -> Any:
    """What a source says, come for as often as it takes: it may have said that it needs longer."""
    for _ in range(900):
        try:
            return ask()
        except Unavailable as error:
            if "has not answered yet" not in error.problem:
                raise
            threading.Event().wait(0.1)
    raise AssertionError("the registry does not answer")


def written(serializer: Any, value: object, topic: str = "orders") -> bytes:
    data = serializer(value, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(data, bytes)
    return data


def rows_of(schema_format: str, texts: dict[int, str], values: list[bytes]) -> Any:
    """The columns of values; that they alone give the values back is part of it."""
    fields: tuple[Any, ...] = ()
    for text in texts.values():
        fields = propose_fields(schema_format, text, fields).fields
    codec = open_codec(CodecSpec(name=schema_format, schemas=texts), fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert (decoded.verdict == Verdict.EXACT).sum() == len(values)
    return decoded.columns.to_pylist()


def schema_id_of(value: bytes) -> int:
    assert value[0] == 0
    return int.from_bytes(value[1:5], "big")


def payment_class() -> Any:
    file = load_file(compile_proto(PAYMENT, {"shop/money.proto": MONEY}))
    return GetMessageClass(file.message_types_by_name["Payment"])


def test_avro_values_with_references_of_two_versions_become_columns(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    reference = SchemaReference("shop.Address", "shop.Address", 1)
    values = []
    for schema, order in ((ORDER, {}), (SECOND_ORDER, {"bill_to": {"street": "Elm"}})):
        serializer = AvroSerializer(client, Schema(json.dumps(schema), "AVRO", [reference]), conf=BY_TOPIC)
        values.append(written(serializer, {"id": 7, "to": {"street": "Oak"}, **order}))
    ids = [schema_id_of(value) for value in values]
    assert len(set(ids)) == 2
    source = sources(server)
    texts = {schema_id: answered(lambda schema_id=schema_id: source.get(schema_id, "avro")) for schema_id in ids}
    rows = rows_of("avro", texts, values)
    assert rows == [
        {"id": 7, "to": {"street": "Oak"}, "bill_to": None},
        {"id": 7, "to": {"street": "Oak"}, "bill_to": {"street": "Elm"}},
    ]
    (newest,) = answered(lambda: source.newest("orders", Role.VALUE, "avro"))
    assert newest == FoundSchema(subject="orders-value", version=2, schema_id=ids[1], text=texts[ids[1]])
    with pytest.raises(Invalid, match="type AVRO"):
        answered(lambda: source.get(ids[0], "protobuf"))
    with pytest.raises(Invalid, match="schema 987654 is not in the registry"):
        answered(lambda: source.get(987654, "avro"))


def test_protobuf_values_are_read_by_the_schema_their_serializer_registered(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    payment = payment_class()
    serializer = ProtobufSerializer(payment, client, {"use.deprecated.format": False, **BY_TOPIC})
    value = written(serializer, payment(amount={"units": 5, "currency": "EUR"}, at={"seconds": 3}), "payments")
    text = answered(lambda: sources(server, "protobuf").get(schema_id_of(value), "protobuf"))
    (row,) = rows_of("protobuf", {schema_id_of(value): text}, [value])
    assert row["amount"] == {"units": 5, "currency": "EUR"}
    assert row["at"] == datetime.datetime(1970, 1, 1, 0, 0, 3, tzinfo=datetime.UTC)


def test_protobuf_schema_that_was_registered_as_text_finds_its_imports(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    reference = SchemaReference("shop/money.proto", "shop/money.proto", 1)
    schema_id = client.register_schema("payments-as-text-value", Schema(PAYMENT, "PROTOBUF", [reference]))
    text = answered(lambda: sources(server, "protobuf").get(schema_id, "protobuf"))
    assert text == compile_proto(PAYMENT, {"shop/money.proto": MONEY})


def test_json_schema_with_references_says_the_same_in_one_document(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    reference = SchemaReference("customer.json", "customer", 1)
    serializer = JSONSerializer(Schema(json.dumps(VISIT), "JSON", [reference]), client, conf=BY_TOPIC)
    value = written(serializer, {"who": {"name": "Ana"}, "by": "Bo"}, "visits")
    text = answered(lambda: sources(server, "json").get(schema_id_of(value), "json"))
    (row,) = rows_of("json", {schema_id_of(value): text}, [value])
    assert (row["who"], row["by"]) == ({"name": "Ana"}, "Bo")
    schema = json.loads(text)
    validator = jsonschema.Draft7Validator(schema)
    assert validator.is_valid(json.loads(value[5:]))
    assert not validator.is_valid({"who": {"name": "Annabel"}})
    assert not validator.is_valid({"by": "Annabel"})


def test_newest_schemas_are_found_by_the_strategy_their_producers_use(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    strategies = {
        "topic": topic_subject_name_strategy,
        "record": record_subject_name_strategy,
        "topic_record": topic_record_subject_name_strategy,
    }
    for name in ("Parcel", "Letter"):
        schema = {"type": "record", "name": name, "namespace": "mail", "fields": [{"name": "id", "type": "int"}]}
        for strategy in strategies.values() if name == "Parcel" else [topic_record_subject_name_strategy]:
            serializer = AvroSerializer(client, json.dumps(schema), conf={"subject.name.strategy": strategy})
            written(serializer, {"id": 1}, "mail")
            written(serializer, {"id": 1}, "mail-abroad")
    found = {}
    for strategy in strategies:
        named = {"subject": ("mail.Parcel",)} if strategy == "record" else {}
        source = sources(server, subject_strategy=strategy, **named)
        newest = answered(lambda source=source: source.newest("mail", Role.VALUE, "avro"))
        found[strategy] = [schema.subject for schema in newest]
    assert found == {
        "topic": ["mail-value"],
        "record": ["mail.Parcel"],
        "topic_record": ["mail-mail.Letter", "mail-mail.Parcel"],
    }
    assert answered(lambda: sources(server, metadata={"major": "2"}).newest("mail", Role.VALUE, "avro")) == ()


def test_registry_that_is_stopped_and_started_is_missed_only_for_what_is_unknown(
    server: SchemaRegistryServer, client: SchemaRegistryClient, sources: Callable[..., SchemaSource]
) -> None:
    known = client.register_schema("known-value", Schema('"string"', "AVRO"))
    unknown = client.register_schema("unknown-value", Schema('"bytes"', "AVRO"))
    source = sources(server)
    assert answered(lambda: source.get(known, "avro")) == '"string"'
    server.stop()
    restarted = sources(server)
    for asked in (source, restarted):
        assert answered(lambda asked=asked: asked.get(known, "avro")) == '"string"'
        with pytest.raises(Unavailable, match="does not answer"):
            answered(lambda asked=asked: asked.get(unknown, "avro"))
    server.start()
    for asked in (source, restarted):
        assert eventually(lambda asked=asked: asked.get(unknown, "avro")) == '"bytes"'


def eventually(ask: Callable[[], Any]) -> Any:
    """What a source says once it has noticed that its registry is back."""
    for _ in range(900):
        try:
            return ask()
        except Unavailable:
            threading.Event().wait(0.1)
    raise AssertionError("the registry is back, and not asked")
