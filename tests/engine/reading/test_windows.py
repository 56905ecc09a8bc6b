"""Clustered files read by offset: as in stream order, a few pages at a time, and never an offset twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt
from engine.kafka_log.record_batch import parse_header
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from tests.engine import offset_table
from tests.engine.offset_table import FileShape, OffsetTable, records_of
from tests.engine.reading.client_reads import as_a_client_reads, read


def test_fetch_out_of_a_window_reads_the_pages_around_its_offsets_alone(tmp_path: Path) -> None:
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=8000)
    value = np.random.default_rng(3).bytes
    shape = FileShape(row_group_rows=1000, page_rows=50, window_rows=4000)
    path = table.add(wanted, records_of(range(8000), value=lambda _: value(200)), shape=shape)
    assert path is not None
    index = FileIndex()
    reader = LogReader(file_index=index)
    (file,) = index.files(table.view, 0).files
    opened = index.open(table.view, file)
    for group in range(8):
        index.open_group(table.view, opened, group)
    before = index.count.read_bytes
    batches = list(reader.read(table.view, 0, offsets=wanted, start=5000, max_bytes=20_000))
    reader.close()
    assert parse_header(bytes(batches[0])).base_offset == 5000
    # One or two pages of 50 rows of each of the four row groups, where a row group has twenty.
    assert index.count.read_bytes - before < path.stat().st_size / 8
    index.close()


def test_offset_that_two_row_groups_of_a_window_hold_is_never_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(window: pa.Table, columns: Sequence[str], count: int) -> Iterator[pa.Table]:
        yield from (window.slice(0, 20), window.slice(19, 1), window.slice(21))

    monkeypatch.setattr(offset_table, "row_groups_of", twice)
    table = OffsetTable(tmp_path)
    wanted = OffsetRange(start=0, end=40)
    table.add(wanted, records_of(range(40)), shape=FileShape(row_group_rows=20, window_rows=40))
    reader = LogReader(file_index=FileIndex())
    with pytest.raises(Corrupt, match="several row groups hold the same offset"):
        read(reader, table, wanted, 0)
    reader.close()


@pytest.mark.parametrize("offset", range(0, 130, 9))
def test_every_offset_of_a_window_is_read_as_in_stream_order(tmp_path: Path, offset: int) -> None:
    stored = records_of([at for at in range(130) if at % 10 < 7], headers=lambda at: [(b"h", b"%d" % at)] * (at % 3))
    wanted = OffsetRange(start=0, end=131)
    answers = []
    for folder, window_rows in (("stream", None), ("windows", 37)):
        table = OffsetTable(tmp_path / folder)
        table.add(wanted, stored, shape=FileShape(row_group_rows=10, page_rows=4, window_rows=window_rows))
        reader = LogReader(file_index=FileIndex())
        answers.append(as_a_client_reads(read(reader, table, wanted, offset)))
        reader.close()
    assert answers[0] == answers[1]
    assert [record.offset for record in answers[0]] == [at for at in stored.offset.tolist() if at >= offset]
