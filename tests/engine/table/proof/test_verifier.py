"""Each kind of damage is planted in a real file and must be named; nothing else makes a proof."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.leaves import FIELD_ID_KEY
from engine.reading.file_index import FileIndex
from engine.records.digest import digest_of
from engine.table import live_files
from engine.table.data_file import FileDescription
from engine.table.manifest_seal import ChecksumIO, ManifestDigest
from engine.table.manifests import ManifestReader, SnapshotFiles
from engine.table.proof import verifier as verifier_module
from engine.table.proof.verification import Verification, verify_file
from engine.table.proof.verifier import VerifiedFile, VerifiedRange, Verifier, first_hole
from engine.table.topic_table import TableFacts, TopicTable
from tests.engine.offset_table import OffsetTable
from tests.engine.parquet.pyarrow_files import described, rewritten
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    append_of,
    empty_append,
    ensure_table,
    open_writer,
    records_of,
    write_file,
)

COVERED = OffsetRange(start=100, end=600)


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return ensure_table(open_writer(tmp_path))


@pytest.fixture
def facts(table: TopicTable) -> TableFacts:
    return table.facts


@pytest.fixture
def written(facts: TableFacts) -> FileDescription:
    values = [b"value %d" % i if i % 3 else None for i in range(500)]
    return write_file(
        facts, records_of(values, start=100, headers=[[(b"h", b"%d" % i)] for i in range(500)]), covered=COVERED
    )


def local(description: FileDescription) -> Path:
    return Path(description.path.removeprefix("file://"))


def verified(description: FileDescription, facts: TableFacts) -> VerifiedFile:
    return Verifier().accept(description, verify_file(description.path, facts))


def refusal(description: FileDescription, facts: TableFacts) -> str:
    with pytest.raises(Corrupt) as caught:
        verified(description, facts)
    assert caught.value.file == description.path
    return str(caught.value)


def test_file_that_holds_the_logs_records_is_verified(written: FileDescription, facts: TableFacts) -> None:
    assert verified(written, facts).description == written


def test_evidence_travels_from_a_worker(written: FileDescription, facts: TableFacts) -> None:
    travelled = pickle.loads(pickle.dumps(facts))
    evidence = pickle.loads(pickle.dumps(verify_file(written.path, travelled)))
    assert isinstance(evidence, Verification)
    assert Verifier().accept(written, evidence).description == written


def test_flipped_bit_is_seen_wherever_it_lies(written: FileDescription, facts: TableFacts) -> None:
    path = local(written)
    whole = path.read_bytes()
    for at in [*range(0, len(whole), 11), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        refusal(written, facts)
    path.write_bytes(whole)
    verified(written, facts)


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -1, -8])
def test_truncated_file_is_seen(written: FileDescription, facts: TableFacts, kept: int) -> None:
    path = local(written)
    path.write_bytes(path.read_bytes()[:kept])
    refusal(written, facts)


def test_missing_file_is_seen(written: FileDescription, facts: TableFacts) -> None:
    local(written).unlink()
    assert "missing" in refusal(written, facts)


def with_rows(description: FileDescription, change: Callable[[pa.Table], pa.Table]) -> FileDescription:
    """The same file, whole and with true checksums, with other rows: what only the digest can tell."""
    path = local(description)
    rewritten(path, change)
    return described(description, path)


def set_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), values)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.slice(1), "499 rows of 500"),
        (lambda t: pa.concat_tables([t, t.slice(499)]), "rising offset order"),
        (lambda t: t.take(pa.array([1, 0, *range(2, 500)])), "rising offset order"),
        (lambda t: set_column(t, "kafka_offset", pa.array(np.arange(500) + 101)), "outside of"),
        (lambda t: set_column(t, "kafka_offset", pa.array(np.arange(500) + 99)), "outside of"),
        (lambda t: set_column(t, "kafka_partition", pa.array(np.full(500, 1, np.int32))), "partition 1"),
        (lambda t: set_column(t, "kafka_partition", pa.array(np.arange(500, dtype=np.int32) // 499)), "several"),
        (lambda t: set_column(t, "value", pa.array(["other"] * 500)), "digest"),
        (lambda t: set_column(t, "kafka_key", pa.array(["other"] * 500)), "digest"),
        (lambda t: set_column(t, "kafka_leader_epoch", pa.nulls(500, pa.int32())), "digest"),
        (lambda t: set_column(t, "kafka_is_null", pa.array([True] * 500)), "digest"),
        (lambda t: set_column(t, "kafka_headers", pa.nulls(500, t.schema.field("kafka_headers").type)), "digest"),
        (lambda t: t.drop_columns(["kafka_timestamp"]), "kafka_timestamp"),
        (lambda t: t.slice(0, 0), "0 rows of 500"),
    ],
)
def test_wrong_rows_in_a_sound_file_are_seen(
    written: FileDescription, facts: TableFacts, change: Callable[[pa.Table], pa.Table], named: str
) -> None:
    assert named in refusal(with_rows(written, change), facts)


def test_file_of_another_range_under_this_name_is_seen(written: FileDescription, facts: TableFacts) -> None:
    other = write_file(facts, records_of([b"x"] * 10, start=700), covered=OffsetRange(start=700, end=710))
    local(written).write_bytes(local(other).read_bytes())
    refusal(written, facts)
    assert "[700, 710)" in refusal(described(written, local(other)), facts)


def test_columns_under_other_field_ids_are_seen(facts: TableFacts) -> None:
    """A reader by offset would not notice; every SQL engine would take one column for another."""
    fields = [field.with_metadata({FIELD_ID_KEY: b"%d" % (100 + at)}) for at, field in enumerate(facts.schema)]
    elsewhere = replace(facts, schema=pa.schema(fields))
    written = write_file(elsewhere, records_of([b"value"], start=100), covered=COVERED)
    assert "under other field ids" in refusal(written, facts)


def test_digest_of_other_records_than_the_logs_is_seen(written: FileDescription, facts: TableFacts) -> None:
    other = digest_of(records_of([b"x"] * 500, start=100))
    assert "digest" in refusal(replace(written, digest=other), facts)
    assert "501" in refusal(replace(written, record_count=501), facts)
    assert "topic id" in refusal(replace(written, topic_id="another"), facts)


def test_evidence_of_another_file_proves_nothing(written: FileDescription, facts: TableFacts) -> None:
    evidence = replace(verify_file(written.path, facts), path="file:///elsewhere")
    with pytest.raises(Corrupt, match="another file"):
        Verifier().accept(written, evidence)


def test_nobody_else_makes_a_proof(written: FileDescription, facts: TableFacts) -> None:
    with pytest.raises(TypeError, match="only the verifier"):
        VerifiedFile(description=written, token=object())
    with pytest.raises(TypeError, match="only the verifier"):
        VerifiedRange(topic_id="x", partition=0, range=COVERED, token=None)
    proof = verified(written, facts)
    with pytest.raises(TypeError, match="leave the process"):
        pickle.dumps(proof)
    with pytest.raises(TypeError, match="only the verifier"):
        replace(proof, description=replace(written, record_count=1), token=None)


def test_token_is_asked_for_by_the_verifier_alone() -> None:
    root = Path(__file__).parents[4]
    rooms = ("engine", "topics", "workers", "tiering", "compaction", "retention", "serving", "floeberg")
    sources = [path for room in rooms for path in (root / room).rglob("*.py")]
    asking = {str(path.relative_to(root)) for path in sources if "VERIFIERS_TOKEN" in path.read_text()}
    assert asking == {"engine/table/proof/verifier.py"}


def committed(tmp_path: Path, verifier: Verifier) -> TopicTable:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    appends = [
        append_of(table, 0, 50, verifier=verifier),
        empty_append(50, 60),
        append_of(table, 60, 90, verifier=verifier),
    ]
    return writer.commit(table, appends).table


def read_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a verifier reads from now on."""
    asked: list[str] = []

    def counting(path: str, facts: TableFacts) -> Verification:
        asked.append(path)
        return verify_file(path, facts)

    monkeypatch.setattr(verifier_module, "verify_file", counting)
    return asked


