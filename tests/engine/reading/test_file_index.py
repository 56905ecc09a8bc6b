"""The file index: files by offset out of manifests, each read once; footers kept in memory and on disk."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange
from engine.parquet.page_index import read_page_layout
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.reading.file_index import FileIndex, FileIndexLimits, OpenGroup
from engine.reading.footer_cache import FooterCache
from engine.table import manifests
from engine.warehouse.warehouse import Warehouse
from tests.engine import few_handles
from tests.engine.offset_table import FileShape, OffsetTable, records_of


def table_of(folder: Path, *ends: int) -> OffsetTable:
    table = OffsetTable(folder)
    start = 0
    for end in ends:
        table.add(OffsetRange(start=start, end=end), records_of(range(start, end)), shape=FileShape(row_group_rows=16))
        start = end
    return table


def test_files_that_overlap_a_range_are_found_in_order(tmp_path: Path) -> None:
    table = table_of(tmp_path, 10, 20, 30)
    files = FileIndex().files(table.view, 0)
    assert [file.range.start for file in files.overlapping(OffsetRange(start=9, end=21))] == [0, 10, 20]
    assert [file.range.start for file in files.overlapping(OffsetRange(start=10, end=20))] == [10]
    assert files.overlapping(OffsetRange(start=30, end=40)) == ()
    assert FileIndex().files(table.view, 1).files == ()


def test_commit_reads_only_the_manifest_it_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, 10, 20)
    read: list[str] = []
    original = manifests._files_of

    def counting(manifest: manifests.ManifestFile, *rest: object) -> manifests.SnapshotFiles:
        read.append(manifest.manifest_path)
        return original(manifest, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(manifests, "_files_of", counting)
    index = FileIndex()
    index.files(table.view, 0)
    assert len(read) == 2
    table.add(OffsetRange(start=20, end=30), records_of(range(20, 30)))
    assert len(index.files(table.view, 0).files) == 3
    index.files(table.view, 0)
    assert len(read) == 3


def test_two_files_over_the_same_offsets_are_corrupt(tmp_path: Path) -> None:
    table = table_of(tmp_path, 10, 20)
    table.add(OffsetRange(start=15, end=25), records_of(range(15, 25)))
    files = FileIndex().files(table.view, 0)
    with pytest.raises(Corrupt, match="cover the same offsets"):
        files.overlapping(OffsetRange(start=12, end=17))
    assert len(files.overlapping(OffsetRange(start=0, end=12))) == 2


def test_missing_manifest_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, 10)
    (manifest,) = (tmp_path / "metadata").glob("manifest-*.avro")
    manifest.unlink()
    with pytest.raises(Corrupt, match=manifest.name):
        FileIndex().files(table.view, 0)


def test_range_that_is_not_stored_yet_is_unavailable(tmp_path: Path) -> None:
    table = table_of(tmp_path, 10)
    with pytest.raises(Unavailable):
        FileIndex().covering(table.view, 0, OffsetRange(start=0, end=11))


def test_offset_leads_to_its_row_group_and_a_gap_to_the_next(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    table.add(
        OffsetRange(start=0, end=200), records_of(range(3, 200, 4)), shape=FileShape(row_group_rows=16, page_rows=4)
    )
    index = FileIndex()
    (file,) = index.files(table.view, 0).files
    opened = index.open(table.view, file)
    assert [opened.window_of_offset(offset) for offset in (0, 3, 63, 64, 67, 195, 199, 200)] == [0, 0, 0, 1, 1, 3, 3, 4]
    assert opened.window_range(0) == OffsetRange(start=0, end=67)
    assert opened.window_range(3) == OffsetRange(start=195, end=200)
    layout = index.open_group(table.view, opened, 1).layout
    assert layout is not None
    assert layout.first_offset.tolist() == [67, 83, 99, 115]
    assert layout.last_offset.tolist() == [79, 95, 111, 127]


def test_row_groups_of_a_window_are_found_together(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    shape = FileShape(row_group_rows=8, page_rows=4, window_rows=32)
    table.add(OffsetRange(start=0, end=200), records_of(range(3, 200, 4)), shape=shape)
    index = FileIndex()
    (file,) = index.files(table.view, 0).files
    opened = index.open(table.view, file)
    assert [opened.window_of_offset(offset) for offset in (0, 3, 127, 128, 131, 199, 200)] == [0, 0, 0, 1, 1, 1, 2]
    assert opened.window_range(0) == OffsetRange(start=0, end=131)
    assert opened.window_range(1) == OffsetRange(start=131, end=200)
    assert [list(opened.groups_of(window)) for window in (0, 1)] == [[0, 1, 2, 3], [4, 5, 6]]


def footer_reads(index: FileIndex, table: OffsetTable) -> int:
    before = index.count.requests
    for file in index.files(table.view, 0).files:
        index.open(table.view, file)
    return index.count.requests - before


def test_footers_on_disk_are_not_read_from_the_warehouse_again(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", 10, 20)
    first = FileIndex(cache_directory=tmp_path / "cache")
    assert footer_reads(first, table) > 0
    assert footer_reads(first, table) == 0
    first.close()
    second = FileIndex(cache_directory=tmp_path / "cache")
    assert footer_reads(second, table) == 0
    second.close()


@pytest.mark.parametrize("damage", ["removed", "garbage", "a file in its place"])
def test_damaged_cache_directory_is_begun_anew(tmp_path: Path, damage: str) -> None:
    table = table_of(tmp_path / "table", 10)
    directory = tmp_path / "cache"
    index = FileIndex(cache_directory=directory)
    footer_reads(index, table)
    index.close()
    if damage == "garbage":
        for file in directory.iterdir():
            file.write_bytes(b"garbage")
    else:
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
        if damage == "a file in its place":
            directory.write_bytes(b"garbage")
    again = FileIndex(cache_directory=directory)
    assert footer_reads(again, table) > 0
    again.close()
    if damage != "a file in its place":
        third = FileIndex(cache_directory=directory)
        assert footer_reads(third, table) == 0
        third.close()


def test_damaged_footer_in_the_cache_is_read_from_the_file(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", 10)
    index = FileIndex()
    (file,) = index.files(table.view, 0).files
    cache = FooterCache(tmp_path / "cache")
    cache.put(file.path, b"garbage")
    cache.close()
    mended = FileIndex(cache_directory=tmp_path / "cache")
    assert mended.open(table.view, file).footer.row_count == 10
    mended.close()


def test_cache_that_another_process_holds_is_left_alone(tmp_path: Path) -> None:
    held = FooterCache(tmp_path / "cache")
    held.put("a", b"1")
    other = FooterCache(tmp_path / "cache")
    assert other.get("a") is None
    other.put("a", b"2")
    other.close()
    assert held.get("a") == b"1"
    held.close()


def test_more_files_than_handles_are_all_read(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.engine.few_handles", str(tmp_path / "table")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.strip() == str({few_handles.FILES * few_handles.RECORDS}), ended.stderr


def test_reader_whose_file_had_to_make_room_goes_on(tmp_path: Path) -> None:
    table = table_of(tmp_path, 40, 80, 120)
    index = FileIndex(limits=FileIndexLimits(open_inputs=1))
    files = index.files(table.view, 0).files
    opened = [index.open(table.view, file) for file in files]
    assert len(index._inputs) == 1
    groups = [index.open_group(table.view, found, 2).group for found in opened]
    for found, group in zip(opened, groups, strict=True):
        (content,) = found.source.read([group.data])
        assert (
            bytes(content)
            == Path(found.file.path.removeprefix("file://")).read_bytes()[group.data.start :][: group.data.size]
        )
    assert len(index._inputs) == 1


@pytest.mark.parametrize(("columns", "groups"), [(8, 1), (8, 16), (200, 1), (200, 4)])
def test_what_a_file_and_a_row_group_cost_in_memory_is_about_what_is_counted(
    tmp_path: Path, columns: int, groups: int
) -> None:
    rows = 4096 * groups
    values = {f"some_column_name_{at}": np.arange(rows) / (at + 1) for at in range(columns)}
    path = tmp_path / "wide.parquet"
    options = {"row_group_size": 4096, "write_page_index": True, "data_page_size": 4096, "write_batch_size": 512}
    pq.write_table(pa.table({"kafka_offset": np.arange(rows), **values}), path, **options)
    source = RangedFile(
        warehouse=Warehouse(),
        file=path.as_uri(),
        size_bytes=path.stat().st_size,
        cache=row_group_cache(1),
        count=ReadCount(),
    )
    described(source)  # what is made once a process is no file's
    tracemalloc.start()
    try:
        footer = source.footer()
        summaries = footer.summaries("kafka_offset")
        footer_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        group = described(source)
        both_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(summaries) == groups
    counted = footer.size_bytes + 4 * summaries.row_count.nbytes
    assert 0.6 < counted / footer_bytes < 1.6
    assert 0.6 < group.size_bytes / (both_bytes - footer_bytes) < 1.6


def described(source: RangedFile) -> OpenGroup:
    group = source.footer().row_group(0)
    return OpenGroup(group=group, layout=read_page_layout(source, group, offset_column="kafka_offset"))
