"""Files put in the place of others with the same records: beside commits, conflicts, lost answers and readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.fault_points import FaultPoint, armed
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.replacement import FileReplacement, decide_replacements
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.manifests import DeleteFile, ManifestReader, SnapshotFiles, TableFile
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
    stored_offsets,
)
from tests.support.fault_hooks import once

REPLACED, GONE = Outcome.COMMITTED, Outcome.GONE


def files_of(table: TopicTable) -> tuple[TableFile, ...]:
    return ManifestReader().files(table).own


def replacement_of(table: TopicTable, old: TableFile, attempt: str = "new") -> FileReplacement:
    """The same records in another file, verified."""
    again = append_of(table, old.range.start, old.range.end, partition=old.partition, attempt=attempt)
    assert again.file is not None
    return FileReplacement(old=(old,), digest=again.digest, new=(again.file,))


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    return open_writer(tmp_path)


@pytest.fixture
def table(writer: TableWriter) -> TopicTable:
    """Two partitions, two files each; those of one partition came with one manifest."""
    table = ensure_table(writer)
    for partition in (0, 1):
        appends = [append_of(table, start, start + 10, partition=partition) for start in (0, 10)]
        table = writer.commit(table, appends).table
    return table


def consumed(table: TopicTable, partition: int = 0) -> bytes:
    reader = LogReader(file_index=FileIndex())
    whole = table.ledger[partition].range
    content = b"".join(reader.read(table, partition, offsets=whole, start=whole.start))
    reader.close()
    return content


def test_new_file_takes_the_place_of_the_old_one_and_nothing_else_changes(
    writer: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    before = {partition: consumed(table, partition) for partition in (0, 1)}
    wanted = replacement_of(table, files_of(table)[1])
    result = writer.replace(table, [wanted])
    assert result.outcomes == (REPLACED,)
    seen = reopened(tmp_path)
    assert (seen.ledger, seen.foreign) == (table.ledger, None)
    assert {file.path for file in files_of(seen)} == {
        *(file.path for file in files_of(table) if file not in wanted.old),
        wanted.new[0].description.path,
    }
    assert {partition: consumed(seen, partition) for partition in (0, 1)} == before
    assert fsck_table(seen, log_dirs=[]).findings == ()
    # Whoever still has the state before reads on: nobody has taken the old file away.
    assert consumed(table) == before[0]
    older, newest = catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots[-2:]
    assert newest.summary.operation.value == "replace"
    assert newest.summary["floeberg.replaced.0"] == "[[10, 20]]"
    assert newest.summary["floeberg.range.0"] is None
    for total in ("total-records", "total-data-files"):
        assert newest.summary[total] == older.summary[total]
    assert outcomes(writer, seen, append_of(seen, 20, 30)) == [Outcome.COMMITTED]


def test_files_of_several_partitions_are_replaced_in_one_commit(
    writer: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    wanted = [replacement_of(table, file) for file in files_of(table)]
    assert writer.replace(table, wanted).outcomes == (REPLACED,) * 4
    assert {file.path for file in files_of(reopened(tmp_path))} == {one.new[0].description.path for one in wanted}
    assert stored_offsets(tmp_path, table, 1) == list(range(20))
    assert len(catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots) == 3


def test_encodings_of_new_columns_are_remembered_and_known_ones_stay(
    writer: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    first = ParquetSettings(encodings={"value": "PLAIN"})
    table = writer.commit(table, [append_of(table, 20, 30)], first).table
    settings = ParquetSettings(encodings={"value": "DICTIONARY", "note": "DICTIONARY"})
    writer.replace(table, [replacement_of(table, files_of(table)[0])], settings)
    kept = reopened(tmp_path).settings
    assert kept == ParquetSettings(encodings={"value": "PLAIN", "note": "DICTIONARY"})


@pytest.fixture
def rival(tmp_path: Path, writer: TableWriter) -> TableWriter:
    """Another process's writer; neither waits for the other's turn, as on a catalog without a lock file."""
    other = open_writer(tmp_path)
    for one in (other, writer):
        one.session(TOPIC, TOPIC_ID)._turns._lock_file = None
    return other


def test_append_that_is_committed_in_between_stays(
    writer: TableWriter, rival: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    wanted = replacement_of(table, files_of(table)[0])
    more = append_of(table, 20, 30)
    with armed(once(FaultPoint.SNAPSHOT_STAGED, lambda: rival.commit(reopened(tmp_path), [more]))):
        result = writer.replace(table, [wanted])
    assert (result.outcomes, result.conflicts) == ((REPLACED,), 1)
    assert result.table.ledger[0].range == OffsetRange(start=0, end=30)
    assert stored_offsets(tmp_path, table) == list(range(30))
    assert fsck_table(reopened(tmp_path), log_dirs=[]).findings == ()


def test_append_meets_a_replacement_in_between(
    writer: TableWriter, rival: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    wanted = replacement_of(table, files_of(table)[0])
    more = append_of(table, 20, 30)
    with armed(once(FaultPoint.SNAPSHOT_STAGED, lambda: rival.replace(reopened(tmp_path), [wanted]))):
        assert outcomes(writer, table, more) == [Outcome.COMMITTED]
    seen = reopened(tmp_path)
    assert wanted.new[0].description.path in {file.path for file in files_of(seen)}
    assert stored_offsets(tmp_path, table) == list(range(30))
    assert fsck_table(seen, log_dirs=[]).findings == ()


def test_second_of_two_replacements_of_a_file_finds_it_gone(
    writer: TableWriter, rival: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    first, second, other = files_of(table)[:3]
    mine = [replacement_of(table, first, "mine"), replacement_of(table, second, "mine")]
    theirs = [replacement_of(table, second, "theirs"), replacement_of(table, other, "theirs")]
    with armed(once(FaultPoint.COMMIT_DECIDED, lambda: rival.replace(reopened(tmp_path), theirs))):
        assert writer.replace(table, mine).outcomes == (REPLACED, GONE)
    paths = {file.path for file in files_of(reopened(tmp_path))}
    assert mine[1].new[0].description.path not in paths
    assert {one.new[0].description.path for one in (mine[0], *theirs)} <= paths
    assert stored_offsets(tmp_path, table) == list(range(20))
    snapshots = len(catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots)
    assert writer.replace(table, mine[1:]).outcomes == (GONE,)
    assert len(catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots) == snapshots


def test_commit_that_landed_without_an_answer_is_known_again(
    writer: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    def lose_the_answer() -> None:
        raise OSError("connection reset")

    wanted = replacement_of(table, files_of(table)[0])
    with armed(once(FaultPoint.CATALOG_CHANGED, lose_the_answer)):
        assert writer.replace(table, [wanted]).outcomes == (REPLACED,)
    assert len(catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots) == 3
    assert reopened(tmp_path).foreign is None


def test_replacement_taken_back_by_somebody_else_loses_nothing(
    writer: TableWriter, table: TopicTable, tmp_path: Path
) -> None:
    before = catalog_in(tmp_path).load_table(table.identifier).metadata.current_snapshot_id
    writer.replace(table, [replacement_of(table, files_of(table)[0])])
    assert before is not None
    catalog_in(tmp_path).load_table(table.identifier).manage_snapshots().rollback_to_snapshot(before).commit()
    seen = reopened(tmp_path)
    assert seen.foreign is None
    assert files_of(seen) == files_of(table)
    assert outcomes(writer, seen, append_of(seen, 20, 30)) == [Outcome.COMMITTED]


def test_file_of_other_records_replaces_nothing(table: TopicTable) -> None:
    wanted = replacement_of(table, files_of(table)[0])
    other = append_of(table, 20, 30, attempt="other")
    old = wanted.old[0]
    with pytest.raises(Invalid, match="have the digest"):
        replace(wanted, digest=other.digest)
    with pytest.raises(Invalid, match="are not"):
        replace(wanted, old=files_of(table)[1:2])
    with pytest.raises(Invalid, match="named twice"):
        replace(wanted, old=(replace(old, path=wanted.new[0].description.path),))


def test_decision_is_by_what_the_loaded_state_lists(table: TopicTable) -> None:
    old = files_of(table)[0]
    wanted = replacement_of(table, old)
    new = replace(old, path=wanted.new[0].description.path)
    deleted = DeleteFile(path="d", partition=0, sequence_number=9, deleted_path=None)
    cases = [
        (SnapshotFiles(own=(old,)), REPLACED, 1),
        (SnapshotFiles(own=(new,)), REPLACED, 0),
        (SnapshotFiles(), GONE, 0),
        (SnapshotFiles(own=(replace(old, size_bytes=1),)), GONE, 0),
        (SnapshotFiles(own=(old,), deletes=(deleted,)), GONE, 0),
    ]
    for files, outcome, accepted in cases:
        found, kept = decide_replacements(files, [wanted])
        assert (found, len(kept)) == ((outcome,), accepted), files
    twice, kept = decide_replacements(SnapshotFiles(own=(old,)), [wanted, replacement_of(table, old, "second")])
    assert (twice, len(kept)) == ((REPLACED, GONE), 1)
