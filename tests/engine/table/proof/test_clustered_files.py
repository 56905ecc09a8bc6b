"""Files in bucketed windows: what is written proves itself, and each lie about a window is named by who proves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec
from engine.fsck.check import fsck_table
from engine.fsck.file import ListedFile, check_file
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.parquet.checksums import CHECKSUMS_KEY, ChecksummedFile
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.table.data_file import FileDescription, FileFooter
from engine.table.merge.merge_files import merge_files
from engine.table.proof.stored_records import file_records
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.rows import parquet_writer
from engine.table.windows import Clustering
from tests.engine.parquet.pyarrow_files import described
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import records_of

BY_KEY = Clustering(columns=("kafka_key",), window_rows=64)
COUNT = 150


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", 16)


@pytest.fixture
def world(tmp_path: Path) -> MergeWorld:
    """Two files with gaps, an epoch each, headers, tombstones, keys that are null or no text."""
    world = MergeWorld(tmp_path, CodecSpec(name="string"))
    for start, epoch in ((0, 3), (400, 5)):
        records = records_of(
            [
                None if at % 11 == 0 else b"\xff%d" % at if at % 13 == 0 else b"value %d" % at
                for at in range(COUNT // 2)
            ],
            start=start,
            step=3,
            keys=[(None, b"\xfe", b"k%02d" % (at * 7 % 40))[min(at % 9, 2)] for at in range(COUNT // 2)],
            headers=[[(b"h", b"%d" % at)] * (at % 3) for at in range(COUNT // 2)],
            epoch=epoch,
        )
        world.append(records, end=start + 400)
    return world


def footer_of(path: str) -> FileFooter:
    return FileFooter.from_key_values(pq.read_metadata(path.removeprefix("file://")).metadata, file=path)


def test_merged_files_are_clustered_and_nothing_else_changes(world: MergeWorld) -> None:
    rows, digest = world.rows(), world.digest()
    world.merge(clustering=BY_KEY)
    (file,) = world.files()
    assert file.clustering_checksum == BY_KEY.checksum
    windows = footer_of(file.path).windows
    assert windows is not None
    assert (windows.clustering, windows.first_groups) == (BY_KEY, (0, 4, 8))
    groups = pq.read_metadata(file.path.removeprefix("file://"))
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [16] * 8 + [11, 11]
    assert world.rows().to_pylist() == rows.to_pylist()
    assert world.digest() == digest
    assert fsck_table(world.table, log_dirs=[]).findings == ()


def test_windows_of_other_settings_are_read_and_written_again(world: MergeWorld) -> None:
    rows, digest = world.rows(), world.digest()
    first, second = world.files()
    world.merge([first], clustering=BY_KEY)
    world.merge([second], clustering=Clustering(columns=("value", "kafka_offset"), window_rows=40))
    assert world.digest() == digest
    world.merge(clustering=Clustering(columns=("kafka_timestamp", "kafka_key"), window_rows=100))
    assert world.rows().to_pylist() == rows.to_pylist()
    assert world.digest() == digest
    world.merge()
    assert world.files()[0].clustering_checksum is None
    assert footer_of(world.files()[0].path).windows is None
    assert world.rows().to_pylist() == rows.to_pylist()
    assert fsck_table(world.table, log_dirs=[]).findings == ()


def test_columns_that_the_table_lacks_are_left_out(world: MergeWorld) -> None:
    world.merge(clustering=Clustering(columns=("region", "kafka_headers", "kafka_key")))
    windows = footer_of(world.files()[0].path).windows
    assert windows is not None
    assert windows.clustering.columns == ("kafka_key",)
    world.merge(clustering=Clustering(columns=("region",)))
    assert footer_of(world.files()[0].path).windows is None


def test_window_ends_early_where_its_rows_are_large(world: MergeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "WINDOW_BYTES", 2000)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 1000)
    digest = world.digest()
    world.merge(clustering=BY_KEY)
    windows = footer_of(world.files()[0].path).windows
    assert windows is not None
    assert len(windows.first_groups) > 3
    assert world.digest() == digest


def test_reader_of_the_first_version_is_told_to_upgrade(world: MergeWorld) -> None:
    world.merge(clustering=BY_KEY)
    assert footer_of(world.files()[0].path).format_version == 2
    world.merge()
    assert footer_of(world.files()[0].path).format_version == 1


@pytest.fixture
def clustered(world: MergeWorld) -> FileDescription:
    (new,) = merge_files(world.task(clustering=BY_KEY)).new
    return new


Groups = list[pa.Table]


def with_groups(description: FileDescription, change: Callable[[Groups, dict[str, str]], Groups]) -> FileDescription:
    """The same file, whole and with true checksums, its row groups and its footer's words as ``change`` makes them."""
    path = Path(description.path.removeprefix("file://"))
    file = pq.ParquetFile(path)
    words = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    del words[CHECKSUMS_KEY]
    groups = change([file.read_row_group(at) for at in range(file.num_row_groups)], words)
    with path.open("wb") as sink:
        checked = ChecksummedFile(sink.write)
        options = {"store_schema": False, "write_page_checksum": True, "write_page_index": True}
        with pq.ParquetWriter(pa.PythonFile(checked, "w"), groups[0].schema, **options) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=group.num_rows)
            writer.add_key_value_metadata({**words, **checked.key_value()})
        checked.finish()
    return described(description, path)


