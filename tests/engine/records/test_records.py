from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.records import ByteSpans, Headers
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_of, rows_strategy

_VALUES = st.lists(st.none() | st.binary(max_size=20), max_size=20)


@given(values=_VALUES)
@settings(max_examples=50, deadline=None)
def test_spans_hold_nulls_empties_and_bytes(values: list[bytes | None]) -> None:
    spans = ByteSpans.from_list(values)
    assert spans.to_list() == values
    assert len(spans) == len(values)
    assert spans.size_bytes == sum(len(value or b"") for value in values)


@pytest.mark.kernels
@given(values=_VALUES, data=st.data())
@settings(max_examples=100, deadline=None)
def test_spans_become_arrow_and_back(values: list[bytes | None], data: st.DataObject) -> None:
    array = ByteSpans.from_list(values).to_arrow()
    array.validate(full=True)
    assert array.to_pylist() == values
    start = data.draw(st.integers(0, len(values)))
    for kind in (pa.binary(), pa.large_binary()):
        assert ByteSpans.from_arrow(array.cast(kind)[start:]).to_list() == values[start:]
        assert ByteSpans.from_arrow(array.cast(kind).dictionary_encode()[start:]).to_list() == values[start:]


@pytest.mark.kernels
def test_spans_that_overlap_and_run_backwards_are_gathered() -> None:
    data = np.frombuffer(b"abcdef", np.uint8)
    start, length = np.array([4, 0, 1, 0], np.int64), np.array([2, 3, 3, -1], np.int32)
    spans = ByteSpans(data=data, start=start, length=length)
    assert spans.to_arrow().to_pylist() == [b"ef", b"abc", b"bcd", None]
    assert spans.select(slice(None, None, 2)).to_arrow().to_pylist() == [b"ef", b"bcd"]
    assert spans.select(np.array([3, 1])).to_list() == [None, b"abc"]


def test_arrow_text_without_a_data_buffer_is_viewed() -> None:
    assert ByteSpans.from_arrow(pa.array(["", None], pa.string())).to_list() == [b"", None]
    assert ByteSpans.from_arrow(pa.array([], pa.binary())).to_list() == []
    assert ByteSpans.from_arrow(pa.array(["\N{SNOWMAN}", "x"])).to_list() == ["\N{SNOWMAN}".encode(), b"x"]


def test_headers_keep_order_duplicates_and_null_values() -> None:
    lists = [[(b"a", b"1"), (b"a", None), (b"", b"")], [], [(b"z", b"9")]]
    headers = Headers.from_lists(lists)
    assert [headers.of_record(row) for row in range(3)] == lists


@given(rows=rows_strategy(max_size=8), data=st.data())
@settings(max_examples=50, deadline=None)
def test_slices_hold_their_rows(rows: list[Row], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    assert rows_of([records_from(rows).slice(start, end)]) == rows[start:end]
