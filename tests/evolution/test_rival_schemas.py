"""Schemas added by two daemons at once, or by one that dies on the way: decided on what is stored, stored whole."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Invalid, Unavailable
from engine.table.catalog import access as catalogs
from engine.table.commit.transaction import TableTransaction
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from tests.evolution.case import a, array, optional, record
from tests.evolution.evolving_topic import EvolvingTopic, Warehouse, avro, value_of

FIRST = record(a("a", "int"), a("l", array(record(a("x", "int"), name="Item"))))


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvolvingTopic:
    """A topic whose writers take no turns, as on several machines: whoever comes second meets a conflict."""
    monkeypatch.setattr(catalogs, "lock_file_of", lambda _catalog, _topic_id: None)
    topic = EvolvingTopic(Warehouse(tmp_path / "world"), "orders")
    topic.add(1, json.dumps(FIRST))
    return topic


def opened(topic: EvolvingTopic) -> tuple[TableWriter, TopicTable]:
    """Another daemon's writer, that has loaded the table."""
    writer = topic.warehouse.writer()
    table = writer.open(topic.partition.topic, topic.partition.topic_id)
    assert table is not None
    return writer, table


def columns(table: TopicTable) -> dict[str, str]:
    return {field.name: str(field.type) for field in table.value_fields}


def test_second_of_two_writers_decides_again_on_what_the_first_one_stored(topic: EvolvingTopic) -> None:
    (mine, my_table), (theirs, their_table) = opened(topic), opened(topic)
    mine.add_schemas(my_table, {2: json.dumps(record(a("a", "string"), a("b", "long")))})
    after = theirs.add_schemas(their_table, {3: json.dumps(record(a("a", optional("string")), a("B", "int")))})
    assert columns(after) == {
        "a": "int32",
        "l": "list<element: struct<x: int32>>",
        "a__string": "string",
        "b": "int64",
        "B__2": "int32",
    }
    assert after.codec.placements == {2: {"a": "a__string"}, 3: {"a": "a__string", "B": "B__2"}}
    assert list(after.codec.schemas) == [1, 2, 3]
    assert topic.reopened().codec == after.codec


def test_schema_that_both_writers_bring_is_stored_once(topic: EvolvingTopic) -> None:
    (mine, my_table), (theirs, their_table) = opened(topic), opened(topic)
    text = json.dumps(record(a("a", "string")))
    first = mine.add_schemas(my_table, {2: text})
    second = theirs.add_schemas(their_table, {2: text})
    assert second.metadata_location == first.metadata_location
    with pytest.raises(Invalid, match="another text"):
        theirs.add_schemas(their_table, {2: json.dumps(record(a("a", "bytes")))})


def test_many_schemas_from_two_threads_each_land_whole(topic: EvolvingTopic) -> None:
    kinds: list[Any] = ["string", "long", "double", "bytes", "boolean", array("int")]
    schemas = {
        10 + at: record(a("a", kind), a("l", array(record(a("x", kind), name="Item")))) for at, kind in enumerate(kinds)
    }
    failures: list[BaseException] = []

    def add(ids: list[int]) -> None:
        writer, table = opened(topic)
        try:
            for schema_id in ids:
                table = writer.add_schemas(table, {schema_id: json.dumps(schemas[schema_id])})
        except BaseException as error:
            failures.append(error)
            raise

    ids = list(schemas)
    threads = [threading.Thread(target=add, args=(part,)) for part in (ids[::2], ids[::-2])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert failures == []
    topic.table = topic.reopened()
    assert sorted(topic.table.codec.schemas) == [1, *ids]
    written = dict(zip(ids, ["x", 2**40, 0.1, b"\x01", True, [7]], strict=True))
    values = [avro(schemas[one], one, {"a": value, "l": [{"x": value}]}) for one, value in written.items()]
    topic.tier(values)
    assert topic.read_back() == values
    assert topic.findings() == []
    assert all("kafka_value_raw" not in row for row in topic.rows())


def test_ids_go_in_any_order_and_the_order_they_came_in_decides(topic: EvolvingTopic) -> None:
    topic.add(9, json.dumps(record(a("b", "int", aliases=["a"]))))
    topic.add(4, json.dumps(record(a("c", "int", aliases=["b"]))))
    topic.add(2, json.dumps(record(a("a", "int"), a("c", "int"))))
    seen = topic.reopened()
    assert list(seen.codec.schemas) == [1, 9, 4, 2]
    assert seen.codec.placements[9] == {"b": "a"}
    assert seen.codec.placements[4] == {"c": "a"}
    assert seen.codec.placements[2] == {"a": "a__2", "c": "a"}


def test_commit_that_never_lands_leaves_neither_schema_nor_column_nor_placement(
    topic: EvolvingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = topic.reopened()
    text = json.dumps(record(a("a", "string", doc="x" * (70 << 10)), a("b", "long")))
    with monkeypatch.context() as patch:
        patch.setattr(TableTransaction, "commit_once", _away)
        with pytest.raises(Unavailable):
            topic.add(2, text)
    after = topic.reopened()
    assert (after.metadata_location, after.codec) == (before.metadata_location, before.codec)
    topic.table = after
    topic.add(2, text)
    topic.tier([avro(json.loads(text), 2, {"a": "x", "b": 1}), avro(FIRST, 1, {"a": 7, "l": []})])
    rows = [value_of(row) for row in topic.rows()]
    assert [(row.get("a"), row.get("a__string"), row.get("b")) for row in rows] == [(None, "x", 1), (7, None, None)]
    assert topic.read_back() == topic.values


def _away(*_: object) -> None:
    raise Unavailable("the catalog does not answer")


def test_schemas_of_a_table_that_never_kept_their_order_come_in_that_of_their_ids(topic: EvolvingTopic) -> None:
    topic.add(5, json.dumps(record(a("b", "int", aliases=["a"]))))
    loaded = topic.warehouse.catalog.load_table(topic.table.identifier)
    with loaded.transaction() as transaction:
        transaction.remove_properties("floeberg.schema_order", "floeberg.guard.floeberg.schema_order")
    seen = topic.reopened()
    assert list(seen.codec.schemas) == [1, 5]
    topic.table = seen
    topic.add(3, json.dumps(record(a("c", "int", aliases=["b"]))))
    assert list(topic.reopened().codec.schemas) == [1, 5, 3]
    assert topic.reopened().codec.placements[3] == {"c": "a"}
