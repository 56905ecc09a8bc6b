"""Whether what a table file says of itself is true: footer, page headers and page index, against pages and rows.

Read with other eyes than the writer's: pyarrow parses the real footer and decodes the rows, from the places that this
footer names. SQL engines skip row groups and pages by these claims, so a false one is a record that nobody finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.parquet.footer import MAGIC, TRAILER_BYTES, ByteRange, ColumnChunk, ParquetFooter, RowGroup
from engine.parquet.leaves import leaves
from engine.parquet.page_index import page_locations
from engine.parquet.ranged_file import RangedFile
from engine.parquet.thrift import ThriftStruct
from engine.table.proof.leaf_facts import Leaf, LeafFacts, column_facts, integers, merge_facts
from engine.table.proof.page_claims import (
    ChunkPages,
    ColumnIndex,
    false_bounds,
    false_chunk_claims,
    false_column_index,
    false_locations,
    false_page_bounds,
    first_rows,
)


@dataclass(slots=True, kw_only=True)
class FileClaims:
    """Compares one file with what it says of itself, row group by row group, and says what is false in sentences.

    ``shown`` is the footer as pyarrow reads it, ``schema`` its columns. ``closely``: names of the columns whose values
    are compared with every bound; of the others only what costs little: places, sizes, counts, nulls. ``facts`` of the
    rows seen so far.
    """

    source: RangedFile
    footer: ParquetFooter
    shown: pq.FileMetaData
    schema: pa.Schema
    closely: frozenset[str]
    facts: dict[Leaf, LeafFacts] = field(default_factory=dict)
    _parts: list[ByteRange] = field(default_factory=list)
    _row_count: int = 0

    def false_in_group(self, index: int, rows: pa.Table) -> Iterator[str]:
        """``rows`` are the row group's, as pyarrow decodes them. Raises Corrupt where pages or index can't be read."""
        fields = self.footer.group_fields(index)
        group = self.footer.row_group(index, fields)
        shown = self.shown.row_group(index)
        self._row_count += rows.num_rows
        self._parts += _parts_of(group)
        yield from _false_in_row_group(index, group, fields, shown, rows)
        contents = iter(self.source.read([part for chunk in group.chunks for part in _ranges(chunk)]))
        chunks = iter([self._chunk(chunk, rows.num_rows, next(contents), contents) for chunk in group.chunks])
        at = 0
        for column, kind in zip(rows.columns, self.schema, strict=True):
            pages = [next(chunks) for _ in leaves([kind])]
            is_close = kind.name in self.closely
            facts = _ColumnFacts(field=kind, column=column, is_close=is_close, rows=pages[0].rows)
            self.facts = {**self.facts, **merge_facts(self.facts, facts.whole)}
            for chunk, leaf in zip(pages, facts.whole, strict=True):
                claims = _Claims(chunk=chunk, metadata=fields[1][at][3], shown=shown.column(at), leaf=leaf, facts=facts)
                yield from claims.false_ones()
                at += 1

    def _chunk(self, chunk: ColumnChunk, row_count: int, data: memoryview, indexes: Iterator[memoryview]) -> _Chunk:
        file = self.source.file
        locations = None if chunk.offset_index is None else page_locations(next(indexes), file)
        rows = None if locations is None else first_rows(locations, row_count)
        return _Chunk(
            chunk=chunk,
            pages=ChunkPages.walk(chunk, data, file),
            locations=locations,
            rows=np.array([0, row_count]) if rows is None else rows,
            index=None if chunk.column_index is None else ColumnIndex.parse(next(indexes), file),
        )

    def false_in_file(self) -> Iterator[str]:
        """After all row groups: what the footer says of the whole, and bytes that belong to nothing."""
        if not self.shown.num_rows == self.footer.row_count == self._row_count:
            yield f"the footer counts {self.shown.num_rows} rows, the file has {self._row_count}"
        at = len(MAGIC)
        end = self.source.size_bytes - TRAILER_BYTES - len(self.footer.encoded)
        for part in [*sorted(self._parts, key=lambda part: part.start), ByteRange(start=end, size=0)]:
            if part.start != at:
                low, high = sorted((at, part.start))
                yield f"bytes {low} to {high} of the file belong to nothing, or to two things"
                return
            at = part.end


def _ranges(chunk: ColumnChunk) -> list[ByteRange]:
    return [part for part in (chunk.data, chunk.offset_index, chunk.column_index) if part is not None]


def _parts_of(group: RowGroup) -> list[ByteRange]:
    """A row group's parts of the file: its pages, which lie side by side, and its parts of the page index."""
    parts = [chunk.data for chunk in group.chunks]
    return parts + [part for chunk in group.chunks for part in _ranges(chunk)[1:]]


