"""Writes one table file: row groups of 64k rows, pages aligned across columns, statistics for the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.parquet.bounds import NO_BOUNDS, Bounds, bounds_of, comparable
from engine.parquet.checksums import ChecksummedFile
from engine.parquet.leaves import field_id, leaves
from engine.parquet.settings import ROW_GROUP_ROWS, ParquetSettings
from engine.table.data_file import ColumnStats, FileDescription, FileFooter
from engine.warehouse.warehouse import Warehouse

ROW_GROUP_BYTES = 128 << 20
"""A row group ends early at about this many bytes in memory, so that 20 MB records don't pile up 64k high."""

WRITE_BUFFER_BYTES = 1 << 20
"""The library writes page by page, about a thousand times a row group."""

_OWN_MEMORY = pa.default_cpu_memory_manager()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    index: int
    id: int
    kind: pa.DataType


class ParquetFileWriter:
    """One file in the making. Use as a context manager: leaving it without ``finish`` leaves no file behind.

    ``schema`` carries field ids at every level (columns.arrow_schema). Memory: one row group.
    """

    def __init__(self, warehouse: Warehouse, *, path: str, schema: pa.Schema, settings: ParquetSettings) -> None:
        self._schema = schema
        self._leaves = [
            _Leaf(index=index, id=field_id(field), kind=field.type) for index, (_, field) in enumerate(leaves(schema))
        ]
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

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows after those written so far. The batch's memory may be reused as soon as this returns."""
        for piece in _pieces(rows.copy_to(_OWN_MEMORY)):
            at = 0
            while at < piece.num_rows:
                part = piece.slice(at, ROW_GROUP_ROWS - self._pending_rows)
                at += part.num_rows
                self._pending.append(part)
                self._pending_rows += part.num_rows
                self._pending_bytes += part.nbytes
                if self._pending_rows == ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
                    self._write_row_group()

    def finish(self, footer: FileFooter, *, leader_epoch: int, raw_rows: int, error_rows: int) -> FileDescription:
        """Write what is left and the footer, and make the file appear under its name, durable.

        Raises Invalid when ``footer`` counts other rows than were written, Unavailable when the warehouse fails.
        """
        self._write_row_group()
        if footer.record_count != self._row_count or self._row_count == 0:
            raise Invalid(
                f"{self._row_count} rows were written for {footer.record_count} records",
                topic=footer.topic,
                partition=footer.partition,
                file=self._file.path,
            )
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

    def _write_row_group(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        for name in self._float_columns:
            for chunk in table.column(name).chunks:
                _count_nans(chunk, self._schema.field(name), self._nans)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._sink.flush()
        self._checked.end_row_group()
        self._row_count += table.num_rows
        self._pending.clear()
        self._pending_rows = 0
        self._pending_bytes = 0

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
    chunks = [group.column(leaf.index) for group in groups]
    statistics = [chunk.statistics for chunk in chunks]
    null_count = None
    if all(found is not None and found.has_null_count for found in statistics):
        null_count = sum(found.null_count for found in statistics)
    bounds = _bounds(leaf, chunks, null_count)
    return ColumnStats(
        size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        value_count=sum(chunk.num_values for chunk in chunks),
        null_count=null_count,
        nan_count=nan_count,
        lower=bounds.lower,
        upper=bounds.upper,
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
