"""``floeberg schema check``: the verdict on a schema before any record names it, with no broker and no registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from floeberg.cli import app
from tests.evolution.case import a, array, decimal, record
from tests.evolution.evolving_topic import EvolvingTopic, Warehouse
from tests.evolution.protobuf_values import descriptor_text

ITEM = record(a("sku", "string"), a("count", "int"), name="Item")
ORDER = record(a("id", "int"), a("total", decimal(10)), a("items", array(ITEM)), name="Order")
TAKEN = "it would be taken for one of Kafka's columns"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of orders, whose broker and registry nobody can reach, and of notes that have no schema."""
    made = tmp_path_factory.mktemp("check")
    warehouse = Warehouse(made / "world")
    EvolvingTopic(warehouse, "orders").add(1, json.dumps(ORDER))
    EvolvingTopic(warehouse, "notes", codec="raw")
    EvolvingTopic(warehouse, "payments", codec="protobuf").add(1, descriptor_text("int32 id = 1; string note = 2;"))
    EvolvingTopic(warehouse, "keyed", codec="raw", key_codec="avro").add_key(1, json.dumps(record(a("id", "int"))))
    (made / "floeberg.toml").write_text(
        f'data_dir = "{made}/world/data"\n[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{made}"]\n'
        '[[topics]]\nname = "orders"\nvalue = "avro"\nschemas = "http://127.0.0.1:1"\n'
    )
    return made


def check(folder: Path, schema: Any, *options: str, topic: str = "orders", name: str = "new.avsc") -> Result:
    (folder / name).write_text(schema if isinstance(schema, str) else json.dumps(schema))
    arguments = ["--config", str(folder / "floeberg.toml"), "schema", "check", topic, str(folder / name), *options]
    return CliRunner().invoke(app, arguments)


def test_schema_that_the_table_takes_as_it_is_is_good(folder: Path) -> None:
    done = check(folder, ORDER)
    assert done.exit_code == 0
    assert "ok  " in done.stdout
    assert "the table has all of its columns" in done.stdout


def test_what_is_added_promoted_renamed_and_without_column_is_told(folder: Path) -> None:
    item = record(a("article", "string", aliases=["sku"]), a("count", "long"), a("note", "string"), name="Item")
    new = record(
        a("id", "long"), a("total", decimal(12)), a("items", array(item)), a("any", ["int", "string"]), name="Order"
    )
    done = check(folder, new, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "topic": "orders",
        "file": str(folder / "new.avsc"),
        "in_conflict": False,
        "columns_added": [{"column": "items[].note", "type": "string"}],
        "columns_promoted": [
            {"column": "id", "from": "int", "to": "long"},
            {"column": "total", "from": "decimal(10, 2)", "to": "decimal(12, 2)"},
            {"column": "items[].count", "from": "int", "to": "long"},
        ],
        "fields_elsewhere": [{"field": "items[].article", "column": "sku"}],
        "conflicts": [],
        "fields_without_column": ["any: a union of several types"],
    }


def test_what_is_in_conflict_is_told_and_is_the_exit_code(folder: Path) -> None:
    new = record(a("id", "string"), a("Total", "int"), a("kafka_offset", "int"), name="Order")
    done = check(folder, new)
    assert done.exit_code == 1
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines == [
        f"3 in conflict  {folder}/new.avsc for the table of orders",
        "add       id__string  string",
        "add       Total__2  int",
        "lands in  id: the column id__string",
        "lands in  Total: the column Total__2",
        "conflict  field id: the schema has string, the table has int; it gets the column id__string",
        "conflict  field Total: its name differs from total in case alone; it gets the column Total__2",
        f"conflict  field kafka_offset: {TAKEN}; records that have it keep their bytes",
    ]


def test_setting_of_the_day_decides_what_a_conflict_comes_to(folder: Path) -> None:
    settings = folder / "floeberg.toml"
    before = settings.read_text()
    settings.write_text(before + 'on_conflict = "raw"\n')
    try:
        done = check(folder, record(a("id", "string"), name="Order"))
    finally:
        settings.write_text(before)
    assert done.exit_code == 1
    assert "records that have it keep their bytes" in done.stdout
    assert "id__string" not in done.stdout


def test_checking_changes_nothing(folder: Path) -> None:
    again = check(folder, record(a("id", "string"), name="Order"), "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["columns_added"] == [{"column": "id__string", "type": "string"}]


def test_protobuf_is_told_by_its_numbers_and_finds_its_imports_beside_it(folder: Path) -> None:
    (folder / "money.proto").write_text('syntax = "proto3"; message Money { int64 units = 1; }')
    new = 'import "money.proto"; message Row { int64 number = 1; string note = 2; Money paid = 3; }'
    done = check(folder, f'syntax = "proto3"; {new}', "--json", topic="payments", name="new.proto")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["columns_promoted"] == [{"column": "id", "from": "int", "to": "long"}]
    assert told["fields_elsewhere"] == [{"field": "number", "column": "id"}]
    assert told["columns_added"] == [{"column": "paid", "type": "struct<units: long>"}]


def test_schema_of_keys_is_told_apart_from_that_of_values(folder: Path) -> None:
    done = check(folder, record(a("id", "string"), a("kafka_offset", "int")), "--key", "--json", topic="keyed")
    assert done.exit_code == 1
    assert [one["column"] for one in json.loads(done.stdout)["columns_added"]] == ["id__string", "kafka_offset"]


@pytest.mark.parametrize(
    ("schema", "topic", "name", "problem"),
    [
        ("{", "orders", "new.avsc", "not JSON"),
        (ORDER, "orders", "new.proto", "ends otherwise"),
        (ORDER, "notes", "new.avsc", "has no schemas"),
        ("message Row {", "payments", "new.proto", "new.proto"),
        (ORDER, "nothing", "new.avsc", "There is no table"),
    ],
)
def test_wrong_usage_says_what_would_be_right(folder: Path, schema: Any, topic: str, name: str, problem: str) -> None:
    done = check(folder, schema, topic=topic, name=name)
    assert problem in str(done.exception)


def test_file_that_is_not_there_is_wrong_usage(folder: Path) -> None:
    arguments = ["--config", str(folder / "floeberg.toml"), "schema", "check", "orders", str(folder / "none.avsc")]
    assert "not there" in str(CliRunner().invoke(app, arguments).exception)
