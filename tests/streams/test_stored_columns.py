"""Columns out of a table's files: the rows that were asked for, by as few bytes as they take."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from streams.selection import Selection
from streams.stored_columns import StoredColumns
from tests.engine.offset_table import FileShape, OffsetTable, records_of

ROWS = 4_000
WHOLE = OffsetRange(start=0, end=2 * ROWS)
STREAM_ORDER = FileShape(row_group_rows=500, page_rows=50)
CLUSTERED = FileShape(row_group_rows=500, page_rows=50, window_rows=1_500)


def incompressible(offset: int) -> bytes:
    return hashlib.sha512(b"%d" % offset).digest()


def stored(folder: Path, shape: FileShape) -> OffsetTable:
    """Every second offset has a record; the last hundred have none."""
    table = OffsetTable(folder)
    for start in (0, ROWS):
        end = start + ROWS
        table.add(OffsetRange(start=start, end=end), records_of(range(start, end - 100, 2)), shape=shape)
    return table


def read(table: OffsetTable, selection: Selection, offsets: OffsetRange = WHOLE) -> tuple[list[dict[str, object]], int]:
    """The rows, and the bytes that were read for them."""
    with closing(StoredColumns()) as columns:
        pieces = list(columns.pieces(selection.of(table.view), 0, offsets))
        ends = [piece.end for piece in pieces]
        assert ends == sorted(set(ends))
        assert ends[-1] == offsets.end
        return [row for piece in pieces for row in piece.rows.to_pylist()], columns.count.read_bytes


@pytest.mark.parametrize("shape", [STREAM_ORDER, CLUSTERED])
@pytest.mark.parametrize(
    "offsets",
    [WHOLE, OffsetRange(start=777, end=5_001), OffsetRange(start=3_950, end=3_990), OffsetRange(start=9, end=10)],
)
def test_rows_of_any_range_are_in_the_order_of_their_offsets(
    shape: FileShape, offsets: OffsetRange, tmp_path: Path
) -> None:
    rows, _ = read(stored(tmp_path, shape), Selection(columns=("kafka_key", "kafka_offset")), offsets)
    wanted = [offset for offset in range(0, 2 * ROWS, 2) if offset in offsets and offset % ROWS < ROWS - 100]
    assert rows == [{"kafka_key": f"key {offset % 5}", "kafka_offset": offset} for offset in wanted]


def test_column_that_is_not_wanted_costs_no_bytes(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    records = records_of(range(ROWS), value=incompressible)
    path = table.add(OffsetRange(start=0, end=ROWS), records, shape=FileShape(row_group_rows=ROWS, page_rows=500))
    assert path is not None
    offsets = OffsetRange(start=0, end=ROWS)
    few, few_bytes = read(table, Selection(columns=("kafka_offset", "kafka_timestamp")), offsets)
    every, every_bytes = read(table, Selection(), offsets)
    assert len(few) == len(every) == ROWS
    assert few_bytes * 4 < every_bytes <= 2 * path.stat().st_size


@pytest.mark.parametrize("shape", [STREAM_ORDER, CLUSTERED])
@pytest.mark.parametrize(
    "where", ["kafka_offset >= 6000 AND kafka_offset < 6100", "kafka_offset IN (6000, 6002) OR kafka_offset = 6050"]
)
def test_condition_leaves_out_what_can_not_match_and_every_row_that_does_not(
    shape: FileShape, where: str, tmp_path: Path
) -> None:
    table = stored(tmp_path, shape)
    every, every_bytes = read(table, Selection(columns=("kafka_offset", "kafka_key")))
    found, found_bytes = read(table, Selection(columns=("kafka_key",), where=where))
    matching = range(6_000, 6_100, 2) if "IN" not in where else (6_000, 6_002, 6_050)
    assert found == [{"kafka_key": row["kafka_key"]} for row in every if row["kafka_offset"] in matching]
    assert found_bytes < every_bytes


def test_range_in_the_middle_of_a_row_group_is_read_by_its_pages(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    records = records_of(range(ROWS), value=incompressible)
    shape = FileShape(row_group_rows=ROWS, page_rows=50, writer_options={"use_dictionary": False})
    table.add(OffsetRange(start=0, end=ROWS), records, shape=shape)
    _, whole_bytes = read(table, Selection(columns=("value",)), OffsetRange(start=0, end=ROWS))
    rows, few_bytes = read(table, Selection(columns=("value",)), OffsetRange(start=2_000, end=2_010))
    assert len(rows) == 10
    assert few_bytes < whole_bytes / 2


def test_damaged_page_of_a_wanted_column_is_named(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    path = table.add(OffsetRange(start=0, end=ROWS), records_of(range(ROWS)))
    assert path is not None
    content = bytearray(path.read_bytes())
    content[1_000:1_400] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=path.name):
        read(table, Selection(), OffsetRange(start=0, end=ROWS))
