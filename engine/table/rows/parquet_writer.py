"""Writes one table file: row groups of 64k rows, pages aligned across columns, statistics for the manifest.

In stream order a row group is written as soon as its rows are there; clustered, a window of several is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.parquet.checksums import ChecksummedFile
from engine.parquet.leaves import field_id, leaves
from engine.parquet.row_counts import ROW_GROUP_ROWS
from engine.parquet.settings import ParquetSettings
from engine.table.data_file import ColumnStats, FileDescription, FileFooter
from engine.table.rows.window_rows import row_groups_of
from engine.table.windows import Clustering, FileWindows
from engine.warehouse.warehouse import Warehouse

ROW_GROUP_BYTES = 128 << 20
"""A row group ends early at about this many bytes in memory, so that 20 MB records don't pile up 64k high."""

WINDOW_BYTES = 512 << 20
"""And a window, which whoever reads all of it holds in memory."""

WRITE_BUFFER_BYTES = 1 << 20
"""The library writes page by page, about a thousand times a row group."""

TRUNCATED_LENGTH = 16
"""Characters of a string, bytes of a binary, that a bound keeps: Iceberg's default metrics mode ``truncate(16)``."""

_HIGHEST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_OWN_MEMORY = pa.default_cpu_memory_manager()


class Bounds(NamedTuple):
    """A column's bounds by Iceberg's single-value serialization (spec, Appendix D); None where there is none."""

    lower: bytes | None = None
    upper: bytes | None = None


NO_BOUNDS = Bounds()


class _Leaf(NamedTuple):
    position: int
    id: int
    kind: pa.DataType


