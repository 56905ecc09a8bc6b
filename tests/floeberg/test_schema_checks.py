"""What ``floeberg check`` finds out about schemas, folder and registry, before the daemon does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.schemas import http as schema_http
from floeberg.settings import BrokerSettings, Settings
from floeberg.settings.topic import TopicSettings
from floeberg.setup.check_result import CheckResult, Verdict
from floeberg.setup.checks import check_schemas
from tests.engine.schemas.patient_clock import PatientClock
from tests.engine.schemas.registry_server import RegistryServer, running_registry

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running_registry() as server:
        server.register("orders-value", 1, RECORD)
        yield server


def checked(**topic: Any) -> CheckResult:
    broker = BrokerSettings(bootstrap="b:1", log_dirs=(Path("/"),))
    settings = Settings(broker=broker, topics=(TopicSettings(**topic), TopicSettings(name="*")))
    (result,) = check_schemas(settings, PatientClock())
    return result


def test_registry_that_answers_is_good_with_its_credentials(server: RegistryServer) -> None:
    server.ask_for_basic("ana", "s3cret")
    result = checked(name="o*", value="avro", schemas={"url": server.url, "user": "ana", "password": "s3cret"})
    assert (result.verdict, result.message) == (Verdict.GOOD, f"1 subjects at {server.url}")
    refused = checked(name="o*", value="avro", schemas={"url": server.url, "user": "ana", "password": "wr0ng"})
    assert refused.verdict is Verdict.WRONG
    assert "refuses the credentials" in refused.message
    assert "wr0ng" not in f"{refused}"


def test_registry_that_does_not_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_http, "CONNECT_TIMEOUT_S", 0.1)
    result = checked(name="o*", value="avro", schemas="http://127.0.0.1:9")
    assert result.verdict is Verdict.WRONG
    assert "does not answer" in result.message
    assert "URL" in str(result.next_step)


def test_newest_schema_that_a_table_is_to_begin_with_is_tried(server: RegistryServer) -> None:
    latest = {"url": server.url, "use_latest": True}
    assert "newest for orders" in checked(name="orders", value="avro", schemas=latest).message
    absent = checked(name="payments", value="avro", schemas=latest)
    assert absent.verdict is Verdict.NOTE
    assert "payments-value" in str(absent.next_step)
    assert checked(name="orders", value="protobuf", schemas=latest).verdict is Verdict.WRONG
    by_record = checked(name="orders", value="avro", schemas={**latest, "subject_strategy": "topic_record"})
    assert "orders-<record>" in str(by_record.next_step)


def test_every_schema_of_a_folder_is_tried(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert checked(value="protobuf", schemas=folder).verdict is Verdict.NOTE
    (tmp_path / "1.proto").write_text('syntax = "proto3"; message A { int32 x = 1; }')
    (tmp_path / "shared.proto").write_text("this is none that a record names")
    assert checked(value="protobuf", schemas=folder).message == f"1 schemas in {folder} can be used"
    (tmp_path / "2.proto").write_text("message {")
    broken = checked(value="protobuf", schemas=folder)
    assert broken.verdict is Verdict.WRONG
    assert "2.proto" in broken.message
    absent = checked(value="avro", schemas=str(tmp_path / "absent"))
    assert (absent.verdict, "<id>.avsc" in str(absent.next_step)) == (Verdict.WRONG, True)


def test_schemas_file_is_tried(tmp_path: Path) -> None:
    file = tmp_path / "order.schema.json"
    file.write_text('{"properties": {"x": {"$ref": "x.json"}}}')
    (tmp_path / "x.json").write_text("{")
    assert checked(value="json", schemas=str(file)).verdict is Verdict.WRONG
    (tmp_path / "x.json").write_text('{"type": "string"}')
    assert checked(value="json", schemas=str(file)).verdict is Verdict.GOOD
