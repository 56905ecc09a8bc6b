"""Commits merge the manifests of those before: real ones, read by other programs, and never another program's."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest
from pyiceberg.io import OutputFile
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.update.snapshot import _SnapshotProducer

from engine.errors import Corrupt
from engine.table import sealed_snapshot
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.writer import TableWriter
from engine.table.data_file import parse_file_name
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.sealed_snapshot import MANIFESTS_OF_A_TIER, OWN_MANIFEST, SealedProducer
from engine.table.topic_table import TopicTable
from floeberg.sql.duckdb_session import extension_file
from tests.engine.table.table_examples import (
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
    stored_offsets,
)

COMMITS = int(os.environ.get("FLOEBERG_TEST_MANIFEST_COMMITS", "150"))
ROWS = 5


def manifests_of(folder: Path) -> list[ManifestFile]:
    table = catalog_in(folder).load_table("kafka.orders")
    snapshot = table.current_snapshot()
    return [] if snapshot is None else snapshot.manifests(table.io)


def filled(folder: Path, commits: int) -> tuple[TableWriter, TopicTable]:
    writer = open_writer(folder)
    table = ensure_table(writer)
    for number in range(commits):
        result = writer.commit(table, [append_of(table, number * ROWS, (number + 1) * ROWS)])
        assert [one.outcome for one in result.results] == [Outcome.COMMITTED]
        table = result.table
    return writer, table


@pytest.mark.parametrize("is_compacted", [False, True], ids=["appends alone", "with compaction"])
def test_many_commits_leave_few_manifests_and_every_engine_reads_them(tmp_path: Path, is_compacted: bool) -> None:
    writer, most, count = open_writer(tmp_path), 0, 10
    table = ensure_table(writer)
    for number in range(COMMITS):
        result = writer.commit(table, [append_of(table, number * ROWS, (number + 1) * ROWS)])
        table = result.table
        if is_compacted and number % count == count - 1:
            old = ManifestReader().files(table).own[-count:]
            new = append_of(table, old[0].range.start, old[-1].range.end, attempt="b1")
            assert new.file is not None
            done = writer.replace(table, [FileReplacement(old=old, digest=new.digest, new=(new.file,))])
            assert done.outcomes == (Outcome.COMMITTED,)
            table = done.table
        most = max(most, 0 if table.manifest_seal is None else table.manifest_seal.count)
    assert most <= 3 * (MANIFESTS_OF_A_TIER + 1)
    found = ManifestReader().files(reopened(tmp_path)).own
    assert len(found) == (COMMITS // count if is_compacted else COMMITS)
    metadata = catalog_in(tmp_path).load_table(table.identifier)
    offsets = metadata.scan().to_arrow()["kafka_offset"].to_pylist()
    assert sorted(offsets) == list(range(COMMITS * ROWS))
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for extension in ("avro", "iceberg"):
            connection.execute(f"LOAD '{extension_file(extension)}'")
        location = metadata.metadata_location.removeprefix("file://")
        counted = connection.execute(f"SELECT count(DISTINCT kafka_offset), count(*) FROM iceberg_scan('{location}')")
        assert counted.fetchall() == [(COMMITS * ROWS, COMMITS * ROWS)]


def test_entries_keep_the_snapshot_and_the_sequence_number_they_came_with(tmp_path: Path) -> None:
    filled(tmp_path, MANIFESTS_OF_A_TIER + 2)
    table = catalog_in(tmp_path).load_table("kafka.orders")
    by_sequence = {snapshot.sequence_number: snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    merged = [manifest for manifest in manifests_of(tmp_path) if manifest.existing_files_count]
    assert [manifest.existing_files_count for manifest in merged] == [MANIFESTS_OF_A_TIER]
    entries = merged[0].fetch_manifest_entry(table.io)
    for entry in entries:
        start = parse_file_name(entry.data_file.file_path).range.start
        assert entry.status == ManifestEntryStatus.EXISTING
        assert entry.sequence_number == start // ROWS + 1
        assert entry.snapshot_id == by_sequence[entry.sequence_number]
    assert merged[0].min_sequence_number == 1


def test_manifests_of_another_program_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named_as_by_the_library(producer: SealedProducer) -> OutputFile:
        producer.commit_uuid = str(producer.commit_uuid).removeprefix(OWN_MANIFEST)
        return _SnapshotProducer.new_manifest_output(producer)

    with monkeypatch.context() as patched:
        # As the library alone writes them, telling nobody of them.
        patched.setattr(SealedProducer, "new_manifest_output", named_as_by_the_library)
        patched.setattr(sealed_snapshot, "told_checksums", lambda _: {})
        writer, table = filled(tmp_path, MANIFESTS_OF_A_TIER)
    for number in range(MANIFESTS_OF_A_TIER, 2 * MANIFESTS_OF_A_TIER + 1):
        more = append_of(table, number * ROWS, (number + 1) * ROWS)
        assert outcomes(writer, table, more) == [Outcome.COMMITTED]
    names = [manifest.manifest_path.rpartition("/")[2] for manifest in manifests_of(tmp_path)]
    assert sum(not name.startswith(OWN_MANIFEST) for name in names) == MANIFESTS_OF_A_TIER
    assert sum(name.startswith(OWN_MANIFEST) for name in names) == 2
    assert stored_offsets(tmp_path, table) == list(range((2 * MANIFESTS_OF_A_TIER + 1) * ROWS))


def test_damaged_manifest_is_not_merged(tmp_path: Path) -> None:
    writer, table = filled(tmp_path, MANIFESTS_OF_A_TIER)
    victim = Path(manifests_of(tmp_path)[-1].manifest_path.removeprefix("file://"))
    content = bytearray(victim.read_bytes())
    content[-20] ^= 1
    victim.write_bytes(content)
    more = append_of(table, MANIFESTS_OF_A_TIER * ROWS, (MANIFESTS_OF_A_TIER + 1) * ROWS)
    with pytest.raises(Corrupt, match="not what Floeberg wrote"):
        writer.commit(table, [more])
    assert reopened(tmp_path).snapshot_id == table.snapshot_id


@pytest.mark.parametrize("is_damaged", [False, True])
def test_manifests_whose_snapshots_are_expired_are_proven_by_their_sum_before_they_are_merged(
    tmp_path: Path, is_damaged: bool
) -> None:
    _, table = filled(tmp_path, MANIFESTS_OF_A_TIER)
    loaded = catalog_in(tmp_path).load_table("kafka.orders")
    older = [s.snapshot_id for s in loaded.metadata.snapshots if s.snapshot_id != table.snapshot_id]
    loaded.maintenance.expire_snapshots().by_ids(older).commit()
    if is_damaged:
        victim = Path(manifests_of(tmp_path)[-1].manifest_path.removeprefix("file://"))
        content = bytearray(victim.read_bytes())
        content[-20] ^= 1
        victim.write_bytes(content)
    table = reopened(tmp_path)
    writer = open_writer(tmp_path)
    more = append_of(table, MANIFESTS_OF_A_TIER * ROWS, (MANIFESTS_OF_A_TIER + 1) * ROWS)
    if is_damaged:
        with pytest.raises(Corrupt, match="not what Floeberg wrote"):
            writer.commit(table, [more])
        return
    assert outcomes(writer, table, more) == [Outcome.COMMITTED]
    assert len(manifests_of(tmp_path)) == 2
    ManifestReader().files(reopened(tmp_path))
