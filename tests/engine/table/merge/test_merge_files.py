"""Files become one: the same records, in the columns of now, with a footer that is true."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from engine.formats.codec import CodecSpec
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST
from engine.table.columns import TableLayout
from engine.table.data_file import FileFooter
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import records_of


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
WIDE_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "count", "type": "long"},
        {"name": "price", "type": ["null", "double"], "default": None},
    ],
}
SCHEMAS = {
    1: record({"name": "id", "type": "int"}, {"name": "lines", "type": {"type": "array", "items": LINE}}),
    2: record(
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": WIDE_LINE}},
        {"name": "tags", "type": {"type": "map", "values": "float"}, "default": {}},
    ),
    3: record(
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": WIDE_LINE}},
        {"name": "tags", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ),
}
TEXTS = {schema_id: json.dumps(schema) for schema_id, schema in SCHEMAS.items()}


def framed(schema_id: int, value: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(TEXTS[schema_id])), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def order(schema_id: int, number: int) -> bytes:
    line: dict[str, Any] = {"sku": f"s{number % 7}", "count": number}
    if schema_id > 1 and number % 2:
        line["price"] = number / 4
    value: dict[str, Any] = {"id": number, "lines": [line] * (number % 3), "tags": {"t": 0.5}, "note": f"n{number}"}
    names = [field["name"] for field in SCHEMAS[schema_id]["fields"]]
    return framed(schema_id, {name: value[name] for name in names})


@pytest.fixture
def orders(tmp_path: Path) -> MergeWorld:
    """Three generations of a schema, a file each, with tombstones, broken values, headers and keys that are no text."""
    world = MergeWorld(tmp_path, CodecSpec(name="avro"))
    for schema_id in SCHEMAS:
        world.know({schema_id: TEXTS[schema_id]})
        start = schema_id * 100
        values = [order(schema_id, start + number) for number in range(20)]
        world.append(
            records_of(
                [*values, None, b"broken", *values],
                start=start,
                step=2,
                keys=[b"\xff" if number % 5 == 0 else b"k%d" % number for number in range(42)],
                headers=[[(b"h", b"%d" % number)] * (number % 2) for number in range(42)],
            ),
            end=start + 100,
        )
    return world


def footer_of(path: str) -> FileFooter:
    return FileFooter.from_key_values(pq.read_metadata(path.removeprefix("file://")).metadata, file=path)


def test_generations_of_a_schema_become_one_file_in_the_newest(orders: MergeWorld) -> None:
    before, rows, digest = orders.table, orders.rows(), orders.digest()
    old = orders.files()
    merged = orders.merge()
    (new,) = orders.files()
    assert new.range == OffsetRange(start=old[0].range.start, end=old[-1].range.end)
    assert orders.rows().to_pylist() == rows.to_pylist()
    assert orders.digest() == digest == merged.digest
    assert orders.digest(before) == digest, "who holds the table as it was goes on"
    assert orders.table.ledger == before.ledger
    assert fsck_table(orders.table, log_dirs=[]).findings == ()
    written = pq.read_schema(new.path.removeprefix("file://"))
    assert written.names == [field.name for field in orders.table.facts.schema]
    assert (merged.gained, merged.lost) == (0, 0)
    assert sum(merged.reasons.values()) == 3


def test_footer_says_what_those_of_the_old_files_said_together(orders: MergeWorld) -> None:
    old = [footer_of(file.path) for file in orders.files()]
    orders.merge()
    new = footer_of(orders.files()[0].path)
    digest = EMPTY_DIGEST
    for footer in old:
        digest = digest.then(footer.digest)
    assert new.digest == digest
    assert new.record_count == sum(footer.record_count for footer in old)
    assert set(new.schema_ids) == set().union(*(footer.schema_ids for footer in old)) >= {1, 2, 3}
    assert new.codec_version == old[0].codec_version
    assert new.unresolved == {}


def test_rows_that_a_schema_known_since_helps_are_decoded_in_passing(tmp_path: Path) -> None:
    world = MergeWorld(tmp_path, CodecSpec(name="avro"))
    world.know({1: TEXTS[1]})
    world.append(records_of([order(1, number) for number in range(5)]))
    world.append(records_of([order(2, number) for number in range(5, 9)] + [b"broken"], start=5))
    world.append(records_of([order(1, number) for number in range(10, 15)], start=10))
    digest = world.digest()
    world.know({2: TEXTS[2]})
    merged = world.merge()
    assert (merged.gained, merged.lost) == (4, 0)
    assert sum(merged.reasons.values()) == 1
    assert world.digest() == digest
    rows = world.rows()
    assert rows["id"].to_pylist() == [*range(9), None, *range(10, 15)]
    assert footer_of(world.files()[0].path).unresolved == {}
    assert fsck_table(world.table, log_dirs=[]).findings == ()


def test_what_is_still_missing_is_said_of_the_new_file_too(tmp_path: Path) -> None:
    world = MergeWorld(tmp_path, CodecSpec(name="avro"))
    for start in (0, 5):
        world.append(records_of([order(2, start + number) for number in range(5)], start=start))
    merged = world.merge()
    assert merged.missing.unresolved == footer_of(world.files()[0].path).unresolved == {2: 10}
    assert (merged.gained, world.files()[0].reason_rows) == (0, 10)


def test_typed_keys_and_ranges_without_records_between_files(tmp_path: Path) -> None:
    key = CodecSpec(name="avro")
    world = MergeWorld(tmp_path, CodecSpec(name="string"), layout=TableLayout(key="avro"), key_codec=key)
    world.append(records_of([b"v0"], keys=[order(1, 0)]))
    for schema_id in (1, 2):
        world.know({schema_id: TEXTS[schema_id]}, of_keys=True)
        start = schema_id * 10
        keys = [order(schema_id, start), None, b"no key", order(1, start)]
        world.append(records_of([b"v"] * 4, start=start, keys=keys), end=start + 10)
    digest = world.digest()
    merged = world.merge()
    assert merged.gained == 1
    assert world.digest() == digest
    assert footer_of(world.files()[0].path).key_schema_ids == (1, 2)
    assert fsck_table(world.table, log_dirs=[]).findings == ()
