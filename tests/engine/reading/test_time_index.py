from __future__ import annotations

import bisect
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from tests.engine.offset_table import FileShape, OffsetTable, records_of


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_time_index_never_points_past_the_answer(data: st.DataObject) -> None:
    timestamps = data.draw(st.lists(st.integers(-1, 40), min_size=1, max_size=120))
    huge = data.draw(st.booleans())
    offsets = [3 + 2 * row for row in range(len(timestamps))]
    value = {offset: ts * (2**57 if huge and ts == 13 else 1) for offset, ts in zip(offsets, timestamps, strict=True)}
    with TemporaryDirectory() as folder:
        table = OffsetTable(Path(folder))
        table.add(
            OffsetRange(start=0, end=offsets[-1] + 5),
            records_of(offsets, timestamp_ms=value.__getitem__),
            shape=FileShape(row_group_rows=32, page_rows=4, window_rows=data.draw(st.sampled_from((None, 50, 1000)))),
        )
        wanted = OffsetRange(start=data.draw(st.integers(0, offsets[-1])), end=offsets[-1] + 5)
        index = FileIndex()
        times, relative = LogReader(file_index=index).time_index(table.view, 0, wanted)
        index.close()
    assert (np.diff(times) > 0).all()
    assert (np.diff(relative) > 0).all()
    inside = [offset for offset in offsets if offset in wanted]
    for target in range(-1, 45):
        entry = bisect.bisect_right(times.tolist(), target) - 1
        begins = wanted.start + (int(relative[entry]) if entry >= 0 else 0)
        answer = next((offset for offset in inside if value[offset] >= target), None)
        assert answer is None or begins <= answer


def test_time_index_of_rising_timestamps_points_at_the_right_page(tmp_path: Path) -> None:
    table, reader = OffsetTable(tmp_path), LogReader(file_index=FileIndex())
    wanted = OffsetRange(start=0, end=256)
    table.add(
        wanted, records_of(range(256), timestamp_ms=lambda o: 1000 + o), shape=FileShape(row_group_rows=64, page_rows=8)
    )
    times, relative = reader.time_index(table.view, 0, wanted)
    assert relative.tolist() == list(range(8, 256, 8))
    assert times.tolist() == [1000 + o for o in range(8, 256, 8)]
    reader.close()
