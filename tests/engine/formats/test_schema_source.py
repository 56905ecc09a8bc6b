"""Schema sources, folder and registry, held to one suite; and what only a registry has."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.errors import Invalid, Unavailable
from engine.formats.avro_mapping import arrow_type, map_schema
from engine.formats.avro_schema import parse_schema
from engine.formats.schema_folder import SchemaFolder
from engine.formats.schema_registry import ATTEMPTS, RegistryAccess, SchemaRegistry
from engine.formats.schema_source import SchemaSource
from tests.engine.formats.registry_server import RegistryServer, running_registry

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "größe", "type": "int"}]}, ensure_ascii=False)


class PatientClock(SystemClock):
    """Remembers the waits that were asked for, and does not wait."""

    def __init__(self) -> None:
        self.waits_ms: list[int] = []

    def sleep(self, duration_ms: int) -> None:
        self.waits_ms.append(duration_ms)


class SchemaSourceConformance(ABC):
    @abstractmethod
    def source_with(self, schemas: dict[int, str]) -> SchemaSource: ...

    @abstractmethod
    def unreachable_source(self) -> SchemaSource: ...

    def test_schema_comes_back_as_it_was_stored(self) -> None:
        source = self.source_with({1: RECORD, 2: '"string"', 2**31 - 1: RECORD})
        assert [source.get(schema_id) for schema_id in (1, 2, 2**31 - 1, 1)] == [RECORD, '"string"', RECORD, RECORD]
        source.close()

    def test_schema_that_is_not_there_is_invalid_and_named(self) -> None:
        source = self.source_with({1: RECORD})
        with pytest.raises(Invalid, match="schema 2"):
            source.get(2)
        source.close()

    def test_source_that_can_not_be_reached_is_unavailable_and_named(self) -> None:
        source = self.unreachable_source()
        with pytest.raises(Unavailable, match="absent"):
            source.get(1)
        source.close()


class TestSchemaFolder(SchemaSourceConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def source_with(self, schemas: dict[int, str]) -> SchemaFolder:
        for schema_id, text in schemas.items():
            (self.folder / f"{schema_id}.avsc").write_text(text, encoding="utf-8")
        return SchemaFolder(self.folder)

    def unreachable_source(self) -> SchemaFolder:
        return SchemaFolder(self.folder / "absent")

    def test_schema_added_later_is_found(self) -> None:
        source = self.source_with({})
        with pytest.raises(Invalid):
            source.get(5)
        self.source_with({5: RECORD})
        assert source.get(5) == RECORD

    def test_file_that_is_no_text_is_invalid(self) -> None:
        (self.folder / "1.avsc").write_bytes(b"\xff\xfe")
        with pytest.raises(Invalid, match="UTF-8"):
            SchemaFolder(self.folder).get(1)


class TestSchemaRegistry(SchemaSourceConformance):
    @pytest.fixture(autouse=True)
    def _registry(self) -> Iterator[None]:
        self.clock = PatientClock()
        with running_registry() as self.server:
            yield

    def open(self, server: RegistryServer, **access: str) -> SchemaRegistry:
        return SchemaRegistry(RegistryAccess(url=server.url, **access), self.clock)

    def source_with(self, schemas: dict[int, str]) -> SchemaRegistry:
        self.server.schemas = {schema_id: {"schema": text} for schema_id, text in schemas.items()}
        return self.open(self.server)

    def unreachable_source(self) -> SchemaRegistry:
        return SchemaRegistry(RegistryAccess(url="http://127.0.0.1:9/absent"), self.clock)

    def test_schema_is_asked_for_once(self) -> None:
        source = self.source_with({1: RECORD})
        assert source.get(1) == source.get(1)
        assert self.server.requests == ["/api/schemas/ids/1"]

    def test_trouble_that_passes_is_not_noticed(self) -> None:
        source = self.source_with({1: RECORD})
        self.server.faults = [(500, b"{}"), (503, b"busy"), (429, b"")]
        assert source.get(1) == RECORD
        assert len(self.clock.waits_ms) == 3
        assert self.clock.waits_ms == sorted(self.clock.waits_ms)

    def test_trouble_that_stays_is_unavailable_after_a_bounded_number_of_attempts(self) -> None:
        source = self.source_with({1: RECORD})
        self.server.faults = [(500, b"{}")] * 50
        with pytest.raises(Unavailable, match="status 500"):
            source.get(1)
        assert len(self.server.requests) == ATTEMPTS
        self.server.faults = []
        assert source.get(1) == RECORD

    @pytest.mark.parametrize(
        ("status", "body"),
        [(404, b"<html>no such page</html>"), (404, b'{"error_code": 500}'), (200, b"[]"), (200, b"{}"), (302, b"{}")],
    )
    def test_answer_that_no_registry_gives_is_unavailable_not_a_missing_schema(self, status: int, body: bytes) -> None:
        source = self.source_with({1: RECORD})
        self.server.faults = [(status, body)]
        with pytest.raises(Unavailable):
            source.get(1)

    def test_answer_larger_than_any_schema_is_unavailable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.formats.schema_registry.MAX_ANSWER_BYTES", 1000)
        with pytest.raises(Unavailable, match="larger"):
            self.source_with({1: json.dumps("x" * 2000)}).get(1)

    def test_basic_and_bearer_credentials_are_sent(self) -> None:
        self.source_with({1: RECORD})
        self.server.ask_for_basic("ana", "pass:word")
        assert self.open(self.server, user="ana", password="pass:word").get(1) == RECORD
        with pytest.raises(Unavailable, match="credentials"):
            self.open(self.server, user="ana", password="wrong").get(1)
        self.server.credentials = "Bearer t0ken"
        assert self.open(self.server, token="t0ken").get(1) == RECORD
        with pytest.raises(Unavailable, match="credentials"):
            self.open(self.server).get(1)

    def test_schema_of_another_format_is_invalid(self) -> None:
        self.server.schemas[1] = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
        with pytest.raises(Invalid, match="PROTOBUF"):
            self.open(self.server).get(1)

    def test_references_are_put_in_where_their_types_are_first_used(self) -> None:
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
        text = self.open(self.server).get(8)
        kind = arrow_type(map_schema(parse_schema(text)))
        home = "struct<kind: string>"
        assert str(kind) == f"struct<kind: string, buyer: struct<home: {home}>, to: list<element: {home}>>"
        assert self.server.requests.count("/api/subjects/shop%2Faddress/versions/3") == 1

    def test_reference_that_is_missing_is_invalid_and_named(self) -> None:
        self.server.schemas[1] = {"schema": '"Gone"', "references": [{"name": "Gone", "subject": "gone", "version": 2}]}
        with pytest.raises(Invalid, match="schema 1's reference gone version 2"):
            self.open(self.server).get(1)

    def test_references_in_a_circle_end(self) -> None:
        circle = {"references": [{"name": "A", "subject": "a", "version": 1}]}
        self.server.versions[("a", 1)] = {"schema": '"int"', **circle}
        self.server.schemas[1] = {"schema": '"long"', **circle}
        assert json.loads(self.open(self.server).get(1)) == "long"

    def test_references_without_end_are_invalid(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.formats.schema_registry.MAX_REFERENCES", 3)
        for version in range(9):
            following = [{"name": "A", "subject": "a", "version": version + 1}]
            self.server.versions[("a", version)] = {"schema": '"int"', "references": following}
        self.server.schemas[1] = {"schema": '"long"', "references": [{"name": "A", "subject": "a", "version": 0}]}
        with pytest.raises(Invalid, match="more than 3"):
            self.open(self.server).get(1)