def _false_in_row_group(
    index: int, group: RowGroup, fields: ThriftStruct, shown: pq.RowGroupMetaData, rows: pa.Table
) -> Iterator[str]:
    sizes = [(chunk.uncompressed_bytes, chunk.data.size) for chunk in group.chunks]
    before, stored = (sum(size) for size in zip(*sizes, strict=True))
    claims = (
        ("rows", shown.num_rows, rows.num_rows),
        ("rows", group.row_count, rows.num_rows),
        ("bytes before compression", shown.total_byte_size, before),
        ("as its place", fields.get(5, group.data.start), group.data.start),
        ("bytes", fields.get(6, stored), stored),
        ("as its number", fields.get(7, index), index),
    )
    for what, claimed, found in claims:
        if claimed != found:
            yield f"row group {index}: the footer says {claimed} {what}, it is {found}"


@dataclass(slots=True, kw_only=True)
class _ColumnFacts:
    """What is true of a top-level column's leaves in one row group, and of each page of theirs."""

    field: pa.Field
    column: pa.ChunkedArray
    is_close: bool
    rows: NDArray[np.int64]
    _by_page: dict[bytes, list[dict[Leaf, LeafFacts]]] = field(default_factory=dict)
    _entries: dict[bytes, list[int]] = field(default_factory=dict)
    _whole: dict[Leaf, LeafFacts] | None = None

    @property
    def whole(self) -> dict[Leaf, LeafFacts]:
        """Put together from the pages' where each value is dear to look at, and they will be asked for."""
        if self._whole is None:
            if self.is_close and self.column.null_count < len(self.column) and not _is_cheap(self.field.type):
                pages = self._pages(self.rows)
                self._whole = reduce(merge_facts, pages[1:], pages[0])
            else:
                self._whole = column_facts(self.field, self.column, extremes=self.is_close)
        return self._whole

    def by_page(self, leaf: Leaf, rows: NDArray[np.int64]) -> list[LeafFacts]:
        """``rows`` the first of each page and the end; leaves of one column mostly break at the same ones."""
        if self.column.null_count == len(self.column):
            return [LeafFacts(value_count=count, null_count=count) for count in np.diff(rows).tolist()]
        whole = self.whole[leaf]
        if self.is_close and _is_cheap(self.field.type) and whole.null_count == 0:
            if whole.least == whole.greatest:
                counts: list[int] = np.diff(rows).tolist()
                pages = {count: replace(whole, value_count=count) for count in set(counts)}
                return [pages[count] for count in counts]
            if pa.types.is_int64(integers(self.field.type)) and bool((np.diff(rows) > 0).all()):
                return self._integer_pages(rows)
        return [page.get(leaf, LeafFacts()) for page in self._pages(rows)]

    def _pages(self, rows: NDArray[np.int64]) -> list[dict[Leaf, LeafFacts]]:
        key = rows.tobytes()
        if key not in self._by_page:
            self._by_page[key] = [
                column_facts(self.field, self.column.slice(start, end - start), extremes=self.is_close)
                for start, end in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True)
            ]
        return self._by_page[key]

    def _integer_pages(self, rows: NDArray[np.int64]) -> list[LeafFacts]:
        values = self.column.cast(pa.int64()).to_numpy()
        least, greatest = (each.reduceat(values, rows[:-1]).tolist() for each in (np.minimum, np.maximum))
        return [
            LeafFacts(value_count=count, least=low, greatest=high)
            for count, low, high in zip(np.diff(rows).tolist(), least, greatest, strict=True)
        ]

    def entries_by_page(self, leaf: Leaf, rows: NDArray[np.int64]) -> list[int]:
        """Entries of each page, as its header counts them: in a list or map as many as it has, but at least one."""
        kind = self.field.type
        is_list_of_flat = pa.types.is_list(kind) and not _has_lists(kind.value_type)
        if not is_list_of_flat or bool((np.diff(rows) <= 0).any()):
            return [page.value_count for page in self.by_page(leaf, rows)]
        key = rows.tobytes()
        if key not in self._entries:
            lengths = pc.fill_null(pc.list_value_length(self.column), 0).to_numpy()
            self._entries[key] = np.add.reduceat(np.maximum(lengths, 1), rows[:-1], dtype=np.int64).tolist()
        return self._entries[key]


def _is_cheap(kind: pa.DataType) -> bool:
    """Whether the extremes of a whole column are found in no time."""
    return bool(pa.types.is_integer(integers(kind)) or pa.types.is_boolean(kind))


