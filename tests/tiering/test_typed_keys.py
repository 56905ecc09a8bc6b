"""Keys that a codec reads: a struct in the table, the same bytes for consumers, whatever the keys are."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest
from typer.testing import CliRunner

from engine.errors import Invalid
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.schemas.folder import SchemaFolder
from engine.table.columns import TableLayout
from engine.topic_partition import TopicIdPartition
from floeberg.cli import app
from floeberg.sql.duckdb_session import extension_file
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

Keys = Sequence[bytes | None]

FIRST = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"], "default": None}],
}
OPTIONAL = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": ["null", "long"]}]}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]}
SCHEMAS = {1: FIRST, 2: SECOND, 3: ORDER, 4: "string", 5: OPTIONAL, 6: "null"}
AVRO_KEYS = TableLayout(key="avro")


def avro(schema_id: int, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMAS[schema_id]), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


@pytest.fixture
def schemas(tmp_path: Path) -> SchemaFolder:
    folder = tmp_path / "schemas"
    folder.mkdir()
    for schema_id, schema in SCHEMAS.items():
        (folder / f"{schema_id}.avsc").write_text(json.dumps(schema))
    return SchemaFolder(folder)


def rules(source: SchemaFolder, *, value: str = "string") -> tuple[TopicRule, ...]:
    return (TopicRule(pattern="*", value_format=value, layout=AVRO_KEYS, schema_source=source),)


def tier(world: TieringWorld, topic_rules: tuple[TopicRule, ...], *segments: tuple[list[bytes | None], Keys]) -> Any:
    """A topic's segments, each as (values, keys), tiered one a cycle: (partition, the last report)."""
    (partition,) = world.broker.create_topic("orders")
    loop = world.loop(rules=topic_rules)
    report = None
    for values, keys in segments:
        world.broker.append_segment(partition, values, keys=keys)
        report = loop.cycle()
    return partition, report


def columns(world: TieringWorld) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = (
        world.catalog.load_table(("kafka", "orders")).scan().to_arrow().sort_by("kafka_offset").to_pydict()
    )
    return found


