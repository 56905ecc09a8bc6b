"""Writes one table file: row groups of 64k rows, pages aligned across columns, statistics for the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.table.bounds import NO_BOUNDS, Bounds, bounds_of
from engine.table.columns import field_id, leaves
from engine.table.data_file import ColumnStats, FileDescription, FileFooter
from engine.table.parquet_chunk import ChunkStatistics
from engine.table.parquet_file import ParquetFile
from engine.table.parquet_settings import ROW_GROUP_ROWS, ParquetSettings
from engine.table.warehouse import Warehouse

ROW_GROUP_BYTES = 128 << 20
"""A row group ends early at about this many bytes in memory, so that 20 MB records don't pile up 64k high."""


class ParquetFileWriter:
    """One file in the making. Use as a context manager: leaving it without ``finish`` leaves no file behind.

    ``schema`` carries field ids at every level (columns.arrow_schema). Memory: one row group.
    """

    def __init__(self, warehouse: Warehouse, *, path: str, schema: pa.Schema, settings: ParquetSettings) -> None:
        self._leaves = tuple(field for _, field in leaves(schema))
        self._group_rows = 0
        self._group_bytes = 0
        self._row_count = 0
        self._file = warehouse.create(path)
        reach(FaultPoint.DATA_FILE_OPENED)
        try:
            self._parquet = ParquetFile(self._file.write, schema, settings)
        except BaseException:
            self._file.abort()
            raise

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows behind those written so far. The batch's memory may be reused as soon as this returns."""
        for piece in _pieces(rows):
            at = 0
            while at < piece.num_rows:
                part = piece.slice(at, ROW_GROUP_ROWS - self._group_rows)
                at += part.num_rows
                self._parquet.append(part)
                self._group_rows += part.num_rows
                self._group_bytes += part.nbytes
                if self._group_rows == ROW_GROUP_ROWS or self._group_bytes >= ROW_GROUP_BYTES:
                    self._end_row_group()

    def finish(self, footer: FileFooter, *, leader_epoch: int, raw_rows: int, error_rows: int) -> FileDescription:
        """Write what is left and the footer, and make the file appear under its name, durable.

        Raises Invalid when ``footer`` counts other rows than were written, Unavailable when the warehouse fails.
        """
        self._end_row_group()
        if footer.record_count != self._row_count or self._row_count == 0:
            raise Invalid(
                f"{self._row_count} rows were written for {footer.record_count} records",
                topic=footer.topic,
                partition=footer.partition,
                file=self._file.path,
            )
        footer_checksum = self._parquet.finish(footer.to_key_values())
        reach(FaultPoint.DATA_FILE_WRITTEN)
        self._file.commit()
        reach(FaultPoint.DATA_FILE_DURABLE)
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
            columns={
                field_id(leaf): _stats_of(leaf.type, groups)
                for leaf, groups in zip(self._leaves, self._parquet.statistics, strict=True)
            },
            split_offsets=tuple(self._parquet.row_group_starts),
        )

    def abort(self) -> None:
        """Drop the file. May be called after anything; after ``finish`` it does nothing."""
        self._file.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()

    def _end_row_group(self) -> None:
        self._parquet.end_row_group()
        self._row_count += self._group_rows
        self._group_rows = 0
        self._group_bytes = 0


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of at most a row group's bytes, or of one row."""
    if rows.num_rows <= 1 or rows.nbytes <= ROW_GROUP_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _pieces(rows.slice(0, half))
    yield from _pieces(rows.slice(half))


def _stats_of(kind: pa.DataType, groups: list[ChunkStatistics]) -> ColumnStats:
    bounds = _bounds(kind, groups)
    return ColumnStats(
        size_bytes=sum(group.size_bytes for group in groups),
        value_count=sum(group.value_count for group in groups),
        null_count=sum(group.null_count for group in groups),
        nan_count=sum(group.nan_count for group in groups) if pa.types.is_floating(kind) else None,
        lower=bounds.lower,
        upper=bounds.upper,
    )


def _bounds(kind: pa.DataType, groups: list[ChunkStatistics]) -> Bounds:
    """Bounds over all row groups; none when a row group with values has none (all NaN, or too long for statistics)."""
    with_values = [group.extremes for group in groups if group.null_count < group.value_count]
    found = [extremes for extremes in with_values if extremes is not None]
    if not found or len(found) < len(with_values):
        return NO_BOUNDS
    return bounds_of(kind, min(least for least, _ in found), max(greatest for _, greatest in found))
