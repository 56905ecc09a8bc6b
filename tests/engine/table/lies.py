"""Lies a Parquet writer may tell of its files: each is planted in ours, which then writes them in earnest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.table import parquet_chunk, parquet_file
from engine.table.parquet_bounds import DESCENDING, NumberBounds, StringBounds
from engine.table.parquet_file import ParquetFile
from engine.table.thrift_compact import I32, I64, zigzag

Lie = Callable[[pytest.MonkeyPatch], None]


def _wrapped(module: Any, name: str, change: Callable[..., Any]) -> Lie:
    """``change`` gets the function that it stands for, and its arguments."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **kwargs: change(honest, *args, **kwargs))

    return plant


def _statistics(change: Callable[[Any], Any]) -> Lie:
    return _wrapped(
        parquet_chunk, "_encoded_statistics", lambda honest, bounds, statistics: honest(bounds, change(statistics))
    )


def _swapped(statistics: Any) -> Any:
    extremes = statistics.extremes
    return statistics if extremes is None else replace(statistics, extremes=extremes[::-1])


def _widened(statistics: Any) -> Any:
    """Legal bounds, were they not called exact."""
    extremes = statistics.extremes
    if extremes is None or not isinstance(extremes[0], np.int64):
        return statistics
    return replace(statistics, extremes=(extremes[0] - 1, extremes[1]))


def _metadata(number: int, change: Callable[[int], int]) -> Lie:
    """Another number in one of the fields of ColumnMetaData that are written together, 5 to 7."""

    def struct(honest: Any, fields: Any, *, after: int = 0) -> Any:
        listed = list(fields)
        if after == 4:
            listed = [
                (field, kind, zigzag(change(_number(value)))) if field == number else (field, kind, value)
                for field, kind, value in listed
            ]
        return honest(listed, after=after)

    return _wrapped(parquet_chunk, "struct", struct)


def _number(encoded: bytes) -> int:
    value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(encoded))
    return value >> 1 ^ -(value & 1)


def _group_field(number: int, change: Callable[[int], int]) -> Lie:
    """Another number in a field of RowGroup."""

    def struct(honest: Any, fields: Any, *, after: int = 0) -> Any:
        listed = list(fields)
        if [field for field, _, _ in listed][:2] == [1, 2]:
            listed = [
                (field, kind, zigzag(change(_number(value))))
                if field == number and kind in (I32, I64)
                else (field, kind, value)
                for field, kind, value in listed
            ]
        return honest(listed, after=after)

    return _wrapped(parquet_file, "struct", struct)


def _offset_index(starts: int = 0, sizes: int = 0, rows: int = 0) -> Lie:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = parquet_chunk.headers.offset_index
        monkeypatch.setattr(
            parquet_chunk.headers,
            "offset_index",
            lambda at, size, page_rows, out: honest(at + starts, size + sizes, page_rows + rows, out),
        )

    return plant


def _page_headers(argument: int, add: int) -> Lie:
    """Another number in all page headers: 0 bytes, 1 stored bytes, 2 checksum, 3 values, 4 encoding."""

    def page_headers(honest: Any, *columns: Any) -> Any:
        told = list(columns)
        told[argument] = told[argument] + add
        return honest(*told)

    return _wrapped(parquet_chunk.headers, "page_headers", page_headers)


def _column_index(change: Callable[..., tuple[Any, Any, Any]]) -> Lie:
    return _wrapped(parquet_chunk, "_column_index", lambda honest, *told: honest(*change(*told)))


def _swapped_bounds(bounds: Any, nulls: Any, entries: Any) -> tuple[Any, Any, Any]:
    if isinstance(bounds, (NumberBounds, StringBounds)):
        bounds = replace(bounds, low=bounds.high, high=bounds.low)
    return bounds, nulls, entries


def _all_null_flags(honest: Any, bounds: Any, nulls: Any, entries: Any) -> Any:
    """Pages that are called null, with as many nulls as they have."""
    told: bytes | None = honest(bounds, nulls, entries)
    flags = np.where(nulls == entries, np.uint8(1), np.uint8(2)).tobytes()
    return None if told is None else told.replace(flags, b"\1" * len(flags), 1)


def _order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumberBounds, "order", lambda _: DESCENDING)


def _null_histogram(honest: Any, levels: Any, values: Any) -> Any:
    counts = levels.definition_counts
    if counts is None:
        return honest(levels, values)
    return honest(replace(levels, definition_counts=[sum(counts), *[0] * (len(counts) - 1)]), values)


def _stray_bytes(honest: Any, self: ParquetFile, key_values: Any) -> Any:
    self._put(b"unaccounted")
    return honest(self, key_values)


LIES: dict[str, Lie] = {
    "footer: min and max swapped": _statistics(_swapped),
    "footer: bounds too wide and called exact": _statistics(_widened),
    "footer: a null too many": _statistics(lambda told: replace(told, null_count=told.null_count + 1)),
    "footer: a value too few": _metadata(5, lambda count: count - 1),
    "footer: half of the bytes before compression": _metadata(6, lambda size: size // 2),
    "footer: a byte too many after compression": _metadata(7, lambda size: size + 1),
    "footer: levels of nulls alone": _wrapped(parquet_chunk, "_size_statistics", _null_histogram),
    "footer: a row group's bytes": _group_field(2, lambda size: size + 1),
    "footer: a row group's rows": _group_field(3, lambda rows: rows - 1),
    "footer: a row group's place": _group_field(5, lambda start: start + 1),
    "footer: a row group's bytes after compression": _group_field(6, lambda size: size + 1),
    "page headers: size before compression": _page_headers(0, 1),
    "page headers: checksum": _page_headers(2, 1),
    "page headers: a value too few": _page_headers(3, -1),
    "offset index: first rows": _offset_index(rows=-1),
    "offset index: places": _offset_index(starts=1),
    "offset index: sizes": _offset_index(sizes=-1),
    "column index: all null": _column_index(lambda bounds, _, entries: (bounds, entries, entries)),
    "column index: all pages called null": _wrapped(parquet_chunk, "_column_index", _all_null_flags),
    "column index: a null too many": _column_index(
        lambda bounds, nulls, entries: (bounds, np.minimum(nulls + 1, entries), entries)
    ),
    "column index: min and max swapped": _column_index(_swapped_bounds),
    "column index: order": _order,
    "bytes that belong to nothing": _wrapped(ParquetFile, "finish", _stray_bytes),
}
