"""Schema sources held to one suite, for all three kinds of schema; and what only one of them has."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from engine.errors import Invalid, Unavailable
from engine.formats.avro.mapping import arrow_type, map_schema
from engine.formats.avro.schema import parse_schema
from engine.formats.protobuf.descriptors import compile_proto, load_file
from engine.schemas.cache import SchemaCache
from engine.schemas.desk import SchemaDesk
from engine.schemas.folder import SchemaFile, SchemaFolder
from engine.schemas.http import RegistryAccess, RegistryHttp
from engine.schemas.registry import SchemaRegistry
from engine.schemas.source import Role, SchemaSource
from engine.schemas.subjects import SubjectRule, SubjectStrategy
from engine.schemas.topics import RegistrySchemas
from tests.engine.schemas.patient_clock import PatientClock
from tests.engine.schemas.registry_server import running_registry

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "größe", "type": "int"}]}, ensure_ascii=False)
PROTO = 'syntax = "proto3"; package shop; message R { int32 size = 1; }'
JSON = json.dumps({"type": "object", "properties": {"größe": {"type": "integer"}}}, ensure_ascii=False)
TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}


class SchemaSourceConformance(ABC):
    @abstractmethod
    def source_with(self, schema_format: str, schemas: Mapping[int, str]) -> SchemaSource: ...

    @abstractmethod
    def unreachable_source(self) -> SchemaSource: ...

    def test_avro_schema_comes_back_as_it_was_stored(self) -> None:
        source = self.source_with("avro", {1: RECORD, 2: '"string"', 2**31 - 1: RECORD})
        found = [source.get(schema_id, "avro") for schema_id in (1, 2, 2**31 - 1, 1)]
        assert found == [RECORD, '"string"', RECORD, RECORD]
        source.close()

    def test_json_schema_comes_back_as_it_was_stored(self) -> None:
        source = self.source_with("json", {1: JSON})
        assert source.get(1, "json") == JSON
        source.close()

    def test_protobuf_schema_comes_back_as_a_descriptor_set(self) -> None:
        source = self.source_with("protobuf", {1: PROTO})
        assert source.get(1, "protobuf") == compile_proto(PROTO, {})
        source.close()

    def test_schema_that_is_not_there_is_invalid_and_named(self) -> None:
        source = self.source_with("avro", {1: RECORD})
        with pytest.raises(Invalid, match="schema 2"):
            source.get(2, "avro")
        source.close()

    def test_broken_protobuf_schema_is_invalid_and_its_line_is_told(self) -> None:
        source = self.source_with("protobuf", {1: 'syntax = "proto3";\nmessage {'})
        with pytest.raises(Invalid, match=r":2:9: Expected message name"):
            source.get(1, "protobuf")
        source.close()

    def test_source_that_can_not_be_reached_is_unavailable_and_named(self) -> None:
        source = self.unreachable_source()
        with pytest.raises(Unavailable, match="absent"):
            source.get(1, "avro")
        source.close()

    def test_topic_that_the_source_does_not_know_has_no_newest_schema(self) -> None:
        source = self.source_with("avro", {1: RECORD})
        assert source.newest("elsewhere", Role.VALUE, "avro") == ()
        source.close()


class TestSchemaFolder(SchemaSourceConformance):
    suffixes = {"avro": "avsc", "protobuf": "proto", "json": "json"}  # noqa: RUF012 - read only

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def source_with(self, schema_format: str, schemas: Mapping[int, str]) -> SchemaFolder:
        for schema_id, text in schemas.items():
            (self.folder / f"{schema_id}.{self.suffixes[schema_format]}").write_text(text, encoding="utf-8")
        return SchemaFolder(self.folder)

    def unreachable_source(self) -> SchemaFolder:
        return SchemaFolder(self.folder / "absent")

    def test_schema_added_later_is_found(self) -> None:
        source = self.source_with("avro", {})
        with pytest.raises(Invalid):
            source.get(5, "avro")
        self.source_with("avro", {5: RECORD})
        assert source.get(5, "avro") == RECORD

    def test_file_that_is_no_text_is_invalid(self) -> None:
        (self.folder / "1.avsc").write_bytes(b"\xff\xfe")
        with pytest.raises(Invalid, match="UTF-8"):
            SchemaFolder(self.folder).get(1, "avro")

    def test_protobuf_imports_are_found_in_the_folder_and_below(self) -> None:
        (self.folder / "shop").mkdir()
        (self.folder / "shop" / "money.proto").write_text('syntax = "proto3"; message Money { int64 units = 1; }')
        basket = 'syntax = "proto3"; import "shop/money.proto"; message Basket { Money sum = 1; }'
        (self.folder / "shop" / "basket.proto").write_text(basket)
        order = 'syntax = "proto3";\nimport public "shop/basket.proto"; message Order { Basket basket = 1; }'
        source = self.source_with("protobuf", {1: order})
        assert [file.name for file in load_file(source.get(1, "protobuf")).dependencies] == ["shop/basket.proto"]

    def test_descriptor_set_is_read_as_it_is(self) -> None:
        content = base64.b64decode(compile_proto(PROTO, {}))
        (self.folder / "3.desc").write_bytes(content)
        assert load_file(SchemaFolder(self.folder).get(3, "protobuf")).package == "shop"
        (self.folder / "4.desc").write_bytes(content[:-3])
        with pytest.raises(Invalid):
            SchemaFolder(self.folder).get(4, "protobuf")

    def test_json_references_are_found_in_the_folder_and_none_outside_it(self) -> None:
        inside = self.folder / "inside"
        inside.mkdir()
        (self.folder / "secret.json").write_text('{"type": "string"}')
        (inside / "name.json").write_text('{"type": "string", "maxLength": 9}')
        refs = {name: {"$ref": path} for name, path in (("a", "name.json"), ("b", "../secret.json"))}
        (inside / "1.schema.json").write_text(json.dumps({"properties": refs}))
        bundled = json.loads(SchemaFolder(inside).get(1, "json"))
        assert bundled["properties"] == {"a": {"$ref": "#/$defs/name.json"}, "b": {"$ref": "../secret.json"}}
        assert bundled["$defs"] == {"name.json": {"type": "string", "maxLength": 9}}


def test_schema_file_is_the_newest_of_every_topics_values_and_has_no_id(tmp_path: Path) -> None:
    path = tmp_path / "order.schema.json"
    source = SchemaFile(path)
    with pytest.raises(Unavailable, match="not there"):
        source.newest("orders", Role.VALUE, "json")
    path.write_text(JSON)
    (found,) = source.newest("orders", Role.VALUE, "json")
    assert (found.text, found.schema_id) == (JSON, None)
    assert source.newest("orders", Role.KEY, "json") == ()
    with pytest.raises(Invalid, match="no schema 1"):
        source.get(1, "json")


class TestSchemaRegistry(SchemaSourceConformance):
    @pytest.fixture(autouse=True)
    def _registry(self) -> Iterator[None]:
        self.clock = PatientClock()
        with running_registry() as self.server:
            yield

    def open(
        self, url: str = "", *, subjects: SubjectRule | None = None, cache: SchemaCache | None = None
    ) -> RegistrySchemas:
        access = RegistryAccess(urls=(url or self.server.url,))
        registry = SchemaRegistry(RegistryHttp(access, self.clock), cache)
        return RegistrySchemas(registry, SchemaDesk(f"the registry {access.identity}", self.clock), subjects)

    def source_with(self, schema_format: str, schemas: Mapping[int, str]) -> RegistrySchemas:
        more = {} if schema_format == "avro" else {"schemaType": TYPES[schema_format]}
        self.server.schemas = {schema_id: {"schema": text, **more} for schema_id, text in schemas.items()}
        return self.open()

    def unreachable_source(self) -> RegistrySchemas:
        return self.open("http://127.0.0.1:9/absent")

    def test_schema_is_asked_for_once(self) -> None:
        source = self.source_with("avro", {1: RECORD})
        assert source.get(1, "avro") == source.get(1, "avro")
        assert self.server.requests == ["/api/schemas/ids/1"]

    def test_schema_of_another_type_than_the_topic_has_is_invalid(self) -> None:
        source = self.source_with("protobuf", {1: PROTO})
        with pytest.raises(Invalid, match="type PROTOBUF, the topic's setting says avro"):
            source.get(1, "avro")

    def test_avro_references_are_put_in_where_their_types_are_first_used(self) -> None:
        address = {
            "type": "record",
            "name": "Address",
            "namespace": "shop",
            "fields": [{"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["HOME"]}}],
        }
        person = {"type": "record", "name": "other.Person", "fields": [{"name": "home", "type": "shop.Address"}]}
        order = {
            "type": "record",
            "name": "shop.Order",
            "fields": [
                {"name": "kind", "type": "Kind"},
                {"name": "buyer", "type": ["null", "other.Person"]},
                {"name": "to", "type": {"type": "array", "items": "Address"}},
            ],
        }
        to_address = {"name": "shop.Address", "subject": "shop/address", "version": 3}
        self.server.versions[("shop/address", 3)] = {"schema": json.dumps(address)}
        self.server.versions[("person", 1)] = {"schema": json.dumps(person), "references": [to_address]}
        self.server.schemas[8] = {
            "schema": json.dumps(order),
            "references": [{"name": "other.Person", "subject": "person", "version": 1}, to_address],
        }
        text = self.open().get(8, "avro")
        kind = arrow_type(map_schema(parse_schema(text)))
        home = "struct<kind: string>"
        assert str(kind) == f"struct<kind: string, buyer: struct<home: {home}>, to: list<element: {home}>>"
        # Also a version that was deleted since: it is what the schema was written with.
        assert self.server.requests.count("/api/subjects/shop%2Faddress/versions/3?deleted=true") == 1

    def test_protobuf_references_are_its_imports_under_their_names(self) -> None:
        money = {"schema": 'syntax = "proto3"; message Money { int64 units = 1; }', "schemaType": "PROTOBUF"}
        basket = 'syntax = "proto3"; import "money.proto"; message Basket { Money sum = 1; }'
        to_money = {"name": "money.proto", "subject": "money", "version": 1}
        self.server.versions[("money", 1)] = money
        self.server.versions[("basket", 2)] = {"schema": basket, "schemaType": "PROTOBUF", "references": [to_money]}
        self.server.schemas[8] = {
            "schema": 'syntax = "proto3"; import "a/basket.proto"; message Order { Basket basket = 1; }',
            "schemaType": "PROTOBUF",
            "references": [{"name": "a/basket.proto", "subject": "basket", "version": 2}],
        }
        file = load_file(self.open().get(8, "protobuf"))
        assert file.message_types_by_name["Order"].fields[0].message_type.fields[0].message_type.name == "Money"

    def test_protobuf_schemas_that_were_registered_as_descriptors_are_read_beside_texts(self) -> None:
        texts = {
            "money.proto": 'syntax = "proto3"; package shop; message Money { int64 units = 1; }',
            "own": 'syntax = "proto3"; package shop; import "money.proto"; import "google/protobuf/any.proto";'
            "message Order { Money sum = 1; google.protobuf.Any more = 2; }",
        }
        whole = compile_proto(texts["own"], {"money.proto": texts["money.proto"]})
        files = {file.name: file for file in FileDescriptorSet.FromString(base64.b64decode(whole)).file}
        files["own"] = files.pop("schema.proto")
        files["money.proto"].name = "elsewhere/money.proto"
        registered = {name: base64.b64encode(files[name].SerializeToString()).decode() for name in texts}
        for schema_id, (own, money) in enumerate([(registered, registered), (texts, registered), (registered, texts)]):
            self.server.versions[("money", schema_id)] = {"schema": money["money.proto"], "schemaType": "PROTOBUF"}
            self.server.schemas[schema_id] = {
                "schema": own["own"],
                "schemaType": "PROTOBUF",
                "references": [{"name": "money.proto", "subject": "money", "version": schema_id}],
            }
            file = load_file(self.open().get(schema_id, "protobuf"))
            assert file.message_types_by_name["Order"].fields[0].message_type.full_name == "shop.Money"

    def test_json_references_become_one_document(self) -> None:
        self.server.versions[("name", 1)] = {"schema": '{"type": "string"}', "schemaType": "JSON"}
        self.server.schemas[8] = {
            "schema": '{"properties": {"name": {"$ref": "name.json"}}}',
            "schemaType": "JSON",
            "references": [{"name": "name.json", "subject": "name", "version": 1}],
        }
        bundled = json.loads(self.open().get(8, "json"))
        assert bundled["properties"]["name"] == {"$ref": "#/$defs/name.json"}
        assert bundled["$defs"]["name.json"] == {"type": "string"}

    def test_reference_that_is_missing_is_invalid_and_named(self) -> None:
        self.server.schemas[1] = {"schema": '"Gone"', "references": [{"name": "Gone", "subject": "gone", "version": 2}]}
        with pytest.raises(Invalid, match="schema 1's reference gone version 2"):
            self.open().get(1, "avro")

    def test_references_in_a_circle_end(self) -> None:
        circle = {"references": [{"name": "A", "subject": "a", "version": 1}]}
        self.server.versions[("a", 1)] = {"schema": '"int"', **circle}
        self.server.schemas[1] = {"schema": '"long"', **circle}
        assert json.loads(self.open().get(1, "avro")) == "long"

    def test_references_without_end_are_invalid(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.schemas.registry.MAX_REFERENCES", 3)
        for version in range(9):
            following = [{"name": f"A{version + 1}", "subject": "a", "version": version + 1}]
            self.server.versions[("a", version)] = {"schema": '"int"', "references": following}
        self.server.schemas[1] = {"schema": '"long"', "references": [{"name": "A0", "subject": "a", "version": 0}]}
        with pytest.raises(Invalid, match="more than 3"):
            self.open().get(1, "avro")

    @pytest.mark.parametrize("answer", [{}, {"schema": 7}, [], "x"])
    def test_answer_without_a_schema_is_unavailable_not_a_missing_schema(self, answer: Any) -> None:
        self.server.schemas[1] = answer
        with pytest.raises(Unavailable):
            self.open().get(1, "avro")

    def subjects_of(self, *, strategy: SubjectStrategy, names: tuple[str, ...] = ()) -> list[tuple[str, int | None]]:
        source = self.open(subjects=SubjectRule(strategy=strategy, names=names))
        return [(found.subject, found.version) for found in source.newest("orders", Role.VALUE, "avro")]

    def test_newest_schemas_are_found_by_each_strategy(self) -> None:
        for schema_id, subject in enumerate(
            ["orders-value", "orders-value", "orders-key", "orders-shop.Order", "orders-shop.Cancel", "shop.Order"]
        ):
            self.server.register(subject, schema_id, RECORD)
        for schema_id, subject in enumerate(["orders-eu-value", "orders-eu-shop.Order", "ordersX-shop.Order"], 20):
            self.server.register(subject, schema_id, RECORD)
        assert self.subjects_of(strategy=SubjectStrategy.TOPIC) == [("orders-value", 2)]
        by_record = [("orders-shop.Cancel", 1), ("orders-shop.Order", 1)]
        assert self.subjects_of(strategy=SubjectStrategy.TOPIC_RECORD) == by_record
        assert self.subjects_of(strategy=SubjectStrategy.RECORD) == []
        named = self.subjects_of(strategy=SubjectStrategy.RECORD, names=("shop.Order", "{topic}-value", "shop.None"))
        assert named == [("shop.Order", 1), ("orders-value", 2)]
        (key,) = self.open().newest("orders", Role.KEY, "avro")
        assert (key.subject, key.schema_id) == ("orders-key", 2)

    def test_newest_of_a_compatibility_group_is_the_newest_that_carries_its_property(self) -> None:
        for schema_id, major in enumerate(["1", "2", "1", None, "2"]):
            metadata = {} if major is None else {"metadata": {"properties": {"major": major, "owner": "us"}}}
            self.server.register("orders-value", schema_id, RECORD, **metadata)
        versions = {}
        for major in ("1", "2", "3"):
            found = self.open(subjects=SubjectRule(metadata={"major": major})).newest("orders", Role.VALUE, "avro")
            versions[major] = [schema.version for schema in found]
        assert versions == {"1": [3], "2": [5], "3": []}

    def test_subject_of_another_type_is_left_out_beside_others_and_told_alone(self) -> None:
        self.server.register("orders-shop.Order", 1, RECORD)
        self.server.register("orders-shop.Proto", 2, PROTO, schemaType="PROTOBUF")
        assert self.subjects_of(strategy=SubjectStrategy.TOPIC_RECORD) == [("orders-shop.Order", 1)]
        with pytest.raises(Invalid, match="type PROTOBUF"):
            self.subjects_of(strategy=SubjectStrategy.RECORD, names=("orders-shop.Proto",))

    def test_what_was_known_goes_on_after_a_restart_without_the_registry(self, tmp_path: Path) -> None:
        self.server.register("orders-value", 1, RECORD)
        self.server.register("proto", 2, PROTO, schemaType="PROTOBUF")
        cache = SchemaCache(tmp_path, "registry")
        first = self.open(cache=cache)
        first.newest("orders", Role.VALUE, "avro")
        protobuf = first.get(2, "protobuf")
        restarted = self.open("http://127.0.0.1:9", cache=SchemaCache(tmp_path, "registry"))
        assert restarted.get(1, "avro") == RECORD
        assert restarted.get(2, "protobuf") == protobuf
        with pytest.raises(Unavailable):
            restarted.get(3, "avro")
        with pytest.raises(Invalid, match="AVRO"):
            restarted.get(1, "protobuf")

    def test_schema_that_the_registry_gave_once_and_lost_goes_on(self, tmp_path: Path) -> None:
        self.server.register("orders-value", 1, RECORD)
        running = self.open(cache=SchemaCache(tmp_path, "registry"))
        assert running.get(1, "avro") == RECORD
        self.server.schemas.clear()
        restarted = self.open(cache=SchemaCache(tmp_path, "registry"))
        assert [source.get(1, "avro") for source in (running, restarted)] == [RECORD, RECORD]
        with pytest.raises(Invalid, match="not in the registry"):
            self.open().get(1, "avro")

    def test_registry_that_answers_is_believed_over_what_it_once_said(self, tmp_path: Path) -> None:
        cache = SchemaCache(tmp_path, "registry")
        self.server.register("orders-value", 1, RECORD)
        self.open(cache=cache).get(1, "avro")
        self.server.schemas[1] = {"schema": '"string"'}
        assert self.open(cache=cache).get(1, "avro") == '"string"'
        assert self.open("http://127.0.0.1:9", cache=cache).get(1, "avro") == '"string"'
