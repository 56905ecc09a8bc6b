"""``floeberg snapshot``: the first snapshot with an offset, read as pyiceberg reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from floeberg.tables.covering_snapshot import CoveringSnapshot, covering_snapshot
from tests.engine.table.table_examples import (
    TOPIC,
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    reopened,
    stored_offsets,
)
from tests.floeberg.command import floeberg

SKIPPED = OffsetRange(start=20, end=25)


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    """Its table has partition 0 in three commits, [0, 10), [10, 20) and [25, 30), and one of partition 1 between."""
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    for append in (
        append_of(table, 0, 10),
        append_of(table, 10, 20),
        append_of(table, 0, 5, partition=1),
        append_of(table, 25, 30, skipped=SKIPPED),
    ):
        writer.commit(table, [append])
    return writer


def found_at(folder: Path, offset: int, partition: int = 0) -> CoveringSnapshot:
    table = reopened(folder)
    metadata = catalog_in(folder).load_table(table.identifier).metadata
    return covering_snapshot(table, metadata, partition=partition, offset=offset)


def offsets_in(folder: Path, found: CoveringSnapshot, table: TopicTable) -> list[int]:
    rows = catalog_in(folder).load_table(table.identifier).scan("kafka_partition = 0", snapshot_id=found.snapshot_id)
    return sorted(rows.to_arrow()["kafka_offset"].to_pylist())


@pytest.mark.parametrize(
    ("offset", "last"), [(0, 10), (9, 10), (10, 20), (19, 20), (20, 30), (24, 30), (25, 30), (29, 30)]
)
def test_snapshot_is_the_first_that_covers_the_offset(
    tmp_path: Path, writer: TableWriter, offset: int, last: int
) -> None:
    found = found_at(tmp_path, offset)
    assert (found.is_first, found.covered) == (True, OffsetRange(start=0, end=last))
    held = [one for one in stored_offsets(tmp_path, reopened(tmp_path)) if one < last]
    assert offsets_in(tmp_path, found, reopened(tmp_path)) == held


@pytest.mark.parametrize(("partition", "offset"), [(0, 30), (1, 5), (2, 0)])
def test_offset_that_the_table_does_not_cover_is_invalid(
    tmp_path: Path, writer: TableWriter, partition: int, offset: int
) -> None:
    with pytest.raises(Invalid, match=f"not {offset}"):
        found_at(tmp_path, offset, partition)


def test_oldest_snapshot_that_is_left_is_told_where_the_history_is_cut_before_the_offset(
    tmp_path: Path, writer: TableWriter
) -> None:
    table = catalog_in(tmp_path).load_table(reopened(tmp_path).identifier)
    kept = table.metadata.snapshots[2:]
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.metadata.snapshots[:2]]).commit()
    found = found_at(tmp_path, 5)
    assert (found.is_first, found.snapshot_id, found.covered.end) == (False, kept[0].snapshot_id, 20)
    assert offsets_in(tmp_path, found, reopened(tmp_path)) == list(range(20))
    assert found_at(tmp_path, 22).is_first


def test_command_prints_the_id_and_the_query_of_each_engine_and_ends_with_1_where_history_is_cut(
    tmp_path: Path, writer: TableWriter
) -> None:
    settings = tmp_path / "floeberg.toml"
    settings.write_text(f'data_dir = "{tmp_path}"\n[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{tmp_path}"]\n')
    asked = ["snapshot", TOPIC, "--config", str(settings), "--at-offset", "5"]
    done = floeberg(*asked, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["snapshot_id"] == found_at(tmp_path, 5).snapshot_id
    assert told["queries"]["Trino"] == f"SELECT * FROM kafka.orders FOR VERSION AS OF {told['snapshot_id']}"
    table = catalog_in(tmp_path).load_table(reopened(tmp_path).identifier)
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()
    done = floeberg(*asked, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the oldest that is left" in done.stdout
    assert "Earlier snapshots have expired" in done.stdout