def records(world: TieringWorld, partition: TopicIdPartition) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of all records as a consumer gets them; the check of the whole table finds nothing."""
    table = world.table(partition)
    assert fsck_table(table, log_dirs=[world.broker.log_dir]).findings == ()
    reader = LogReader(file_index=FileIndex())
    try:
        end = table.ledger[partition.partition].end
        blocks = list(reader.records(table, partition.partition, OffsetRange(start=0, end=end)))
    finally:
        reader.close()
    return [(block.key[row], block.value[row]) for block in blocks for row in range(len(block))]


def test_keys_of_two_schemas_are_columns_and_the_same_bytes(world: TieringWorld, schemas: SchemaFolder) -> None:
    first: Keys = [avro(1, {"id": 7}), None, avro(1, {"id": -1})]
    second: Keys = [avro(2, {"id": 2**40, "region": "eu"}), avro(1, {"id": 8}), avro(2, {"id": 9, "region": None})]
    partition, report = tier(world, rules(schemas), ([b"a", b"b", None], first), ([b"c", b"d", b"e"], second))
    assert ranges_of(report, partition) == [(3, 6)]
    found = columns(world)
    assert found["kafka_key"] == [
        {"id": 7, "region": None},
        None,
        {"id": -1, "region": None},
        {"id": 2**40, "region": "eu"},
        {"id": 8, "region": None},
        {"id": 9, "region": None},
    ]
    assert found["kafka_key_schema_id"] == [1, None, 1, 2, 1, 2]
    assert found["kafka_is_null"] == [False, False, True, False, False, False]
    assert found["kafka_key_raw"] == found["kafka_error"] == [None] * 6
    assert records(world, partition) == list(zip([*first, *second], [b"a", b"b", None, b"c", b"d", b"e"], strict=True))


def test_key_stands_at_its_place_among_kafkas_columns(world: TieringWorld, schemas: SchemaFolder) -> None:
    values: list[bytes | None] = [avro(3, {"note": "x"})]
    partition, _ = tier(world, rules(schemas, value="avro"), (values, [avro(1, {"id": 7})]))
    loaded = world.catalog.load_table(("kafka", "orders"))
    names = [field.name for field in loaded.schema().fields]
    assert names[4:8] == ["kafka_leader_epoch", "kafka_key", "kafka_key_raw", "kafka_key_schema_id"]
    assert "floeberg.columns" not in loaded.metadata.properties
    table = world.table(partition)
    assert set(table.codec.schemas) == {3}
    assert table.key_codec is not None
    assert set(table.key_codec.schemas) == {1}
    assert records(world, partition) == [(avro(1, {"id": 7}), values[0])]


def test_loop_that_starts_again_knows_the_schemas_of_keys(world: TieringWorld, schemas: SchemaFolder) -> None:
    partition, _ = tier(world, rules(schemas), ([b"a"], [avro(1, {"id": 7})]))
    world.broker.append_segment(partition, [b"b"], keys=[avro(1, {"id": 8})])
    nothing = SchemaFolder(world.root / "no such folder")
    assert ranges_of(world.loop(rules=rules(nothing)).cycle(), partition) == [(1, 2)]
    assert columns(world)["kafka_key"] == [{"id": 7}, {"id": 8}]


def test_key_whose_schema_nobody_has_keeps_its_bytes_and_says_why(world: TieringWorld, schemas: SchemaFolder) -> None:
    unknown = b"\x00\x00\x00\x00\x63key"
    keys: Keys = [unknown, avro(1, {"id": 7}), b"", avro(1, {"id": 7}) + b"left over", None]
    values: list[bytes | None] = [b"a", b"b", b"\xff", b"d", b"\xff"]
    partition, report = tier(world, rules(schemas), (values, keys))
    found = columns(world)
    assert found["kafka_key"] == [None, {"id": 7}, None, {"id": 7}, None]
    assert found["kafka_key_raw"] == [unknown, None, b"", keys[3], None]
    assert found["value"] == ["a", "b", None, "d", None]
    reasons = found["kafka_error"]
    assert str(reasons[0]).startswith("key: schema 99 is unavailable: ")
    assert reasons[1] is None
    assert str(reasons[2]).startswith("not UTF-8; key: ")
    assert str(reasons[3]).startswith("key: schema 1: ")
    assert reasons[4] == "not UTF-8"
    row = report_of(report, partition)
    assert (row.status.raw_rows, row.status.undecodable_rows) == (1, 3)
    assert records(world, partition) == list(zip(keys, values, strict=True))


def test_key_schema_that_comes_later_is_asked_for_again(world: TieringWorld, schemas: SchemaFolder) -> None:
    late = avro(2, {"id": 1, "region": "eu"})
    missing = world.root / "schemas" / "2.avsc"
    text = missing.read_text()
    missing.unlink()
    (partition,) = world.broker.create_topic("orders")
    loop = world.loop(rules=rules(schemas))
    world.broker.append_segment(partition, [b"a"], keys=[late])
    loop.cycle()
    missing.write_text(text)
    world.clock.ahead_ms += TieringLimits().schema_retry_ms
    world.broker.append_segment(partition, [b"b"], keys=[late])
    loop.cycle()
    found = columns(world)
    assert found["kafka_key"] == [None, {"id": 1, "region": "eu"}]
    assert found["kafka_key_raw"] == [late, None]
    assert records(world, partition) == [(late, b"a"), (late, b"b")]


def test_key_of_nulls_is_none_of_no_key(world: TieringWorld, schemas: SchemaFolder) -> None:
    keys: Keys = [avro(5, {"id": None}), None, avro(5, {"id": None})]
    partition, _ = tier(world, rules(schemas), ([b"a", b"b", b"c"], keys))
    assert columns(world)["kafka_key"] == [{"id": None}, None, {"id": None}]
    assert records(world, partition) == list(zip(keys, [b"a", b"b", b"c"], strict=True))


def test_key_without_fields_has_no_column_and_keeps_its_bytes(world: TieringWorld, schemas: SchemaFolder) -> None:
    keys: Keys = [avro(6, None), None]
    partition, _ = tier(world, rules(schemas), ([b"a", b"b"], keys))
    found = columns(world)
    assert "kafka_key" not in found
    assert found["kafka_key_raw"] == keys
    assert records(world, partition) == list(zip(keys, [b"a", b"b"], strict=True))


def test_key_that_is_no_record_stands_in_the_field_value(world: TieringWorld, schemas: SchemaFolder) -> None:
    keys: Keys = [avro(4, "k1"), avro(1, {"id": 5})]
    partition, _ = tier(world, rules(schemas), ([b"a", b"b"], keys))
    assert columns(world)["kafka_key"] == [{"value": "k1", "id": None}, {"value": None, "id": 5}]
    assert records(world, partition) == list(zip(keys, [b"a", b"b"], strict=True))


def test_csv_keys_are_columns_from_the_first_record_on(world: TieringWorld) -> None:
    rule = TopicRule(
        pattern="*",
        value_format="raw",
        layout=TableLayout(key="csv"),
        key_options={"columns": '["id:long", "region:string"]', "delimiter": "|"},
    )
    keys: Keys = [b"1|eu", b"", b"|", None, b"2|us|east", b"007|eu"]
    values: list[bytes | None] = [b"a", b"b", b"c", b"d", b"e", b"f"]
    partition, _ = tier(world, (rule,), (values, keys))
    found = columns(world)
    nothing = {"id": None, "region": None}
    shown = [{"id": 1, "region": "eu"}, nothing, nothing, None, {"id": 2, "region": "us"}, {"id": 7, "region": "eu"}]
    assert found["kafka_key"] == shown
    assert found["kafka_key_raw"] == [None, b"", None, None, b"2|us|east", b"007|eu"]
    assert "kafka_key_schema_id" not in found
    assert records(world, partition) == list(zip(keys, values, strict=True))


def test_key_columns_that_were_declared_otherwise_are_refused(world: TieringWorld) -> None:
    def rule(declared: str) -> TopicRule:
        layout = TableLayout(key="csv")
        return TopicRule(pattern="*", value_format="raw", layout=layout, key_options={"columns": declared})

    partition, _ = tier(world, (rule('["id:long"]'),), ([b"a"], [b"1"]))
    world.broker.append_segment(partition, [b"b"], keys=[b"2|x"])
    table, writer = world.table(partition), world.writer()
    codec = rule('["id:long", "region:string"]')
    assert table.key_codec is not None
    with pytest.raises(Invalid, match=r"was made for key_csv.columns = ..id:long.. "):
        writer.ensure(
            topic=table.topic,
            topic_id=table.topic_id,
            cluster_id=table.cluster_id,
            layout=table.layout,
            codec=table.codec,
            value_fields=table.value_fields,
            key_codec=type(table.key_codec)(name="csv", options=codec.key_options),
        )


def test_duckdb_reads_the_keys_fields_and_their_bounds(world: TieringWorld, schemas: SchemaFolder) -> None:
    keys: Keys = [avro(1, {"id": number}) for number in range(10)]
    tier(world, rules(schemas), ([b"v"] * 10, keys))
    loaded = world.catalog.load_table(("kafka", "orders"))
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for extension in ("avro", "iceberg"):
            connection.execute(f"LOAD '{extension_file(extension)}'")
        metadata = loaded.metadata_location.removeprefix("file://")
        query = f"SELECT kafka_offset, kafka_key.id FROM iceberg_scan('{metadata}') WHERE kafka_key.id >= 8 ORDER BY 1"
        assert connection.execute(query).fetchall() == [(8, 8), (9, 9)]
    (file,) = loaded.inspect.files().to_pylist()
    field_id = loaded.schema().find_field("kafka_key.id").field_id
    bounds = [dict(file[name])[field_id] for name in ("lower_bounds", "upper_bounds")]
    assert [int.from_bytes(bound, "little") for bound in bounds] == [0, 9]


def test_existing_columns_stay_when_a_second_process_opens_the_table(
    world: TieringWorld, schemas: SchemaFolder
) -> None:
    values: list[bytes | None] = [avro(3, {"note": "x"})]
    partition, _ = tier(world, rules(schemas, value="avro"), (values, [avro(1, {"id": 7})]))
    table = world.table(partition)
    again = world.writer().ensure(
        topic=table.topic,
        topic_id=table.topic_id,
        cluster_id=table.cluster_id,
        layout=table.layout,
        codec=table.codec,
        value_fields=(),
        key_codec=table.key_codec,
    )
    assert (again.value_fields, again.key_fields) == (table.value_fields, table.key_fields)
    assert again.iceberg_schema == table.iceberg_schema


def test_json_keys_without_a_schema_have_inferred_columns(world: TieringWorld) -> None:
    rule = TopicRule(pattern="*", value_format="json", layout=TableLayout(key="json"))
    keys: Keys = [b'{"id":1}', b'{"id": 2}', b"{}", None, b'{"id":3,"region":"eu"}', b"no json", b"7"]
    values: list[bytes | None] = [b'{"note":"a"}', None, b"{}", b"{}", b"[]", b'{"note":"f"}', b'{"note":"g"}']
    partition, _ = tier(world, (rule,), (values, keys), (values, keys))
    found = columns(world)
    ids = [None if key is None else key["id"] for key in found["kafka_key"]]
    assert ids[:5] == [1, 2, None, None, 3]
    assert found["kafka_key"][3] is None
    table = world.table(partition)
    assert table.key_codec is not None
    assert min(table.key_codec.schemas) < 0
    assert records(world, partition) == list(zip(keys, values, strict=True)) * 2


def test_protobuf_keys_are_columns(world: TieringWorld, tmp_path: Path) -> None:
    folder = tmp_path / "protos"
    folder.mkdir()
    (folder / "7.proto").write_text('syntax = "proto3"; message Key { int64 id = 1; string region = 2; }')
    rule = TopicRule(
        pattern="*", value_format="raw", layout=TableLayout(key="protobuf"), schema_source=SchemaFolder(folder)
    )
    header = b"\x00\x00\x00\x00\x07\x00"
    keys: Keys = [header + b"\x08\x05\x12\x02eu", header, None, header + b"\x12\x02eu\x08\x05"]
    values: list[bytes | None] = [b"a", b"b", b"c", b"d"]
    partition, _ = tier(world, (rule,), (values, keys))
    found = columns(world)
    assert (found["kafka_key"][0]["id"], found["kafka_key"][0]["region"]) == (5, "eu")
    assert found["kafka_key"][2] is None
    assert found["kafka_key_raw"] == [None, None, None, keys[3]]
    assert records(world, partition) == list(zip(keys, values, strict=True))


def test_cat_shows_the_keys_fields(world: TieringWorld, schemas: SchemaFolder) -> None:
    keys: Keys = [avro(1, {"id": 7}), None, b"no avro"]
    tier(world, rules(schemas), ([b"a", b"b", b"c"], keys))
    settings = world.root / "floeberg.toml"
    settings.write_text('data_dir = "data"\n[broker]\nbootstrap = "localhost:1"\nlog_dirs = ["kafka-logs"]\n')
    done = CliRunner().invoke(app, ["--config", str(settings), "cat", "orders", "--json"])
    assert done.exit_code == 0, done.output
    shown = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(record["key"], record["key_schema_id"], record["value"]) for record in shown] == [
        ({"id": 7}, 1, "a"),
        (None, None, "b"),
        ("no avro", None, "c"),
    ]
    assert shown[2]["error"].startswith("key: ")


def test_table_that_another_program_rewrote_gives_the_same_keys(world: TieringWorld, schemas: SchemaFolder) -> None:
    first: Keys = [avro(1, {"id": 7}), None, b"no avro", avro(5, {"id": None})]
    second: Keys = [avro(2, {"id": 2**40, "region": "eu"}), avro(4, "k")]
    values: list[bytes | None] = [b"a", b"b", None, b"d"]
    partition, _ = tier(world, rules(schemas), (values, first), ([b"e", b"f"], second))
    table = world.catalog.load_table(("kafka", "orders"))
    table.overwrite(table.scan().to_arrow())
    limits = TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0, reload_interval_ms=0)
    world.broker.append_segment(partition, [b"g"], keys=[avro(1, {"id": 9})])
    report = world.loop(rules=rules(schemas), limits=limits).cycle()
    assert ranges_of(report, partition) == [(6, 7)]
    assert world.table(partition).adopted
    expected = [*zip(first, values, strict=True), *zip(second, [b"e", b"f"], strict=True), (avro(1, {"id": 9}), b"g")]
    assert records(world, partition) == expected


def test_key_field_that_another_program_renamed_stops_nothing(world: TieringWorld, schemas: SchemaFolder) -> None:
    partition, _ = tier(world, rules(schemas), ([b"a"], [avro(1, {"id": 7})]))
    with world.catalog.load_table(("kafka", "orders")).update_schema() as update:
        update.rename_column("kafka_key.id", "number")
    world.broker.append_segment(partition, [b"b"], keys=[avro(2, {"id": 8, "region": "eu"})])
    report = world.loop(rules=rules(schemas)).cycle()
    assert (report.commits, report_of(report, partition).problem) == (1, None)
    assert columns(world)["kafka_key"] == [{"number": 7, "region": None}, {"number": 8, "region": "eu"}]
    assert records(world, partition) == [(avro(1, {"id": 7}), b"a"), (avro(2, {"id": 8, "region": "eu"}), b"b")]


@pytest.mark.parametrize("then", [TableLayout(key="raw"), TableLayout(prefix="k_", key="avro")])
def test_settings_that_the_table_was_not_made_for_stop_the_topic_until_they_are_back(
    world: TieringWorld, schemas: SchemaFolder, then: TableLayout
) -> None:
    partition, _ = tier(world, rules(schemas), ([b"a"], [avro(1, {"id": 7})]))
    world.broker.append_segment(partition, [b"b"], keys=[avro(1, {"id": 8})])
    changed = (TopicRule(pattern="*", value_format="string", layout=then, schema_source=schemas),)
    problem = report_of(world.loop(rules=changed).cycle(), partition).problem
    assert isinstance(problem, Invalid)
    assert "was made for " in problem.problem
    assert "TableLayout" not in problem.problem
    assert world.tiered_end(partition) == 1
    assert ranges_of(world.loop(rules=rules(schemas)).cycle(), partition) == [(1, 2)]
