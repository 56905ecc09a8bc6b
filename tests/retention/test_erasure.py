"""Records of a key, of many, or of a condition leave a table: what goes, what stays, who comes in between."""

from __future__ import annotations

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.formats.codec import CodecSpec
from engine.table.columns import TableLayout
from engine.table.windows import Clustering
from floeberg.sql.duckdb_condition import DuckdbCondition
from retention.erasure_finding import Finder
from tests.compaction.damaged_file import damage
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import TEXT, records_of
from tests.retention.erasure_world import ErasureWorld, text_world
from tests.support.fault_hooks import once

REGION = {"name": "region", "type": ["null", "string"], "default": None}
KEY_SCHEMAS = {
    1: {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]},
    2: {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}, REGION]},
}


def avro(schema_id: int, value: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(KEY_SCHEMAS[schema_id]), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


@pytest.fixture
def world(tmp_path: Path) -> ErasureWorld:
    return text_world(tmp_path)


def test_every_record_of_a_key_goes_and_no_other(world: ErasureWorld) -> None:
    before = world.consumed()
    report = world.erase("alice", "nobody")
    left = {at: record for at, record in before.items() if record[0] != b"alice"}
    assert len(left) == 15
    assert world.consumed() == left
    assert [row["kafka_offset"] for row in world.rows()] == sorted(left)
    (partition,) = report.partitions.values()
    assert (report.record_count, partition.up_to, len(partition.files)) == (3, 18, 3)
    assert str(partition.extent) == "[0, 13)"
    assert (report.left, report.kept_by) == ((), ())
    assert partition.after == world.table.ledger[0].digest.to_text() != partition.before


@pytest.mark.parametrize(
    ("where", "key"),
    [("kafka_key IS NULL", None), ("kafka_key = ''", b""), ("kafka_key_raw = '\\xFF\\xFE'::BLOB", b"\xff\xfe")],
)
def test_null_and_empty_keys_and_those_that_are_no_text_are_told_apart(
    world: ErasureWorld, where: str, key: bytes | None
) -> None:
    before = world.consumed()
    text = "kafka_key IS NULL AND kafka_key_raw IS NULL" if key is None else where
    assert world.erase(where=text).record_count == 3
    assert world.consumed() == {at: record for at, record in before.items() if record[0] != key}


def test_key_is_its_bytes_and_not_its_look(world: ErasureWorld) -> None:
    for text in ("Alice", "alice ", "ALICE", "ali", "'alice'"):
        assert world.erase(text).record_count == 0
    assert world.erase("").record_count == 3


def test_condition_is_sql_and_null_is_not_true(world: ErasureWorld) -> None:
    before = world.consumed()
    report = world.erase(where="kafka_key NOT IN ('alice', 'bob') AND value LIKE '%of 1'")
    gone = {at for at in before if at not in world.consumed()}
    assert gone == {8, 10}, "a null key is in no list, and not outside of it either"
    assert (report.keys, report.record_count) == ((), 2)


@pytest.mark.parametrize(
    "where",
    [
        "nothing = 1",
        "kafka_offset",
        "1; DROP TABLE x",
        "",
        "value IN (SELECT 'x' FROM read_csv('/etc/passwd'))",
    ],
)
def test_condition_that_sql_refuses_is_invalid_before_anything_is_read(world: ErasureWorld, where: str) -> None:
    with pytest.raises(Invalid):
        DuckdbCondition(world.table, where)


def test_condition_that_changes_its_mind_erases_what_was_found(world: ErasureWorld) -> None:
    world.erase(where="random() < 0.5")
    assert world.table.erased[0].record_count == 18 - len(world.consumed())


def test_files_whose_bounds_hold_no_match_are_not_read(tmp_path: Path) -> None:
    stored = MergeWorld(tmp_path, TEXT)
    for number in range(4):
        keys = [b"key %d%d" % (number, row) for row in range(5)]
        stored.append(records_of([b"v"] * 5, start=number * 5, keys=keys))
    world = ErasureWorld(stored)
    condition, _ = world.by_keys("key 12", "key 13")
    found = Finder(condition=condition).look(world.table)
    assert (found.record_count, found.read, found.pruned) == (2, 1, 3)
    for where, read, count in (
        ("kafka_offset >= 15", 1, 5),
        ("kafka_offset BETWEEN 3 AND 6", 2, 4),
        ("NOT kafka_offset < 19", 1, 1),
        ("kafka_key = 'key 00' OR kafka_offset = 19", 2, 2),
        ("kafka_key LIKE 'key 1_'", 4, 5),
        ("lower(kafka_key) = 'key 00'", 4, 1),
        ("kafka_offset > '17'", 4, 2),
        ("kafka_timestamp > '2000-01-01'", 4, 20),
    ):
        found = Finder(condition=DuckdbCondition(world.table, where)).look(world.table)
        assert (where, found.read, found.record_count) == (where, read, count)


def test_typed_keys_are_encoded_under_every_schema(tmp_path: Path) -> None:
    key = CodecSpec(name="avro")
    stored = MergeWorld(tmp_path, TEXT, layout=TableLayout(key="avro"), key_codec=key)
    stored.know({number: json.dumps(KEY_SCHEMAS[number]) for number in (1, 2)}, of_keys=True)
    seven = [avro(1, {"id": 7}), avro(2, {"id": 7, "region": None})]
    others = [avro(1, {"id": 8}), avro(2, {"id": 7, "region": "eu"}), None, b"no key at all"]
    stored.append(records_of([b"v"] * 6, keys=[*seven, *others]))
    world = ErasureWorld(stored)
    assert world.erase('{"id": 7}').record_count == 2
    assert [record[0] for record in world.consumed().values()] == others
    assert world.erase(where="kafka_key.region = 'eu'").record_count == 1
    for text in ("7", "{", '{"idd": 7}', '{"id": "x"}', "null"):
        with pytest.raises(Invalid, match="is no key of the topic"):
            world.by_keys(text)


def test_clustered_files_stay_as_they_were_sorted(world: ErasureWorld) -> None:
    clustering = Clustering(columns=("kafka_key",), window_rows=8)
    world.stored.merge(clustering=clustering)
    before = world.consumed()
    world.erase("bob")
    assert world.stored.files()[0].clustering_checksum == clustering.checksum
    assert world.consumed() == {at: record for at, record in before.items() if record[0] != b"bob"}


def test_damaged_file_is_named_and_the_others_are_erased(world: ErasureWorld) -> None:
    victim = world.stored.files()[1]
    damage(victim.path)
    report = world.erase("alice")
    assert report.record_count == 2
    (left,) = report.left
    assert victim.path in left


def test_append_and_merge_in_between_leave_nothing_out(world: ErasureWorld) -> None:
    beside = MergeWorld.__new__(MergeWorld)
    beside.__dict__ |= world.stored.__dict__ | {"writer": world.writer}

    def come_in_between() -> None:
        beside.table = world.table
        beside.append(records_of([b"late"], start=18, keys=[b"alice"]))
        beside.merge()

    with armed(once(FaultPoint.REPLACEMENTS_VERIFIED, come_in_between)):
        report = world.erase("alice")
    assert report.record_count == 4
    assert b"alice" not in {record[0] for record in world.consumed().values()}
    assert len(world.stored.files()) == 1


def test_somebody_who_is_always_first_ends_it(world: ErasureWorld) -> None:
    beside = MergeWorld.__new__(MergeWorld)
    beside.__dict__ |= world.stored.__dict__ | {"writer": world.writer}

    def merge(point: FaultPoint) -> None:
        if point is FaultPoint.REPLACEMENTS_VERIFIED:
            beside.table = world.table
            beside.merge()

    with armed(merge), pytest.raises(Unavailable, match="replaced the files first"):
        world.erase("alice")
    assert world.reports.get(world.reports.ids()[0]).ended_ms is None


KEYS = st.sampled_from([None, b"", b"a", b"b", b"\xff"])


@given(
    files=st.lists(
        st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=8), min_size=1, max_size=3
    ),
    erased=st.sets(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=3),
    layout=st.sampled_from(["string", "raw"]),
)
@settings(max_examples=20, deadline=None)
def test_what_is_left_is_what_was_there_without_the_keys(
    files: list[list[tuple[bytes | None, bytes | None]]], erased: set[str], layout: str
) -> None:
    with TemporaryDirectory() as folder:
        stored = MergeWorld(Path(folder), TEXT, layout=TableLayout(key=layout))
        at = 0
        for rows in files:
            stored.append(records_of([value for _, value in rows], start=at, keys=[key for key, _ in rows]))
            at += len(rows)
        world = ErasureWorld(stored)
        before = world.consumed()
        report = world.erase(*erased)
        gone = {text.encode() for text in erased}
        left = {offset: record for offset, record in before.items() if record[0] not in gone}
        assert world.consumed() == left
        assert report.record_count == len(before) - len(left)
        assert world.table.ledger[0].range.end == at
