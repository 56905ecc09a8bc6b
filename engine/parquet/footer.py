"""A Parquet file's footer, read lazily: what a range of rows needs without parsing what it doesn't.

Source: the Parquet format specification, ``parquet.thrift``. A footer of 2000 column chunks takes milliseconds to parse
whole; here one pass finds where each row group's description begins, and only the wanted ones are unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet.checksums import FileChecksums, value_place
from engine.parquet.thrift import (
    BINARY,
    I32,
    LIST,
    ThriftStruct,
    ThriftTape,
    binary,
    listed,
    struct,
    zigzag,
)

MAGIC = b"PAR1"
TRAILER_BYTES = 8
"""Footer length (little-endian int32) and magic, at the end of every file."""

_INTEGER_BYTES = {1: 4, 2: 8}
"""Width of Parquet's physical types INT32 and INT64."""

_COLUMN_BYTES = 400  # memory of a column beside its place in the footer's bytes, measured with tracemalloc
_BYTE_ARRAY = 6
_OPTIONAL, _REPEATED = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """``size`` bytes of a file from position ``start``."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafColumn:
    """One Parquet column: its path, whether it lies in a list or map, and the top-level column it belongs to."""

    path: tuple[str, ...]
    definition_level: int
    """The level of a value that is there: 0 for a required column."""
    repetition_level: int
    """How many lists and maps it lies in."""
    is_optional: bool
    """Whether the top-level column it belongs to may be null."""

    @property
    def repeated(self) -> bool:
        return self.repetition_level > 0

    @property
    def top(self) -> str:
        return self.path[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """One column of one row group. Positions are bytes of the file."""

    column: LeafColumn
    head: bytes
    """Fields 1 to 4 of ColumnMetaData (type, encodings, path, codec), encoded, each with its header."""
    value_count: int
    data: ByteRange
    """From the chunk's first page (a dictionary, where it has one) to its end."""
    dictionary_start: int | None
    first_page_start: int
    offset_index: ByteRange | None
    column_index: ByteRange | None
    is_null: bool
    """True when the statistics prove that the whole top-level column is null in this row group."""
    int_bounds: tuple[int, int] | None
    """(min, max), inclusive, of a column of 32- or 64-bit integers."""
    is_byte_array: bool
    uncompressed_bytes: int

    @property
    def has_dictionary(self) -> bool:
        return self.dictionary_start is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group's description. ``chunks`` in file order, one a leaf column."""

    index: int
    row_count: int
    total_bytes: int
    """Encoded bytes before compression, as the writer counted them."""
    chunks: tuple[ColumnChunk, ...]

    @property
    def data(self) -> ByteRange:
        """The row group's pages, from its first byte to its last."""
        start = min(chunk.data.start for chunk in self.chunks)
        return ByteRange(start=start, size=max(chunk.data.end for chunk in self.chunks) - start)

    def readable(self) -> list[tuple[int, ColumnChunk]]:
        """The chunks of the top-level columns that hold anything, each with its place in the row group."""
        with_values = {chunk.column.top for chunk in self.chunks if not chunk.is_null}
        return [(at, chunk) for at, chunk in enumerate(self.chunks) if chunk.column.top in with_values]

    def chunk_of(self, column: str) -> ColumnChunk | None:
        """The chunk of a top-level column that isn't nested."""
        for chunk in self.chunks:
            if chunk.column.path == (column,):
                return chunk
        return None

    def int_bounds(self, column: str) -> tuple[int, int]:
        """(min, max) of a column that ``summaries`` found bounds of."""
        chunk = self.chunk_of(column)
        assert chunk is not None, "the column was there"
        assert chunk.int_bounds is not None, "it had bounds"
        return chunk.int_bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroupSummaries:
    """One entry a row group, in file order: int64[n] each. Offsets are the first and last record's."""

    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    row_count: NDArray[np.int64]
    total_bytes: NDArray[np.int64]
    """Encoded bytes before compression."""

    def __len__(self) -> int:
        return len(self.first_offset)

    def joined(self, starts: Sequence[int]) -> Self:
        """One entry for several row groups: ``starts`` the first of each, and the end."""
        first = np.asarray(starts[:-1], np.intp)
        return type(self)(
            first_offset=np.minimum.reduceat(self.first_offset, first),
            last_offset=np.maximum.reduceat(self.last_offset, first),
            row_count=np.add.reduceat(self.row_count, first),
            total_bytes=np.add.reduceat(self.total_bytes, first),
        )

    @property
    def is_rising(self) -> bool:
        """True when every entry's offsets are in order, after the one before, and enough for its rows."""
        enough = self.last_offset - self.first_offset + 1 >= self.row_count
        return bool(
            enough.all() and (self.row_count > 0).all() and (self.first_offset[1:] > self.last_offset[:-1]).all()
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParquetFooter:
    """The footer of one file. ``encoded`` uint8[n] is the footer itself, without length and magic."""

    file: str
    encoded: NDArray[np.uint8]
    schema: tuple[bytes, ...]
    """The schema's elements, encoded, in file order: the root, then each column and its children."""
    columns: tuple[LeafColumn, ...]
    top_levels: tuple[tuple[str, int], ...]
    """Each top-level column with the number of schema elements it takes."""
    root: ThriftStruct
    row_count: int
    group_at: tuple[int, ...]
    """Where each row group's description begins in ``encoded``."""
    key_values: Mapping[bytes, bytes]
    checksums: FileChecksums | None
    """Of the file's parts; None in files of other programs, and of a Floeberg that did not write them yet."""

    @classmethod
    def parse(cls, encoded: bytes | memoryview, *, file: str) -> Self:
        """Raises Corrupt, naming the file, when the bytes are no footer, or not those that were written."""
        data = np.frombuffer(encoded, np.uint8)
        tape = ThriftTape.read(data, file=file, what="Parquet footer")
        try:
            return cls._from_tape(data, tape, file)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Corrupt(f"the Parquet footer is damaged: {error!r}", file=file) from error

    @classmethod
    def _from_tape(cls, data: NDArray[np.uint8], tape: ThriftTape, file: str) -> Self:
        fields = tape.fields_of(0)
        if not {2, 3, 4} <= fields.keys() or any(tape.kind[fields[field]] != LIST for field in (2, 4)):
            raise Corrupt("the Parquet footer lacks its schema, row count or row groups", file=file)
        elements = tape.items_of(fields[2])
        unpacked = [tape.unpack(element) for element in elements]
        columns, top_levels = _leaf_columns(unpacked, file)
        value = value_place(tape)
        return cls(
            file=file,
            encoded=data,
            schema=tuple(tape.bytes_of(element) for element in elements),
            columns=columns,
            top_levels=top_levels,
            root=unpacked[0],
            row_count=int(tape.value[fields[3]]),
            group_at=tuple(int(tape.start[entry]) for entry in tape.items_of(fields[4])),
            key_values=MappingProxyType(_key_values(tape, fields.get(5))),
            checksums=None if value is None else FileChecksums.of_footer(data.data, value, file=file),
        )

    @property
    def size_bytes(self) -> int:
        """About what the footer takes in memory: its bytes, and its columns twice, encoded and as objects."""
        return len(self.encoded) + _COLUMN_BYTES * len(self.schema) + 40 * len(self.group_at)

    def summaries(self, offset_column: str) -> RowGroupSummaries:
        """What finds a row group by offset, for all of them in one pass.

        Raises Corrupt when the column isn't there or has no statistics.
        """
        leaf = next((at for at, column in enumerate(self.columns) if column.path == (offset_column,)), None)
        if leaf is None:
            raise Corrupt(f"there is no column {offset_column}", file=self.file)
        tape = ThriftTape.read(self.encoded, file=self.file, what="Parquet footer")
        groups = tape.items_of(tape.fields_of(0)[4])
        found = np.empty((len(groups), 4), np.int64)
        try:
            for at, group in enumerate(groups):
                fields = tape.fields_of(group)
                chunk: ThriftStruct = tape.unpack(tape.item_of(fields[1], leaf))
                bounds = _int_bounds(int(chunk[3][1]), chunk[3].get(12, {}))
                if bounds is None:
                    raise Corrupt(f"row group {at} has no bounds of {offset_column}", file=self.file)
                found[at] = (*bounds, tape.value[fields[3]], tape.value[fields[2]])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Corrupt(f"the Parquet footer is damaged: {error!r}", file=self.file) from error
        return RowGroupSummaries(
            first_offset=found[:, 0].copy(),
            last_offset=found[:, 1].copy(),
            row_count=found[:, 2].copy(),
            total_bytes=found[:, 3].copy(),
        )

    def root_element(self, child_count: int) -> bytes:
        """The schema's root, encoded, as it is for ``child_count`` top-level columns."""
        return struct(((4, BINARY, binary(self.root[4])), (5, I32, zigzag(child_count))))

    def group_fields(self, index: int) -> ThriftStruct:
        """The description of row group ``index`` as it stands in the file. Raises Corrupt when it is no struct."""
        tape = ThriftTape.read(self.encoded, at=self.group_at[index], file=self.file, what=f"row group {index}")
        fields: ThriftStruct = tape.unpack(0)
        return fields

    def row_group(self, index: int, fields: ThriftStruct | None = None) -> RowGroup:
        """The description of row group ``index``; ``fields``: what ``group_fields`` gave. Raises Corrupt when it isn't
        one."""
        fields = self.group_fields(index) if fields is None else fields
        try:
            if len(fields[1]) != len(self.columns):
                raise Corrupt(
                    f"row group {index} has {len(fields[1])} columns, not {len(self.columns)}", file=self.file
                )
            row_count = int(fields[3])
            pairs = zip(fields[1], self.columns, strict=True)
            chunks = [_column_chunk(chunk, column, row_count) for chunk, column in pairs]
            if row_count <= 0 or any(chunk.data.size <= 0 or chunk.data.start < 4 for chunk in chunks):
                raise Corrupt(f"row group {index} has no rows or no bytes", file=self.file)
            return RowGroup(index=index, row_count=row_count, total_bytes=int(fields[2]), chunks=tuple(chunks))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Corrupt(f"the description of row group {index} is damaged: {error!r}", file=self.file) from error


def _leaf_columns(
    elements: list[ThriftStruct], file: str
) -> tuple[tuple[LeafColumn, ...], tuple[tuple[str, int], ...]]:
    """The leaves of a schema tree that is stored depth first, each element with its number of children."""
    leaves: list[LeafColumn] = []
    tops: list[tuple[str, int]] = []
    remaining = int(elements[0].get(5, 0))
    open_groups: list[_OpenGroup] = []
    is_optional = False
    for element in elements[1:]:
        if not open_groups:
            tops.append((element[4].decode(), 0))
            is_optional = int(element.get(3, 0)) == _OPTIONAL
            remaining -= 1
        parent = open_groups[-1] if open_groups else _OpenGroup(path=(), repetition=0, level=0, left=1)
        parent.left -= 1
        repetition = int(element.get(3, 0))
        path = (*parent.path, element[4].decode())
        repeated = parent.repetition + (repetition == _REPEATED)
        level = parent.level + (repetition != 0)
        children = int(element.get(5, 0))
        name, count = tops[-1]
        tops[-1] = (name, count + 1)
        if children > 0:
            open_groups.append(_OpenGroup(path=path, repetition=repeated, level=level, left=children))
        else:
            leaves.append(
                LeafColumn(path=path, definition_level=level, repetition_level=repeated, is_optional=is_optional)
            )
        while open_groups and open_groups[-1].left == 0:
            open_groups.pop()
    if remaining != 0 or open_groups:
        raise Corrupt("the Parquet schema is no tree", file=file)
    return tuple(leaves), tuple(tops)


@dataclass(slots=True, kw_only=True)
class _OpenGroup:
    """A schema group whose children are still being read: the one mutable value of this walk."""

    path: tuple[str, ...]
    repetition: int
    level: int
    left: int


def _key_values(tape: ThriftTape, entry: int | None) -> dict[bytes, bytes]:
    if entry is None:
        return {}
    pairs: list[ThriftStruct] = tape.unpack(entry)
    return {pair[1]: pair[2] for pair in pairs if 1 in pair and 2 in pair}


def _column_chunk(chunk: ThriftStruct, column: LeafColumn, row_count: int) -> ColumnChunk:
    meta: ThriftStruct = chunk[3]
    if tuple(part.decode() for part in meta[3]) != column.path:
        raise ValueError(f"column {b'.'.join(meta[3])!r} stands where {'.'.join(column.path)} belongs")
    dictionary_start = int(meta[11]) if meta.get(11) else None
    first_page_start = int(meta[9])
    start = first_page_start if dictionary_start is None else min(dictionary_start, first_page_start)
    statistics: ThriftStruct = meta.get(12, {})
    return ColumnChunk(
        column=column,
        head=_chunk_head(meta),
        value_count=int(meta[5]),
        data=ByteRange(start=start, size=int(meta[7])),
        dictionary_start=dictionary_start,
        first_page_start=first_page_start,
        offset_index=_byte_range(chunk.get(4), chunk.get(5)),
        column_index=_byte_range(chunk.get(6), chunk.get(7)),
        is_null=_is_null(column, statistics, meta.get(16, {}), row_count),
        int_bounds=_int_bounds(int(meta[1]), statistics),
        is_byte_array=int(meta[1]) == _BYTE_ARRAY,
        uncompressed_bytes=int(meta[6]),
    )


def _chunk_head(meta: ThriftStruct) -> bytes:
    head = struct(
        (
            (1, I32, zigzag(meta[1])),
            (2, LIST, listed(I32, [zigzag(encoding) for encoding in meta[2]])),
            (3, LIST, listed(BINARY, [binary(part) for part in meta[3]])),
            (4, I32, zigzag(meta[4])),
        )
    )
    return head[:-1]


def _byte_range(start: int | None, size: int | None) -> ByteRange | None:
    if start is None or size is None or start <= 0 or size <= 0:
        return None
    return ByteRange(start=start, size=size)


def _is_null(column: LeafColumn, statistics: ThriftStruct, sizes: ThriftStruct, row_count: int) -> bool:
    if not column.is_optional:
        return False  # the least definition level of a required list is that of an empty one
    if len(column.path) == 1:
        return bool(statistics.get(3) == row_count)
    # A null leaf may stand for a null struct, a struct with a null field, or an empty list: only the histogram of
    # definition levels tells that the top-level column itself is null in every row.
    histogram = sizes.get(3) or [-1]
    return bool(histogram[0] == row_count and not any(histogram[1:]))


def _int_bounds(physical_type: int, statistics: ThriftStruct) -> tuple[int, int] | None:
    low, high = statistics.get(6), statistics.get(5)
    width = _INTEGER_BYTES.get(physical_type)
    if width is None or low is None or high is None or len(low) != width or len(high) != width:
        return None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
