"""Rows into bucketed windows and back: the same rows, sorted between row groups, in offset order inside them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.table.rows import window_rows
from engine.table.rows.window_rows import in_offset_order, row_groups_of

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=3)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "number": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.integers(-3, 3).map(lambda days: _DAY + timedelta(days=days))),
    "money": (pa.decimal128(9, 2), st.integers(-999, 999).map(lambda cents: Decimal(cents).scaleb(-2))),
    "fixed": (pa.binary(2), st.binary(min_size=2, max_size=2)),
}


@st.composite
def windows(draw: st.DrawFn) -> tuple[pa.Table, list[str]]:
    count = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    offsets = [sum(gaps[: at + 1]) for at in range(count)]
    columns = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    table = {"kafka_offset": pa.array(offsets, pa.int64())}
    for name in columns:
        kind, values = VALUES[name]
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        table[name] = pa.array(drawn, kind)
    table["nested"] = pa.array([[{"at": offset}] * (offset % 3) for offset in offsets])
    whole = pa.table(table)
    cut = draw(st.integers(0, count))
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]), columns


def rank(value: Any) -> tuple[int, Any]:
    """Numbers and texts, then what is no number, then nulls."""
    if value is None:
        return (2, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


@settings(max_examples=150, deadline=None)
@given(drawn=windows(), count=st.integers(1, 6))
def test_row_groups_are_sorted_and_offsets_rise_inside(drawn: tuple[pa.Table, list[str]], count: int) -> None:
    window, columns = drawn
    count = min(count, window.num_rows)
    groups = list(row_groups_of(window, columns, count))
    assert len(groups) == count
    sizes = [group.num_rows for group in groups]
    assert max(sizes) - min(sizes) <= 1
    last: list[Any] | None = None
    for group in groups:
        offsets = group.column("kafka_offset").to_pylist()
        assert offsets == sorted(offsets)
        keys = [[rank(row[name]) for name in columns] for row in group.select(columns).to_pylist()]
        assert count == 1 or last is None or min(keys) >= last
        last = max(keys)
    back = pa.concat_tables(in_offset_order(groups, [0, count], "kafka_offset"))
    assert repr(back.to_pylist()) == repr(window.to_pylist()), "NaN is not equal to itself"


def test_windows_come_back_one_after_the_other_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_rows, "ROW_GROUP_ROWS", 4)
    offsets = [range(0, 20, 2), range(30, 33), range(40, 51)]
    parts = [pa.table({"kafka_offset": list(part), "by": [at * 7 % 5 for at in part]}) for part in offsets]
    counts = [3, 1, 4]
    groups = [group for part, count in zip(parts, counts, strict=True) for group in row_groups_of(part, ["by"], count)]
    pieces = list(in_offset_order(groups, [0, 3, 4, 8], "kafka_offset"))
    assert pa.concat_tables(pieces).equals(pa.concat_tables(parts).combine_chunks())
    assert [piece.num_rows for piece in pieces] == [4, 4, 2, 3, 4, 4, 3]


def test_column_that_one_row_group_lacks_is_null_in_its_rows() -> None:
    groups = [pa.table({"kafka_offset": [1, 4]}), pa.table({"kafka_offset": [2, 3], "note": ["a", "b"]})]
    (rows,) = in_offset_order(groups, [0, 2], "kafka_offset")
    assert rows.to_pydict() == {"kafka_offset": [1, 2, 3, 4], "note": [None, "a", "b", None]}
