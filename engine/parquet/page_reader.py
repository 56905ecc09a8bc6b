"""Rows of a Parquet file decoded by page, through a reader that knows whole files only.

pyarrow writes page indexes but can't read by page. Where the pages of all columns break at the same rows, any run of
pages is a row group in itself: the dictionaries and the wanted pages, with a footer written for them, are a
small Parquet file that pyarrow decodes as usual. Where pages don't align, the small file is the whole row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet.footer import MAGIC, ByteRange, ColumnChunk, ParquetFooter, RowGroup
from engine.parquet.page_index import PageLayout
from engine.parquet.ranged_file import RangedFile
from engine.parquet.thrift import I32, I64, LIST, STRUCT, ThriftStruct, ThriftTape, listed, struct, zigzag

WHOLE_GROUP_BYTES = 4 << 20
"""A remote row group up to this size is fetched whole even for a single read: one request costs less than ten."""

DICTIONARY_ROWS = 32 * 1024
"""Strings stay dictionary-encoded in reads of at least this many rows: pyarrow hashes the whole dictionary a read."""

SMALL_DICTIONARY_BYTES = 64 * 1024
"""And only where the dictionary is at most so large in the file: a larger one saves its reader nothing, and looking
every string up in it costs the encoder more than strings that lie one after the other."""

_PAGE_HEADER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """Rows ``first_row <= row < end_row`` of a row group that can be decoded by themselves."""

    first_row: int
    end_row: int
    first_page: int
    end_page: int

    @property
    def row_count(self) -> int:
        return self.end_row - self.first_row


def whole_group(group: RowGroup, layout: PageLayout | None) -> PageRun:
    """All rows of a row group."""
    pages = 0 if layout is None else layout.page_count
    return PageRun(first_row=0, end_row=group.row_count, first_page=0, end_page=pages)


def read_rows(
    source: RangedFile,
    footer: ParquetFooter,
    group: RowGroup,
    layout: PageLayout | None,
    run: PageRun,
    *,
    is_sequential: bool = False,
    unread: frozenset[str] = frozenset(),
    is_plain: bool = False,
    whole_bytes: int = WHOLE_GROUP_BYTES,
) -> pa.Table:
    """Decode ``run`` of ``group``; columns that the statistics prove to be null in all rows are left out.

    ``layout`` None: pages don't align, and ``run`` must be the whole row group. ``is_sequential`` fetches a remote row
    group whole whatever its size, because the rest is wanted next. ``unread`` top-level columns are left out.
    ``is_plain``: no strings stay dictionary-encoded, so that rows of several row groups have the same types.
    ``whole_bytes``: a remote row group up to this size is fetched whole, however little of it is wanted. Raises
    Corrupt (bytes that don't decode, a page checksum that doesn't match, another number of rows than promised),
    Unavailable.
    """
    chunks = [(at, chunk) for at, chunk in group.readable() if chunk.column.top not in unread]
    parts = [_parts_of(chunk, layout, at, run) for at, chunk in chunks]
    flat = [part for ranges in parts for part in ranges]
    data = group.data
    is_whole = sum(part.size for part in flat) * 2 > data.size or data.size <= whole_bytes or is_sequential
    kept = source.is_remote and (is_whole or source.is_kept(data))
    content = source.read_kept(data, flat) if kept else source.read(flat)
    small = _small_file(footer, [chunk for _, chunk in chunks], parts, content, run, source.file)
    dictionaries = [
        ".".join(chunk.column.path)
        for _, chunk in chunks
        if not is_plain and run.row_count >= DICTIONARY_ROWS and _has_small_dictionary(chunk)
    ]
    return _decode(small, run, dictionaries, source.file)


def decoded_groups(content: bytes | memoryview, file: str) -> Iterator[pa.Table]:
    """The row groups of a whole file, in plain columns. Raises Corrupt where they don't decode."""
    try:
        with pq.ParquetFile(pa.BufferReader(content), pre_buffer=False, page_checksum_verification=True) as reader:
            for index in range(reader.num_row_groups):
                yield reader.read_row_group(index, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"its rows do not decode: {error}", file=file) from error


def _parts_of(chunk: ColumnChunk, layout: PageLayout | None, at: int, run: PageRun) -> tuple[ByteRange, ...]:
    """The byte ranges a chunk of the small file is made of: its dictionary, where it has one, and its pages."""
    if layout is None:
        return (chunk.data,)
    starts = layout.page_start[at]
    first, end = int(starts[run.first_page]), int(starts[run.end_page])
    pages = ByteRange(start=first, size=end - first)
    before = int(starts[0]) - chunk.data.start
    return (ByteRange(start=chunk.data.start, size=before), pages) if before else (pages,)