class ParquetFileWriter:
    """One file in the making. Use as a context manager: leaving it without ``finish`` leaves no file behind.

    ``schema`` carries field ids at every level (columns.arrow_schema). Rows come in offset order; with ``clustering``
    they are written in bucketed windows (raises Invalid where the schema can't be clustered so). Memory: one row
    group, or one window twice and a row group.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        *,
        path: str,
        schema: pa.Schema,
        settings: ParquetSettings,
        clustering: Clustering | None = None,
    ) -> None:
        if clustering is not None:
            clustering.check(schema)
        self._schema = schema
        self._clustering = clustering
        self._most_rows = ROW_GROUP_ROWS if clustering is None else clustering.window_rows
        self._most_bytes = ROW_GROUP_BYTES if clustering is None else WINDOW_BYTES
        self._first_groups: list[int] = []
        self._group_count = 0
        self._leaves = [_Leaf(at, field_id(leaf), leaf.type) for at, (_, leaf) in enumerate(leaves(schema))]
        self._nans = {leaf.id: 0 for leaf in self._leaves if pa.types.is_floating(leaf.kind)}
        self._float_columns = [field.name for field in schema if _has_float(field.type)]
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._row_count = 0
        self._metadata: list[Any] = []
        self._file = warehouse.create(path)
        reach(FaultPoint.DATA_FILE_OPENED)
        self._checked = ChecksummedFile(self._file.write)
        self._sink = pa.BufferedOutputStream(pa.PythonFile(self._checked, mode="w"), WRITE_BUFFER_BYTES)
        try:
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                metadata_collector=self._metadata,
                **settings.writer_options(schema),
            )
        except BaseException:
            self._checked.drop()
            self._file.abort()
            raise

    def write(self, rows: pa.RecordBatch, *, is_lent: bool = True) -> None:
        """Add rows after those written so far. ``is_lent``: the batch's memory may be reused when this has returned."""
        for piece in _pieces(rows.copy_to(_OWN_MEMORY) if is_lent else rows):
            at = 0
            while at < piece.num_rows:
                part = piece.slice(at, self._most_rows - self._pending_rows)
                at += part.num_rows
                self._pending.append(part)
                self._pending_rows += part.num_rows
                self._pending_bytes += part.nbytes
                if self._pending_rows == self._most_rows or self._pending_bytes >= self._most_bytes:
                    self._write_pending()

    def finish(
        self, footer: FileFooter, *, leader_epoch: int, raw_rows: int, error_rows: int, begun_at: int = 0
    ) -> FileDescription:
        """Write what is left and the footer, and make the file appear under its name, durable.

        Raises Invalid when ``footer`` counts other rows than were written, Unavailable when the warehouse fails.
        """
        self._write_pending()
        if footer.record_count != self._row_count or self._row_count == 0:
            raise Invalid(
                f"{self._row_count} rows were written for {footer.record_count} records",
                topic=footer.topic,
                partition=footer.partition,
                file=self._file.path,
            )
        if self._clustering is not None:
            windows = FileWindows(clustering=self._clustering, first_groups=tuple(self._first_groups))
            footer = replace(footer, windows=windows)
        self._writer.add_key_value_metadata({**footer.to_key_values(), **self._checked.key_value()})
        self._writer.close()
        self._sink.close()
        footer_checksum = self._checked.finish()
        reach(FaultPoint.DATA_FILE_WRITTEN)
        self._file.commit()
        reach(FaultPoint.DATA_FILE_DURABLE)
        metadata = self._metadata[0]
        return FileDescription(
            path=self._file.path,
            topic=footer.topic,
            topic_id=footer.topic_id,
            partition=footer.partition,
            range=footer.range,
            leader_epoch=leader_epoch,
            record_count=self._row_count,
            size_bytes=self._file.size_bytes,
            checksum=self._file.checksum,
            footer_checksum=footer_checksum,
            digest=footer.digest,
            schema_ids=footer.schema_ids,
            raw_rows=raw_rows,
            error_rows=error_rows,
            columns=self._column_stats(metadata),
            split_offsets=tuple(_row_group_start(metadata.row_group(i)) for i in range(metadata.num_row_groups)),
            clustering=self._clustering,
            begun_at=begun_at,
        )

    def abort(self) -> None:
        """Drop the file. May be called after anything; after ``finish`` it does nothing."""
        self._pending.clear()
        self._checked.drop()
        self._file.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending.clear()
        self._pending_rows = 0
        self._pending_bytes = 0
        for name in self._float_columns:
            for chunk in table.column(name).chunks:
                _count_nans(chunk, self._schema.field(name), self._nans)
        self._row_count += table.num_rows
        self._first_groups.append(self._group_count)
        for group in self._row_groups(table):
            self._writer.write_table(group, row_group_size=group.num_rows)
            self._sink.flush()
            self._group_count += 1

    def _row_groups(self, table: pa.Table) -> Iterable[pa.Table]:
        if self._clustering is None:
            return [table]
        count = max(-(-table.num_rows // ROW_GROUP_ROWS), -(-table.nbytes // ROW_GROUP_BYTES))
        return row_groups_of(table, self._clustering.columns, min(count, table.num_rows))

    def _column_stats(self, metadata: Any) -> dict[int, ColumnStats]:
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        return {leaf.id: _stats_of(leaf, groups, self._nans.get(leaf.id)) for leaf in self._leaves}


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of at most a row group's bytes, or of one row."""
    if rows.num_rows <= 1 or rows.nbytes <= ROW_GROUP_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _pieces(rows.slice(0, half))
    yield from _pieces(rows.slice(half))


def _has_float(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_has_float(kind.field(i).type) for i in range(kind.num_fields))


def _count_nans(array: pa.Array, field: pa.Field, counts: dict[int, int]) -> None:
    """Add the NaNs of every float leaf below ``array`` to ``counts``, by field id."""
    kind = field.type
    if pa.types.is_floating(kind):
        counts[field_id(field)] += pc.sum(pc.is_nan(array), min_count=0).as_py()
    elif pa.types.is_struct(kind):
        for child, values in zip(kind, array.flatten(), strict=True):
            _count_nans(values, child, counts)
    elif pa.types.is_list(kind):
        _count_nans(array.flatten(), kind.value_field, counts)
    elif pa.types.is_map(kind):
        _count_nans(array.keys, kind.key_field, counts)
        _count_nans(array.items, kind.item_field, counts)


def _row_group_start(group: Any) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def _stats_of(leaf: _Leaf, groups: list[Any], nan_count: int | None) -> ColumnStats:
    chunks = [group.column(leaf.position) for group in groups]
    statistics = [chunk.statistics for chunk in chunks]
    null_count = None
    if all(found is not None and found.has_null_count for found in statistics):
        null_count = sum(found.null_count for found in statistics)
    lower, upper = _bounds(leaf, chunks, null_count)
    return ColumnStats(
        size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        value_count=sum(chunk.num_values for chunk in chunks),
        null_count=null_count,
        nan_count=nan_count,
        lower=lower,
        upper=upper,
    )


def _bounds(leaf: _Leaf, chunks: list[Any], null_count: int | None) -> Bounds:
    """Bounds over all row groups; none when a row group with values has none (a value too long for statistics)."""
    least: list[Any] = []
    greatest: list[Any] = []
    for chunk in chunks:
        found = chunk.statistics
        if found is None or null_count is None:
            return NO_BOUNDS
        if found.has_min_max:
            least.append(comparable(leaf.kind, found.min_raw))
            greatest.append(comparable(leaf.kind, found.max_raw))
        elif found.null_count < chunk.num_values:
            return NO_BOUNDS
    if not least:
        return NO_BOUNDS
    return bounds_of(leaf.kind, min(least), max(greatest))


def bounds_of(kind: pa.DataType, least: Any, greatest: Any) -> Bounds:
    """Bounds from the least and greatest value of a leaf, as Parquet's statistics give them raw.

    UUIDs get none: readers disagree on whether they compare as signed or unsigned numbers, and a bound read the other
    way would prune rows that match.
    """
    if kind == pa.uuid():
        return NO_BOUNDS
    if pa.types.is_string(kind):
        return Bounds(least.decode()[:TRUNCATED_LENGTH].encode(), _upper_text(greatest))
    if pa.types.is_binary(kind) or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)):
        return Bounds(bytes(least[:TRUNCATED_LENGTH]), _upper_bytes(greatest))
    return Bounds(_serialize(kind, least), _serialize(kind, greatest))


