"""A Parquet file written by row groups and column chunks: what pyarrow's writer does, page by page our own.

Why not pyarrow: docs/parquet_files.md. The schema's elements are still pyarrow's, taken from an empty file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.table.columns import leaves
from engine.table.file_checksums import ChecksummedFile
from engine.table.footer_encoding import encode_footer
from engine.table.parquet_chunk import ChunkStatistics, ChunkWriter, PageCompressor, WrittenChunk
from engine.table.parquet_footer import MAGIC, TRAILER_BYTES, ParquetFooter
from engine.table.parquet_leaf import LeafWriter
from engine.table.parquet_settings import ParquetSettings
from engine.table.parquet_shredding import shred
from engine.table.parquet_values import Leaf, Scratch
from engine.table.thrift_compact import I16, I32, I64, LIST, STRUCT, ThriftTape, listed, struct, zigzag

CREATED_BY = b"floeberg version 0.1.0"
"""Readers look here for writers whose statistics or encodings they must not trust."""

_TYPE, _TYPE_LENGTH = 1, 2
"""Fields of a schema's element that only leaves, and only those of one length, have."""

_LARGEST_ORDINAL = 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenGroup:
    start: int
    row_count: int
    size_bytes: int
    chunks: tuple[WrittenChunk, ...]


class ParquetFile:
    """One file in the making, written through ``write``. Memory: the values of one row group."""

    def __init__(self, write: Callable[[bytes], object], schema: pa.Schema, settings: ParquetSettings) -> None:
        self._sink = ChecksummedFile(write)
        self._schema = schema
        self._footer = _empty_footer(schema)
        self._leaves = [
            LeafWriter(
                leaf,
                encoding=settings.encoding_of(".".join(leaf.path), leaf.kind),
                otherwise=ParquetSettings().encoding_of(".".join(leaf.path), leaf.kind),
            )
            for leaf in _leaves_of(self._footer, schema)
        ]
        compressor = PageCompressor()
        self._chunk_writers = [ChunkWriter(writer.leaf, compressor) for writer in self._leaves]
        self._scratch = Scratch()
        self._groups: list[_WrittenGroup] = []
        self._rows = 0
        self._position = 0
        self._put(MAGIC)

    def append(self, rows: pa.RecordBatch) -> None:
        """Add rows to the row group in the making. The batch's memory may be reused as soon as this returns."""
        if not rows.num_rows:
            return
        writers = iter(self._leaves)
        for column, field in zip(rows.columns, self._schema, strict=True):
            for piece in shred(column, field):
                next(writers).append(piece, rows.num_rows)
        self._rows += rows.num_rows

    def end_row_group(self) -> None:
        """Write the rows since the last one; nothing where there are none."""
        if not self._rows:
            return
        start = self._position
        chunks = []
        for writer, chunk_writer in zip(self._leaves, self._chunk_writers, strict=True):
            levels, values = writer.encode(self._scratch)
            chunk, data = chunk_writer.write(levels, values, self._position)
            self._put(data)
            writer.clear()
            chunks.append(chunk)
        self._groups.append(
            _WrittenGroup(start=start, row_count=self._rows, size_bytes=self._position - start, chunks=tuple(chunks))
        )
        self._sink.end_row_group()
        self._rows = 0

    def finish(self, key_values: Mapping[str, str]) -> int:
        """Write the page index and the footer behind the row groups; returns the footer's checksum."""
        checksums = self._sink.key_value()
        column_indexes = [self._put_index(chunk.column_index) for chunk in self._chunks()]
        offset_indexes = [self._put_index(chunk.offset_index) for chunk in self._chunks()]
        places = iter(zip(offset_indexes, column_indexes, strict=True))
        groups = []
        for ordinal, group in enumerate(self._groups):
            chunks = [_column_chunk(chunk, *next(places)) for chunk in group.chunks]
            groups.append(_row_group(group, chunks, ordinal))
        self._put(
            encode_footer(
                schema=list(self._footer.schema),
                row_count=sum(group.row_count for group in self._groups),
                row_groups=groups,
                key_values={**key_values, **checksums},
                created_by=CREATED_BY,
                column_orders=len(self._leaves),
            )
        )
        return self._sink.finish()

    @property
    def statistics(self) -> list[list[ChunkStatistics]]:
        """Of each leaf column, in file order: one entry a row group."""
        return [[group.chunks[at].statistics for group in self._groups] for at in range(len(self._leaves))]

    @property
    def row_group_starts(self) -> list[int]:
        """Where each row group begins in the file."""
        return [group.start for group in self._groups]

    def _chunks(self) -> Iterator[WrittenChunk]:
        return (chunk for group in self._groups for chunk in group.chunks)

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._position += len(data)

    def _put_index(self, data: bytes | None) -> tuple[int, int] | None:
        """(position, size) of a part of the page index."""
        if data is None:
            return None
        start = self._position
        self._put(data)
        return start, len(data)


def _column_chunk(
    chunk: WrittenChunk, offset_index: tuple[int, int] | None, column_index: tuple[int, int] | None
) -> bytes:
    """ColumnChunk. Its own place in the file is deprecated, and 0."""
    fields = [(2, I64, zigzag(0)), (3, STRUCT, chunk.metadata)]
    for field, place in ((4, offset_index), (6, column_index)):
        if place is not None:
            fields += [(field, I64, zigzag(place[0])), (field + 1, I32, zigzag(place[1]))]
    return struct(fields)


def _row_group(group: _WrittenGroup, chunks: list[bytes], ordinal: int) -> bytes:
    return struct(
        (
            (1, LIST, listed(STRUCT, chunks)),
            (2, I64, zigzag(sum(chunk.uncompressed_bytes for chunk in group.chunks))),
            (3, I64, zigzag(group.row_count)),
            (5, I64, zigzag(group.start)),
            (6, I64, zigzag(group.size_bytes)),
            # The field is a 16-bit number; past those it is left out, as it may be.
            *([(7, I16, zigzag(ordinal))] if ordinal <= _LARGEST_ORDINAL else []),
        )
    )


def _empty_footer(schema: pa.Schema) -> ParquetFooter:
    """The footer of a file without rows, as pyarrow writes it: the schema's elements.

    Made for each file: to a cache, schemas that differ in nothing but their field ids would be the same.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_schema=False, store_decimal_as_integer=True):
        pass
    data = sink.getvalue().to_pybytes()
    size = int.from_bytes(data[-TRAILER_BYTES : -len(MAGIC)], "little")
    return ParquetFooter.parse(data[-TRAILER_BYTES - size : -TRAILER_BYTES], file="a file without rows")


def _leaves_of(footer: ParquetFooter, schema: pa.Schema) -> Iterator[Leaf]:
    elements = [
        ThriftTape.read(np.frombuffer(element, np.uint8), file=footer.file, what="schema").unpack(0)
        for element in footer.schema
    ]
    primitives = (element for element in elements if _TYPE in element)
    for (_, field), column, element in zip(leaves(schema), footer.columns, primitives, strict=True):
        yield Leaf(
            path=column.path,
            kind=field.type,
            physical=element[_TYPE],
            size=element.get(_TYPE_LENGTH, 0),
            deepest_definition=column.definition_level,
            deepest_repetition=column.repetition_level,
        )
