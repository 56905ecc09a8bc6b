from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetSnapshotRefUpdate

from engine.errors import Corrupt
from engine.table.commit.replacement import FileReplacement
from engine.table.manifest_seal import ChecksumIO
from engine.table.manifests import ManifestReader
from engine.table.reachability import hashes_of
from tests.engine.table.stored_table import Stored
from tests.engine.table.table_examples import append_of


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def test_everything_a_table_wrote_is_named_while_its_history_is_whole(stored: Stored) -> None:
    for _ in range(12):
        stored.append()
    named = stored.named()
    assert [path for path in stored.on_disk() if not named.is_named(path)] == []
    assert all(named.is_live(path) for path in stored.files)
    current = stored.iceberg().current_snapshot()
    assert current is not None
    assert named.is_live(current.manifest_list)
    older = [one.manifest_list for one in stored.iceberg().snapshots()][:-1]
    assert older
    assert not any(named.is_live(path) for path in older)


def test_lists_and_manifests_of_expired_snapshots_are_named_no_more_and_their_files_are(stored: Stored) -> None:
    for _ in range(11):
        stored.append()
    before = set(stored.on_disk())
    stored.expire_all_but_newest()
    named = stored.named()
    unnamed = sorted(path.rpartition("/")[2] for path in before if not named.is_named(path))
    assert [name[:5] for name in unnamed] == ["floeb"] * 10 + ["snap-"] * 10
    assert all(named.is_live(path) for path in stored.files)


def test_file_that_was_replaced_is_history_until_the_last_snapshot_that_named_it_goes(stored: Stored) -> None:
    first = stored.append()
    stored.append()
    (old, *_) = ManifestReader().files(stored.view()).own
    new = append_of(stored.view(), 0, 5, attempt="again").file
    assert new is not None
    stored.writer.replace(stored.view(), [FileReplacement(old=(old,), digest=new.description.digest, new=(new,))])
    named = stored.named()
    assert (named.is_named(first), named.is_live(first)) == (True, False)
    assert named.is_live(new.description.path)
    stored.expire_all_but_newest()
    assert not stored.named().is_named(first)


@pytest.mark.parametrize("kind", [SnapshotRefType.BRANCH, SnapshotRefType.TAG])
def test_snapshot_that_a_branch_or_tag_names_keeps_its_files(stored: Stored, kind: SnapshotRefType) -> None:
    stored.append()
    kept = stored.iceberg().current_snapshot()
    assert kept is not None
    table = stored.iceberg()
    table.catalog.commit_table(
        table, (), (SetSnapshotRefUpdate(ref_name="audit", type=kind, snapshot_id=kept.snapshot_id),)
    )
    stored.append()
    table = stored.iceberg()
    assert table.metadata.refs["audit"].snapshot_id == kept.snapshot_id
    named = stored.named()
    assert (named.is_named(kept.manifest_list), named.is_live(kept.manifest_list)) == (True, False)


def test_statistics_schemas_and_past_states_are_named(stored: Stored) -> None:
    stored.append()
    stored.writer.add_schemas(stored.view(), {8: '"' + "x" * (64 << 10) + '"'})
    table = stored.iceberg()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    statistics = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=f"{table.location()}/metadata/of-others.stats",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    with table.update_statistics() as update:
        update.set_statistics(statistics)
    named, table = stored.named(), stored.iceberg()
    assert named.is_live(statistics.statistics_path)
    assert named.is_live(table.properties["floeberg.schema_file.8"])
    assert named.is_live(table.metadata_location)
    past = [entry.metadata_file for entry in table.metadata.metadata_log]
    assert past
    assert all(named.is_named(path) and not named.is_live(path) for path in past)


def test_file_is_named_however_its_folder_is_spelled(stored: Stored) -> None:
    path = stored.append()
    assert stored.named().is_live(f"s3a://elsewhere/{path.rpartition('/')[2]}")
    assert not stored.named().is_named(path.replace("-a1.parquet", "-a2.parquet"))


def test_what_was_read_once_is_not_read_again(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        stored.append()
    stored.named()
    stored.append()
    opened: list[str] = []
    content = ChecksumIO.content
    monkeypatch.setattr(ChecksumIO, "content", lambda io, path: (opened.append(path), content(io, path))[1])
    stored.named()
    read = [path.rpartition("/")[2] for path in opened]
    assert sorted(name[:5] for name in read) == ["floeb", "snap-"], "the new list and its manifest"


def test_metadata_that_is_missing_is_corrupt_and_nothing_is_known_of_what_it_named(stored: Stored) -> None:
    stored.append()
    stored.append()
    older = stored.iceberg().snapshots()[0].manifest_list
    Path(older.removeprefix("file://")).unlink()
    with pytest.raises(Corrupt, match="missing"):
        stored.named()


def test_manifest_of_history_that_is_not_what_was_written_is_corrupt(stored: Stored) -> None:
    stored.append()
    (manifest,) = [path for path in stored.on_disk() if path.endswith("-m0.avro")]
    stored.append()
    local = Path(manifest.removeprefix("file://"))
    content = bytearray(local.read_bytes())
    content[-20] ^= 1
    local.write_bytes(content)
    with pytest.raises(Corrupt):
        stored.named()


def test_a_million_names_take_eight_bytes_each() -> None:
    hashes = hashes_of(f"data/p=0/{number:020d}.parquet" for number in range(100_000))
    assert hashes.nbytes == 8 * 100_000
