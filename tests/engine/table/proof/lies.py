"""Lies a Parquet writer may tell of its files: each is planted in a file on its way to the warehouse, whose checksums
are then true of the lie."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.parquet.checksums import ChecksummedFile
from engine.parquet.thrift import TRUE
from engine.table.rows import parquet_writer
from tests.engine.parquet.thrift_tree import Node
from tests.engine.table.proof.written_file import Chunk, WrittenFile

Lie = Callable[[WrittenFile], None]

_INT64 = 2
_ASCENDING, _DESCENDING = 1, 2


class LyingFile(ChecksummedFile):
    """Holds a file back until it is whole, and lets ``lie`` change it."""

    def __init__(self, write: Callable[[memoryview], object], *, lie: Lie) -> None:
        self._honest = bytearray()
        self._to = write
        self._lie = lie
        super().__init__(self._hold)

    def _hold(self, content: memoryview) -> None:
        self._honest += content

    def finish(self) -> int:
        super().finish()
        file = WrittenFile.parse(bytes(self._honest))
        self._lie(file)
        sink = ChecksummedFile(self._to)
        file.write_to(sink)
        return sink.finish()


def plant(monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    """From now on every file that is written tells the lie."""
    monkeypatch.setattr(parquet_writer, "ChecksummedFile", partial(LyingFile, lie=lie))


def _statistics(change: Callable[[Chunk, Node], None]) -> Lie:
    def lie(file: WrittenFile) -> None:
        for chunk in file.chunks:
            if chunk.statistics is not None:
                change(chunk, chunk.statistics)

    return lie


def _swapped(_: Chunk, statistics: Node) -> None:
    statistics.swap(1, 2)
    statistics.swap(5, 6)


def _widened(chunk: Chunk, statistics: Node) -> None:
    """Legal bounds, were they not called exact."""
    if chunk.metadata[1].value != _INT64 or 6 not in statistics:
        return
    for field in {2, 6} & statistics.value.keys():
        (least,) = struct.unpack("<q", statistics[field].value)
        statistics[field].value = struct.pack("<q", least - 1)
    statistics.value |= {7: Node(TRUE, True), 8: Node(TRUE, True)}


def _metadata(field: int, change: Callable[[int], int]) -> Lie:
    """Another number in a field of each ColumnMetaData."""

    def lie(file: WrittenFile) -> None:
        for chunk in file.chunks:
            chunk.metadata[field].value = change(chunk.metadata[field].value)

    return lie


def _null_histogram(file: WrittenFile) -> None:
    for chunk in file.chunks:
        sizes = chunk.metadata.get(16)
        if sizes is not None and 3 in sizes:
            counts = sizes[3].numbers()
            sizes[3].put_numbers([sum(counts), *[0] * (len(counts) - 1)])


def _group(field: int, change: int) -> Lie:
    """Another number in a field of each RowGroup."""

    def lie(file: WrittenFile) -> None:
        for group in file.groups:
            group.add(field, change)

    return lie


def _page_headers(change: Callable[[Node], None]) -> Lie:
    def lie(file: WrittenFile) -> None:
        for chunk in file.chunks:
            for at, header in list(file.page_headers(chunk)):
                change(header)
                file.put_page_header(at, header)

    return lie


def _other_bit(field: int) -> Lie:
    """A number that is as long in the file."""

    def change(header: Node) -> None:
        header[field].value ^= 1

    return _page_headers(change)


def _value_too_few(header: Node) -> None:
    if 5 in header:
        header[5].add(1, -1)


def _offset_index(field: int, change: int) -> Lie:
    """Another number in a field of each PageLocation."""

    def lie(file: WrittenFile) -> None:
        for chunk in file.chunks:
            assert chunk.offset_index is not None
            for location in chunk.offset_index[1].value:
                location.add(field, change)

    return lie


def _column_index(change: Callable[[Node, list[int]], Any]) -> Lie:
    """``change`` gets a column index and the entries of its pages."""

    def lie(file: WrittenFile) -> None:
        for chunk in file.chunks:
            if chunk.column_index is not None:
                entries = [header[5][1].value for _, header in file.page_headers(chunk) if 5 in header]
                change(chunk.column_index, entries)

    return lie


def _all_called_null(index: Node, entries: list[int]) -> None:
    """Pages that are called null, with as many nulls as they have."""
    index[1].put_numbers([True] * len(entries))


def _all_null(index: Node, entries: list[int]) -> None:
    _all_called_null(index, entries)
    index[5].put_numbers(entries)
    for field in (2, 3):
        index[field].put_numbers([b""] * len(entries))


def _null_too_many(index: Node, entries: list[int]) -> None:
    index[5].put_numbers([min(count + 1, most) for count, most in zip(index[5].numbers(), entries, strict=True)])


def _descending(index: Node, _: list[int]) -> None:
    if index[4].value == _ASCENDING:
        index[4].value = _DESCENDING


def _stray_bytes(file: WrittenFile) -> None:
    file.stray = b"unaccounted"


LIES: dict[str, Lie] = {
    "footer: min and max swapped": _statistics(_swapped),
    "footer: bounds too wide and called exact": _statistics(_widened),
    "footer: a null too many": _statistics(lambda _, statistics: statistics.add(3, 1)),
    "footer: a value too few": _metadata(5, lambda count: count - 1),
    "footer: half of the bytes before compression": _metadata(6, lambda size: size // 2),
    "footer: a byte too many after compression": _metadata(7, lambda size: size + 1),
    "footer: levels of nulls alone": _null_histogram,
    "footer: a row group's bytes": _group(2, 1),
    "footer: a row group's rows": _group(3, -1),
    "footer: a row group's place": _group(5, 1),
    "footer: a row group's bytes after compression": _group(6, 1),
    "page headers: size before compression": _other_bit(2),
    "page headers: checksum": _other_bit(4),
    "page headers: a value too few": _page_headers(_value_too_few),
    "offset index: first rows": _offset_index(3, -1),
    "offset index: places": _offset_index(1, 1),
    "offset index: sizes": _offset_index(2, -1),
    "column index: all null": _column_index(_all_null),
    "column index: all pages called null": _column_index(_all_called_null),
    "column index: a null too many": _column_index(_null_too_many),
    "column index: min and max swapped": _column_index(lambda index, _: index.swap(2, 3)),
    "column index: order": _column_index(_descending),
    "bytes that belong to nothing": _stray_bytes,
}
