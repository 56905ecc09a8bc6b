"""Another program's changes of the columns beside those of new schemas: each goes on, and no byte is lost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.types import DecimalType, LongType, StringType

from tests.evolution.case import a, array, decimal, record
from tests.evolution.evolving_topic import EvolvingTopic, Warehouse, avro

ITEM = record(a("x", "int"), a("f", "float"), name="Item")
FIRST = record(a("a", "int"), a("d", decimal(5)), a("l", array(ITEM)))
WIDE_ITEM = record(a("x", "long"), a("f", "double"), a("g", "string"), name="Item")
SECOND = record(a("a", "string"), a("d", decimal(9)), a("l", array(WIDE_ITEM)), a("b", "long"))
NUMBERS = range(40)


def first(number: int) -> bytes:
    item = {"x": number, "f": number / 4}
    return avro(FIRST, 1, {"a": -number, "d": Decimal(number) / 100, "l": [item] * (number % 3)})


def second(number: int) -> bytes:
    item = {"x": number << 33, "f": number / 7, "g": f"g{number}"}
    value = {"a": f"text {number}", "d": Decimal(number * 100_000) / 100, "l": [item] * (number % 3), "b": number << 40}
    return avro(SECOND, 2, value)


pytestmark = pytest.mark.filterwarnings("ignore:Parquet writer option")


@pytest.fixture
def topic(tmp_path: Path) -> EvolvingTopic:
    topic = EvolvingTopic(Warehouse(tmp_path / "world"), "orders")
    topic.add(1, json.dumps(FIRST))
    topic.tier([first(number) for number in NUMBERS])
    return topic


def test_columns_that_others_renamed_and_widened_are_promoted_under_their_names(topic: EvolvingTopic) -> None:
    loaded = topic.warehouse.catalog.load_table(topic.table.identifier)
    with loaded.update_schema() as update:
        update.rename_column("l.element.x", "count")
        update.rename_column("d", "price")
        update.update_column("d", DecimalType(20, 2))
        update.update_column("a", LongType())
        update.add_column("theirs", StringType())
    topic.table = topic.reopened()
    topic.tier([first(number) for number in NUMBERS])
    topic.add(2, json.dumps(SECOND))
    topic.tier([part(number) for number in NUMBERS for part in (first, second)])
    names = {field.name: str(field.field_type) for field in loaded.refresh().schema().fields}
    assert (names["price"], names["a"], names["a__string"]) == ("decimal(20, 2)", "long", "string")
    (items,) = (field.field_type for field in loaded.schema().fields if field.name == "l")
    assert [(field.name, str(field.field_type)) for field in items.element_type.fields] == [
        ("count", "long"),
        ("f", "double"),
        ("g", "string"),
    ]
    own = {field.name: str(field.type) for field in topic.reopened().value_fields}
    assert own == {
        "a": "int32",
        "d": "decimal128(9, 2)",
        "l": "list<element: struct<x: int64, f: double, g: string>>",
        "a__string": "string",
        "b": "int64",
    }
    assert topic.read_back() == topic.values
    assert topic.findings() == []


def test_old_and_new_files_that_another_program_wrote_together_anew_are_adopted(topic: EvolvingTopic) -> None:
    topic.add(2, json.dumps(SECOND))
    topic.tier([second(number) for number in NUMBERS])
    loaded = topic.warehouse.catalog.load_table(topic.table.identifier)
    rows = loaded.scan().to_arrow()
    loaded.overwrite(rows.take(np.random.default_rng(3).permutation(rows.num_rows)))
    assert topic.reopened().adopted
    assert topic.read_back() == topic.values
    topic.table = topic.reopened()
    topic.tier([first(number) for number in NUMBERS])
    assert topic.read_back() == topic.values
    assert topic.findings() == []


def test_old_file_that_another_program_copied_as_it_is_is_adopted_before_and_after_a_promotion(
    topic: EvolvingTopic,
) -> None:
    loaded = topic.warehouse.catalog.load_table(topic.table.identifier)
    loaded.overwrite(loaded.scan().to_arrow())
    topic.table = topic.reopened()
    assert topic.table.adopted
    topic.add(2, json.dumps(SECOND))
    topic.tier([second(number) for number in NUMBERS])
    assert topic.read_back() == topic.values
    assert topic.findings() == []
