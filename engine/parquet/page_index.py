"""Where a row group's pages are and what they hold, from the page index after a Parquet file's data.

Source: the Parquet format specification, "Parquet page index". Pages are *aligned* when every column breaks at the same
rows; then any run of pages is a row group of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet.footer import ColumnChunk, RowGroup
from engine.parquet.ranged_file import RangedFile
from engine.parquet.thrift import LIST, ThriftStruct, ThriftTape
from engine.parquet.thrift_kernels import ITEM

_ARRAY_BYTES = 160
"""Of an array and its place in a dictionary, its numbers aside."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageLayout:
    """The pages of one row group, the same for all its columns.

    ``first_row`` int64[pages + 1], rows of the row group, its row count last; ``page_start`` for each readable chunk
    int64[pages + 1], bytes of the file, the chunk's end last; ``first_offset`` and ``last_offset`` int64[pages].
    """

    first_row: NDArray[np.int64]
    page_start: dict[int, NDArray[np.int64]]
    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]

    @property
    def page_count(self) -> int:
        return len(self.first_row) - 1

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        arrays = (self.first_row, self.first_offset, self.last_offset, *self.page_start.values())
        return sum(_ARRAY_BYTES + array.nbytes for array in arrays)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageBounds:
    """Smallest and largest value of each page of a column of 32- or 64-bit integers: int64[pages] each."""

    smallest: NDArray[np.int64]
    largest: NDArray[np.int64]


def read_page_layout(source: RangedFile, group: RowGroup, *, offset_column: str) -> PageLayout | None:
    """The page layout of ``group``; None where pages don't align or the file has no page index.

    One read of the row group's part of the page index. Raises Corrupt when the index contradicts the footer.
    """
    wanted = group.readable()
    ranges = [chunk.offset_index for _, chunk in wanted]
    offset_chunk = group.chunk_of(offset_column)
    if offset_chunk is None or offset_chunk.column_index is None or any(part is None for part in ranges):
        return None
    encoded = source.read([part for part in ranges if part is not None] + [offset_chunk.column_index])
    first_row: NDArray[np.int64] | None = None
    page_start: dict[int, NDArray[np.int64]] = {}
    for (at, chunk), data in zip(wanted, encoded, strict=False):
        starts, rows = _offset_index(data, chunk, group.row_count, source.file)
        # A page that begins in the middle of a long row, as other writers make them, can't be read by itself.
        if bool((np.diff(rows) == 0).any()):
            return None
        if first_row is None:
            first_row = rows
        elif not np.array_equal(first_row, rows):
            return None
        page_start[at] = starts
    bounds = _column_index(encoded[-1], source.file)
    if first_row is None or bounds is None or len(bounds.smallest) != len(first_row) - 1:
        return None
    layout = PageLayout(
        first_row=first_row, page_start=page_start, first_offset=bounds.smallest, last_offset=bounds.largest
    )
    _check_offsets(layout, offset_chunk, source.file)
    return layout


def read_page_bounds(source: RangedFile, groups: Sequence[RowGroup], column: str) -> list[PageBounds | None]:
    """The bounds of a column's pages for each row group; None where the file has no column index for it."""
    chunks = [group.chunk_of(column) for group in groups]
    ranges = [chunk.column_index for chunk in chunks if chunk is not None and chunk.column_index is not None]
    encoded = iter(source.read(ranges))
    return [
        _column_index(next(encoded), source.file) if chunk is not None and chunk.column_index is not None else None
        for chunk in chunks
    ]


def _check_offsets(layout: PageLayout, chunk: ColumnChunk, file: str) -> None:
    """Page bounds that contradict the footer would send a reader to the wrong page."""
    rows = np.diff(layout.first_row)
    fits = bool(
        (layout.last_offset - layout.first_offset + 1 >= rows).all()
        and (layout.first_offset[1:] > layout.last_offset[:-1]).all()
        and chunk.int_bounds == (int(layout.first_offset[0]), int(layout.last_offset[-1]))
    )
    if not fits:
        raise Corrupt("the page index's offsets contradict the footer", file=file)


def _offset_index(
    data: memoryview, chunk: ColumnChunk, row_count: int, file: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(byte position of each page, first row of each page), each with its end as one more entry."""
    locations = page_locations(data, file)
    starts = np.append(locations[:, 0], chunk.data.end)
    sizes = locations[:, 1]
    rows = np.append(locations[:, 2], row_count)
    # Pages lie side by side: one read takes any run of them. A writer that leaves holes is none of ours, but legal.
    fits = len(locations) > 0 and rows[0] == 0 and bool((np.diff(rows) >= 0).all() and (np.diff(starts) >= sizes).all())
    if not fits or starts[0] < chunk.data.start or bool((sizes <= 0).any()):
        raise Corrupt(f"the offset index of {'.'.join(chunk.column.path)} contradicts the footer", file=file)
    return starts, rows


def page_locations(data: memoryview, file: str) -> NDArray[np.int64]:
    """PageLocation of each page as int64[pages, 3]: position, size with header, first row. Raises Corrupt."""
    tape = ThriftTape.read(np.frombuffer(data, np.uint8), file=file, what="offset index")
    fields = tape.fields_of(0)
    pages = fields.get(1)
    if pages is None or tape.kind[pages] != LIST:
        raise Corrupt("the offset index is damaged: it lists no pages", file=file)
    inside = slice(pages + 1, int(tape.after[pages]))
    field, value = tape.field[inside], tape.value[inside]
    # Each page is a struct of three integers in the order of their ids: four entries of the tape.
    if len(field) % 4 or not bool((field.reshape(-1, 4) == (ITEM, 1, 2, 3)).all()):
        raise Corrupt("the offset index is damaged: a page lacks its position, size or first row", file=file)
    return value.reshape(-1, 4)[:, 1:]


def _column_index(data: memoryview, file: str) -> PageBounds | None:
    try:
        index: ThriftStruct = ThriftTape.read(np.frombuffer(data, np.uint8), file=file, what="column index").unpack(0)
        widths = {len(value) for value in (*index[2], *index[3])}
        if any(index[1]) or widths not in ({4}, {8}):
            return None
        kind = f"<i{widths.pop()}"
        smallest, largest = (np.frombuffer(b"".join(index[field]), kind).astype(np.int64) for field in (2, 3))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the column index is damaged: {error!r}", file=file) from error
    if len(smallest) != len(largest):
        raise Corrupt("the column index is damaged: bounds are missing", file=file)
    return PageBounds(smallest=smallest, largest=largest)