def _small_file(
    footer: ParquetFooter,
    chunks: Sequence[ColumnChunk],
    parts: Sequence[Sequence[ByteRange]],
    content: Sequence[memoryview],
    run: PageRun,
    file: str,
) -> bytes:
    pieces: list[bytes | memoryview] = [MAGIC]
    at = len(MAGIC)
    pieces_left = iter(content)
    columns = []
    for chunk, ranges in zip(chunks, parts, strict=True):
        start = at
        views = [next(pieces_left) for _ in ranges]
        pieces.extend(views)
        at += sum(len(view) for view in views)
        whole = len(views) == 1 and len(views[0]) == chunk.data.size
        dictionary = start if chunk.has_dictionary else None
        pages = start + (chunk.first_page_start - chunk.data.start if whole else sum(len(v) for v in views[:-1]))
        values = run.row_count
        if chunk.column.repeated:
            values = chunk.value_count if whole else _value_count(views[-1], file)
        columns.append(_chunk_metadata(chunk, start, at - start, pages, dictionary, values))
    row_group = struct(((1, LIST, listed(STRUCT, columns)), (2, I64, zigzag(at)), (3, I64, zigzag(run.row_count))))
    file_metadata = struct(
        (
            (1, I32, zigzag(2)),
            (2, LIST, listed(STRUCT, _schema_of(footer, chunks))),
            (3, I64, zigzag(run.row_count)),
            (4, LIST, listed(STRUCT, [row_group])),
        )
    )
    return b"".join([*pieces, file_metadata, len(file_metadata).to_bytes(4, "little"), MAGIC])


def _chunk_metadata(
    chunk: ColumnChunk, start: int, size: int, pages: int, dictionary: int | None, values: int
) -> bytes:
    rest = [(5, I64, zigzag(values)), (6, I64, zigzag(chunk.uncompressed_bytes)), (7, I64, zigzag(size))]
    rest.append((9, I64, zigzag(pages)))
    if dictionary is not None:
        rest.append((11, I64, zigzag(dictionary)))
    metadata = chunk.head + struct(rest, after=4)
    return struct(((2, I64, zigzag(start)), (3, STRUCT, metadata)))


def _schema_of(footer: ParquetFooter, chunks: Sequence[ColumnChunk]) -> list[bytes]:
    """The schema's elements without the top-level columns that are left out."""
    kept = {chunk.column.top for chunk in chunks}
    elements: list[bytes] = []
    at = 1
    for name, count in footer.top_levels:
        if name in kept:
            elements.extend(footer.schema[at : at + count])
        at += count
    return [footer.root_element(len(kept)), *elements]


def _value_count(pages: memoryview, file: str) -> int:
    """Values of a repeated column in some pages: more, or fewer, than rows, and said in the page headers only."""
    data = np.frombuffer(pages, np.uint8)
    at = values = 0
    while at < len(data):
        header, size = _page_header(data, at, file)
        # DataPageHeader (field 5) or DataPageHeaderV2 (field 8), each with its number of values first.
        page = header.get(5) or header.get(8)
        if not page or 1 not in page or header.get(3, -1) < 0:
            raise Corrupt("a page's header is damaged", file=file)
        values += int(page[1])
        at += size + int(header[3])
    return values


def _page_header(data: NDArray[np.uint8], at: int, file: str) -> tuple[ThriftStruct, int]:
    """(the header at byte ``at``, its size). Most are below 100 bytes; one with long bounds in it can be any size."""
    near = data[at : at + _PAGE_HEADER_BYTES]
    try:
        tape = ThriftTape.read(near, file=file, what="page header")
    except Corrupt:
        tape = ThriftTape.read(data[at:], file=file, what="page header")
    header: ThriftStruct = tape.unpack(0)
    return header, tape.end_byte


def _has_small_dictionary(chunk: ColumnChunk) -> bool:
    if not chunk.is_byte_array or chunk.dictionary_start is None:
        return False
    return chunk.first_page_start - chunk.dictionary_start <= SMALL_DICTIONARY_BYTES


def _decode(small: bytes, run: PageRun, dictionaries: list[str], file: str) -> pa.Table:
    try:
        reader = pq.ParquetFile(
            pa.BufferReader(small),
            read_dictionary=dictionaries,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        table = reader.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(
            f"rows {run.first_row} to {run.end_row} of a row group do not decode: {error}", file=file
        ) from error
    if table.num_rows != run.row_count:
        raise Corrupt(f"a row group holds {table.num_rows} rows where {run.row_count} belong", file=file)
    return table