def _has_lists(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_lists(child.type) for child in kind)
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chunk:
    """One column chunk, walked, with what the page index says of it, None where that has nothing.

    ``rows``: the first row of each page by the offset index, and the end; one page where it says nothing usable.
    """

    chunk: ColumnChunk
    pages: ChunkPages
    locations: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    index: ColumnIndex | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    """All that is claimed of one column chunk: ``metadata`` as it stands in the file, ``shown`` by pyarrow."""

    chunk: _Chunk
    metadata: ThriftStruct
    shown: pq.ColumnChunkMetaData
    leaf: Leaf
    facts: _ColumnFacts

    def false_ones(self) -> Iterator[str]:
        chunk, pages, whole = self.chunk.chunk, self.chunk.pages, self.facts.whole[self.leaf]
        yield from self._false_to_others(chunk)
        yield from false_chunk_claims(chunk, self.metadata, pages)
        yield from self._false_statistics(whole)
        if self.chunk.locations is None:
            return
        yield from false_locations(self.chunk.locations, chunk, pages)
        rows = self.chunk.rows
        entries: list[int] = pages.values.tolist()
        if len(rows) - 1 != len(entries):
            return
        if chunk.column.repeated and self.facts.entries_by_page(self.leaf, rows) != entries:
            yield f"column {self._name}: the offset index says that pages begin at other rows than they do"
        index = self.chunk.index
        if index is None:
            return
        untrue = list(false_column_index(self._name, index, entries, whole.null_count))
        yield from untrue
        if self.facts.is_close and not untrue:
            by_page = self.facts.by_page(self.leaf, rows)
            yield from false_page_bounds(self._name, index, by_page, self.leaf.kind, self.metadata[1])

    @property
    def _name(self) -> str:
        return ".".join(self.chunk.chunk.column.path)

    def _false_to_others(self, chunk: ColumnChunk) -> Iterator[str]:
        """What our reader takes from the footer and pyarrow reads otherwise."""
        shown = self.shown
        ours = (chunk.value_count, chunk.uncompressed_bytes, chunk.data.size, chunk.first_page_start)
        theirs = (
            shown.num_values,
            shown.total_uncompressed_size,
            shown.total_compressed_size,
            shown.data_page_offset,
        )
        if ours != theirs or chunk.dictionary_start != (shown.dictionary_page_offset or None):
            yield f"column {self._name}: two readers of the footer find other sizes and places: {ours}, {theirs}"
        # Readers leave such a column out.
        if chunk.is_null and self.facts.column.null_count < len(self.facts.column):
            yield f"column {self._name}: the footer says that there is nothing but nulls, and there are values"

    def _false_statistics(self, facts: LeafFacts) -> Iterator[str]:
        said = f"column {self._name}: the footer"
        yield from _false_histograms(said, self.metadata.get(16, {}), facts, len(self.facts.column))
        shown = self.shown.statistics
        if shown is None:
            return
        if shown.has_null_count and shown.null_count != facts.null_count:
            yield f"{said} counts {shown.null_count} nulls, there are {facts.null_count}"
        if not shown.has_min_max or not self.facts.is_close:
            return
        if facts.least is None:
            yield f"{said} has bounds, and there are no values"
            return
        low, high = (_physical(self.leaf.kind, raw) for raw in (shown.min_raw, shown.max_raw))
        raw = self.metadata.get(12, {})
        exact = {"high_is_exact": raw.get(7, False), "low_is_exact": raw.get(8, False)}
        yield from false_bounds(said, low, high, facts, **exact)
        if (raw.get(1, raw.get(5)), raw.get(2, raw.get(6))) != (raw.get(5), raw.get(6)):
            yield f"{said} has other bounds for readers of the old kind"


def _false_histograms(said: str, sizes: ThriftStruct, facts: LeafFacts, row_count: int) -> Iterator[str]:
    """SizeStatistics: entries by repetition level, and by definition level; the deepest one is a value."""
    by_repetition, by_definition = sizes.get(2), sizes.get(3)
    if by_repetition and (sum(by_repetition), by_repetition[0]) != (facts.value_count, row_count):
        yield f"{said} counts other repetition levels than there are"
    expected = (facts.value_count, facts.value_count - facts.null_count)
    if by_definition and (sum(by_definition), by_definition[-1]) != expected:
        yield f"{said} counts other definition levels than there are"


def _physical(kind: pa.DataType, shown: Any) -> Any:
    """A bound as pyarrow shows it, as a value that compares as ``LeafFacts`` do."""
    if pa.types.is_decimal(kind) and isinstance(shown, bytes):
        return int.from_bytes(shown, "big", signed=True)
    return shown