def test_range_is_verified_when_the_ledger_and_verified_files_cover_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = read_back(monkeypatch)
    verifier = Verifier()
    table = committed(tmp_path, verifier)
    proof = verifier.verified_range(table, 0, OffsetRange(start=10, end=90))
    assert proof is not None
    assert (proof.topic_id, proof.partition, proof.range) == (TOPIC_ID, 0, OffsetRange(start=10, end=90))
    assert asked == [], "what this process verified is not read again"
    assert verifier.verified_range(table, 0, OffsetRange(start=10, end=91)) is None
    assert verifier.verified_range(table, 1, OffsetRange(start=0, end=1)) is None


def test_restarted_process_reads_back_only_the_files_of_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = committed(tmp_path, Verifier())
    asked = read_back(monkeypatch)
    verifier = Verifier()
    for _ in range(2):
        assert verifier.verified_range(table, 0, OffsetRange(start=55, end=70)) is not None
    assert len(asked) == 1


def test_damage_after_the_commit_is_seen_by_a_restarted_process(tmp_path: Path) -> None:
    table = committed(tmp_path, Verifier())
    (path,) = Path(tmp_path).rglob("00000000000000000060-*.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    assert Verifier().verified_range(table, 0, OffsetRange(start=0, end=50)) is not None
    with pytest.raises(Corrupt):
        Verifier().verified_range(table, 0, OffsetRange(start=50, end=90))
    path.unlink()
    with pytest.raises(Corrupt, match="missing"):
        Verifier().verified_range(table, 0, OffsetRange(start=50, end=90))


def test_file_that_the_table_lost_leaves_a_hole_that_is_named(tmp_path: Path) -> None:
    table = committed(tmp_path, Verifier())
    ledger_only = replace(table, empty={})
    with pytest.raises(Corrupt, match=r"\[50, 60\)"):
        Verifier().verified_range(ledger_only, 0, OffsetRange(start=0, end=90))
    with pytest.raises(Corrupt, match=r"\[0, 50\)"):
        Verifier().verified_range(replace(table, manifest_list=None), 0, OffsetRange(start=0, end=90))


@pytest.mark.parametrize(
    ("covered", "hole"),
    [
        ([(0, 100)], None),
        ([(0, 50), (50, 100)], None),
        ([(50, 100), (0, 60)], None),
        ([(0, 50), (51, 100)], (50, 51)),
        ([(0, 99)], (99, 100)),
        ([(11, 100)], (10, 11)),
        ([], (10, 100)),
    ],
)
def test_first_hole_of_a_coverage(covered: list[tuple[int, int]], hole: tuple[int, int] | None) -> None:
    found = first_hole(OffsetRange(start=10, end=100), [OffsetRange(start=a, end=b) for a, b in covered])
    assert found == (None if hole is None else OffsetRange(start=hole[0], end=hole[1]))


def test_topic_of_the_example_is_the_files(written: FileDescription) -> None:
    assert (written.topic, written.partition, written.range) == (TOPIC, 0, COVERED)


def stored_range(folder: Path, end: int) -> OffsetTable:
    table = OffsetTable(folder)
    for start in range(0, end, 10):
        table.add(OffsetRange(start=start, end=start + 10), records_of([b"value"] * 10, start=start))
    return table


def test_files_are_listed_once_a_snapshot_however_often_a_range_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int | None] = []
    original = live_files.live_ranges

    def counting(table: TopicTable, files: SnapshotFiles) -> tuple[live_files.TableFile, ...]:
        listed.append(table.snapshot_id)
        return original(table, files)

    monkeypatch.setattr(live_files, "live_ranges", counting)
    verifier, table = Verifier(), stored_range(tmp_path, 50)
    for start in (0, 10, 25, 0):
        assert verifier.verified_range(table.view, 0, OffsetRange(start=start, end=50)) is not None
    assert listed == [5]
    table.add(OffsetRange(start=50, end=60), records_of([b"value"] * 10, start=50))
    assert verifier.verified_range(table.view, 0, OffsetRange(start=40, end=60)) is not None
    assert listed == [5, 6]