def comparable(kind: pa.DataType, raw: Any) -> Any:
    """Parquet's raw statistic as a value that orders as the column does (decimals in byte arrays are big-endian)."""
    if pa.types.is_decimal(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if pa.types.is_string(kind) and isinstance(raw, str):
        return raw.encode()
    return raw


def _serialize(kind: pa.DataType, value: Any) -> bytes:
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_decimal(kind):
        # Two's complement, big-endian, as few bytes as hold the sign.
        return int(value).to_bytes((int(value) + (int(value) < 0)).bit_length() // 8 + 1, "big", signed=True)
    if pa.types.is_float32(kind):
        return struct.pack("<f", value)
    if pa.types.is_float64(kind):
        return struct.pack("<d", value)
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return struct.pack("<i", value)
    return struct.pack("<q", value)


def _upper_text(value: bytes) -> bytes | None:
    text = value.decode()
    if len(text) <= TRUNCATED_LENGTH:
        return value
    for length in range(TRUNCATED_LENGTH, 0, -1):
        following = ord(text[length - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _HIGHEST_CHARACTER:
            return (text[: length - 1] + chr(following)).encode()
    return None


def _upper_bytes(value: bytes) -> bytes | None:
    if len(value) <= TRUNCATED_LENGTH:
        return bytes(value)
    for length in range(TRUNCATED_LENGTH, 0, -1):
        if value[length - 1] < 0xFF:
            return bytes(value[: length - 1]) + bytes([value[length - 1] + 1])
    return None
