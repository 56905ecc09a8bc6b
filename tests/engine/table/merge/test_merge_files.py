"""Files become one: the same records, in the columns of now, with a footer that is true."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from engine.errors import Corrupt, Invalid
from engine.formats.avro.codec import AvroCodec
from engine.formats.codec import CodecSpec, Decoded, Verdict
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST
from engine.records.records import ByteSpans
from engine.table.columns import TableLayout
from engine.table.data_file import FileFooter
from engine.table.ledger import Outcome
from engine.table.merge import copied_rows
from engine.table.merge.merge_files import merge_files
from engine.table.merge.stored_file import StoredFile
from engine.table.proof.verifier import Verifier
from engine.table.rows.parquet_writer import ParquetFileWriter
from tests.compaction.damaged_file import damage
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import append_of, empty_append, records_of


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


def test_damaged_file_is_named_with_its_place_and_nothing_is_replaced(orders: MergeWorld) -> None:
    victim = orders.files()[1]
    damage(victim.path)
    before = list(orders.folder.rglob("*"))
    with pytest.raises(Corrupt) as raised:
        merge_files(orders.task())
    assert (raised.value.file, raised.value.offset, raised.value.partition) == (victim.path, victim.range.start, 0)
    assert list(orders.folder.rglob("*")) == before, "what was begun is gone"


def test_whole_file_that_is_not_the_one_of_the_table_is_refused(orders: MergeWorld) -> None:
    files = orders.files()
    other = replace(files[1], footer_checksum=(files[1].footer_checksum or 0) ^ 1)
    with pytest.raises(Corrupt, match="not the one that the table was given"):
        merge_files(orders.task([files[0], other, files[2]]))


def test_rows_that_are_not_what_the_footer_says_are_found_by_the_proof(
    orders: MergeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_digest(stored: StoredFile) -> FileFooter:
        said = whole(stored)
        return replace(said, digest=replace(said.digest, crc32c=said.digest.crc32c ^ 1))

    whole = StoredFile.footer.func
    monkeypatch.setattr(StoredFile, "footer", property(other_digest))
    task = orders.task()
    merged = merge_files(task)
    with pytest.raises(AssertionError, match="the rows have the digest"):
        orders.proven(task, merged)


def test_files_that_are_not_in_order_are_no_task(orders: MergeWorld) -> None:
    one, two, three = orders.files()
    for files in ([], [two, one], [one, replace(two, partition=1)], [one, one], [one, three, two]):
        with pytest.raises(Invalid, match="can become one"):
            replace(orders.task(), files=tuple(files))


def test_file_that_would_lose_columns_is_copied_after_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = MergeWorld(tmp_path, CodecSpec(name="avro"))
    world.know({1: TEXTS[1]})
    world.append(records_of([order(1, 0), order(2, 1)]))
    world.append(records_of([order(1, 2)], start=2))
    rows = world.rows()["id"].to_pylist()
    world.know({2: TEXTS[2]})
    decode = AvroCodec.decode

    def worse(self: AvroCodec, values: ByteSpans) -> Decoded:
        found = decode(self, values)
        found.verdict[:1] = Verdict.KEEP_RAW
        return found

    digest = world.digest()
    monkeypatch.setattr(AvroCodec, "decode", worse)
    merged = world.merge()
    assert merged.lost == 1
    assert world.rows()["id"].to_pylist() == rows
    assert world.digest() == digest
    assert footer_of(world.files()[0].path).unresolved == {2: 1}, "it is still worth a try"


def test_file_with_a_column_that_does_not_fit_goes_through_records(
    orders: MergeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, rows = orders.digest(), orders.rows().to_pylist()

    def narrow_minded(array: pa.Array, kind: pa.DataType) -> pa.Array:
        if array.type != kind:
            raise Invalid("no")
        return array

    monkeypatch.setattr(copied_rows, "filled", narrow_minded)
    with capture_logs() as logged:
        merged = orders.merge()
    assert [event["event"] for event in logged].count("rows_not_copied") == 2
    assert (merged.lost, orders.digest(), orders.rows().to_pylist()) == (0, digest, rows)


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    world = MergeWorld(tmp_path, CodecSpec(name="string"))
    start, rows = 0, 20_000
    for _ in range(14):
        world.append(records_of([b"%064d" % (start + number) for number in range(rows)], start=start))
        start += rows
    peaks = []
    for files in (world.files()[:7], world.files()):
        pa.default_memory_pool().release_unused()
        before = pa.total_allocated_bytes()
        with AllocationPeak() as peak:
            merge_files(world.task(files))
        peaks.append(peak.allocated_bytes - before)
    assert peaks[1] <= 1.2 * peaks[0], "twice as many files, and no more than a row group more"


class AllocationPeak:
    """What Arrow has allocated at most, as it is seen whenever rows are written."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self._patched = pytest.MonkeyPatch()

    def __enter__(self) -> AllocationPeak:
        write = ParquetFileWriter.write

        def seen(writer: ParquetFileWriter, rows: pa.RecordBatch, *, is_lent: bool = True) -> None:
            self.allocated_bytes = max(self.allocated_bytes, pa.total_allocated_bytes())
            write(writer, rows, is_lent=is_lent)
            self.allocated_bytes = max(self.allocated_bytes, pa.total_allocated_bytes())

        self._patched.setattr(ParquetFileWriter, "write", seen)
        return self

    def __exit__(self, *_: object) -> None:
        self._patched.undo()


def test_ranges_without_records_between_files_are_covered_by_the_new_one(tmp_path: Path) -> None:
    world = MergeWorld(tmp_path, CodecSpec(name="string"))
    world.append(records_of([b"a", b"b"]))
    table = world.writer.commit(world.table, [empty_append(2, 10)]).table
    world.table = table
    world.append(records_of([b"c"], start=10))
    skipping = replace(append_of(world.table, 20, 25), skipped=OffsetRange(start=11, end=20))
    world.table = world.writer.commit(world.table, [skipping]).table
    digest = world.digest()
    world.merge()
    (new,) = world.files()
    assert new.range == OffsetRange(start=0, end=25)
    assert world.digest() == digest
    assert fsck_table(world.table, log_dirs=[]).findings == ()
    verified = Verifier().verified_range(world.table, 0, new.range)
    assert verified is not None
    assert world.writer.commit(world.table, [append_of(world.table, 25, 30)]).results[0].outcome is Outcome.COMMITTED