def test_who_reads_with_the_verifiers_lists_reads_no_manifest_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []
    original = ChecksumIO.hold

    def counting(self: ChecksumIO, location: str) -> ManifestDigest:
        held.append(location)
        return original(self, location)

    monkeypatch.setattr(ChecksumIO, "hold", counting)
    verifier, table = Verifier(), stored_range(tmp_path, 50)
    assert verifier.verified_range(table.view, 0, OffsetRange(start=0, end=50)) is not None
    held.clear()
    assert len(FileIndex(live=verifier.live).files(table.view, 0).files) == 5
    assert held == []
    assert len(FileIndex().files(table.view, 0).files) == 5
    assert len(held) == 5


def test_table_whose_manifests_are_slow_keeps_no_other_from_being_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = stored_range(tmp_path / "slow", 10), stored_range(tmp_path / "quick", 10)
    begun, go_on = threading.Event(), threading.Event()
    original = ManifestReader.files

    def reading(self: ManifestReader, table: TopicTable) -> SnapshotFiles:
        if table.location == slow.view.location:
            begun.set()
            assert go_on.wait(30)
        return original(self, table)

    monkeypatch.setattr(ManifestReader, "files", reading)
    verifier, asked = Verifier(), OffsetRange(start=0, end=10)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(verifier.verified_range, slow.view, 0, asked)
        assert begun.wait(30)
        assert verifier.verified_range(quick.view, 0, asked) is not None
        go_on.set()
        assert waiting.result(30) is not None