def with_offset(group: pa.Table, row: int, offset: int) -> pa.Table:
    offsets = group.column("kafka_offset").to_pylist()
    offsets[row] = offset
    index = group.schema.get_field_index("kafka_offset")
    return group.set_column(index, group.schema.field(index), pa.array(offsets))


def one_lost(groups: Groups, _: dict[str, str]) -> Groups:
    return [groups[0], groups[1].slice(1), *groups[2:]]


def one_twice(groups: Groups, _: dict[str, str]) -> Groups:
    """In two row groups of a window, in the place of another one."""
    taken = groups[0].column("kafka_offset").to_pylist()
    rows = groups[1].column("kafka_offset").to_pylist()
    at, row = next((at, row) for row, old in enumerate(rows) for at in taken if old < at < [*rows, 1 << 40][row + 1])
    return [groups[0], with_offset(groups[1], row, at), *groups[2:]]


def one_in_the_next_window(groups: Groups, _: dict[str, str]) -> Groups:
    moved = pa.concat_tables([groups[3].slice(0, 1), groups[4]])
    return [*groups[:3], groups[3].slice(1), moved, *groups[5:]]


def swapped(groups: Groups, _: dict[str, str]) -> Groups:
    return [groups[1], groups[0], *groups[2:]]


def backwards(groups: Groups, _: dict[str, str]) -> Groups:
    return [groups[0].take(pa.array(range(15, -1, -1))), *groups[1:]]


def not_said(groups: Groups, words: dict[str, str]) -> Groups:
    del words["floeberg.windows"]
    return groups


def cut_elsewhere(groups: Groups, words: dict[str, str]) -> Groups:
    words["floeberg.windows"] = json.dumps({**json.loads(words["floeberg.windows"]), "first_groups": [0, 3, 8]})
    return groups


def cut_after_the_end(groups: Groups, words: dict[str, str]) -> Groups:
    words["floeberg.windows"] = json.dumps({**json.loads(words["floeberg.windows"]), "first_groups": [0, 4, 10]})
    return groups


def sorted_by_nothing(groups: Groups, words: dict[str, str]) -> Groups:
    words["floeberg.windows"] = json.dumps({**json.loads(words["floeberg.windows"]), "columns": ["region"]})
    return groups


LIES = [
    (one_lost, "149 rows of 150", {Damage.WRONG_COUNT, Damage.DAMAGED_FILE}),
    (one_twice, "rising offset order", {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}),
    (one_in_the_next_window, "belong before", {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}),
    (swapped, "belong before", {Damage.FALSE_BOUNDS}),
    (backwards, "rising offset order", {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}),
    (not_said, "rising offset order", {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}),
    (cut_elsewhere, "belong before", {Damage.MISPLACED_ROWS, Damage.DAMAGED_FILE}),
    (cut_after_the_end, "begins at row group 10, there are 10", {Damage.DAMAGED_FILE}),
    (sorted_by_nothing, "no such column", {Damage.FALSE_BOUNDS}),
]


@pytest.mark.parametrize(("lie", "told", "damage"), LIES, ids=[lie.__name__ for lie, _, _ in LIES])
def test_lie_about_a_window_is_named(
    world: MergeWorld,
    clustered: FileDescription,
    lie: Callable[[Groups, dict[str, str]], Groups],
    told: str,
    damage: set[Damage],
) -> None:
    facts = world.table.facts
    Verifier().accept(clustered, verify_file(clustered.path, facts))
    written = with_groups(clustered, lie)
    with pytest.raises(Corrupt, match=told):
        Verifier().accept(written, verify_file(written.path, facts))
    listed = ListedFile(path=written.path, partition=0, record_count=COUNT, size_bytes=written.size_bytes, claims={})
    found = {finding.damage for finding in check_file(facts, listed).findings}
    assert found == damage


def test_same_groups_written_again_are_no_lie(world: MergeWorld, clustered: FileDescription) -> None:
    written = with_groups(clustered, lambda groups, _: groups)
    Verifier().accept(written, verify_file(written.path, world.table.facts))


def test_records_of_a_range_come_in_offset_order(world: MergeWorld, clustered: FileDescription) -> None:
    def offsets(wanted: OffsetRange) -> Iterator[int]:
        for records in file_records(world.table.facts, clustered.path, wanted):
            yield from records.offset.tolist()

    held = [*range(0, 225, 3), *range(400, 625, 3)]
    for start, end in ((0, 800), (100, 101), (99, 500), (224, 400), (610, 800)):
        wanted = OffsetRange(start=start, end=end)
        assert list(offsets(wanted)) == [offset for offset in held if offset in wanted]
    digest = EMPTY_DIGEST
    for records in file_records(world.table.facts, clustered.path, clustered.range):
        digest = digest.then(digest_of(records))
    assert digest == clustered.digest


def test_column_that_nothing_can_be_sorted_by_opens_no_file(world: MergeWorld) -> None:
    facts = world.table.facts
    path = Path(facts.location.removeprefix("file://")) / "x.parquet"
    with pytest.raises(Invalid, match="kafka_headers"):
        parquet_writer.ParquetFileWriter(
            facts.warehouse,
            path=str(path),
            schema=facts.schema,
            settings=parquet_writer.ParquetSettings(),
            clustering=replace(BY_KEY, columns=("kafka_headers",)),
        )
    assert list(path.parent.glob("x*")) == []
