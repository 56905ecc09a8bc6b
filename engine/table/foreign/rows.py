"""Rows of files that another program wrote, as Floeberg's own columns: found by field id, under our names and types.

Such a file has any row groups and pages, its rows lie in any order, its columns may have other names, wider types or
larger offsets, and some of them are none of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.evolution.promotion import is_promotion, promoted
from engine.offset_range import OffsetRange
from engine.parquet.leaves import FIELD_ID_KEY
from engine.table.adopted_range import ForeignFile
from engine.table.columns import TableLayout
from engine.warehouse.warehouse import Warehouse

BATCH_ROWS = 32 * 1024
"""Rows decoded at once: bounds memory whatever row groups the other program chose."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignParquet:
    """An open file. ``columns`` pairs what the file has with what is ours, by field id."""

    file: pq.ParquetFile
    part: ForeignFile
    columns: tuple[tuple[pa.Field, pa.Field], ...]
    offset_column: str

    @property
    def group_count(self) -> int:
        return int(self.file.metadata.num_row_groups)

    def group_may_hold(self, group: int, wanted: OffsetRange) -> bool:
        """Whether a row group's statistics leave room for an offset of ``wanted``."""
        described = self.file.metadata.row_group(group)
        for index in range(described.num_columns):
            column = described.column(index)
            if column.path_in_schema == self.offset_column:
                found = column.statistics
                return found is None or not found.has_min_max or (found.min < wanted.end and found.max >= wanted.start)
        return True

    def offsets(self, group: int) -> NDArray[np.int64]:
        """The offsets of a row group's rows, in file order."""
        with _readable(self.part.path):
            column = self.file.read_row_group(group, columns=[self.offset_column], use_threads=False).column(0)
        offsets: NDArray[np.int64] = column.to_numpy()
        return offsets

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """A row group's rows as our columns, a bounded number at a time. Raises Corrupt."""
        names = [found.name for found, _ in self.columns]
        with _readable(self.part.path):
            for batch in self.file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names, use_threads=False):
                yield _as_ours(batch, self.columns)


@contextmanager
def open_foreign(
    warehouse: Warehouse, part: ForeignFile, schema: pa.Schema, layout: TableLayout
) -> Iterator[ForeignParquet]:
    """Open a file that another program wrote; ``schema`` has our columns with their ids.

    Raises Corrupt (missing, another size, no Parquet, a column that every row needs is not there), Unavailable.
    """
    with warehouse.open_input(part.path) as source, _readable(part.path):
        if source.size() != part.size_bytes:
            raise Corrupt(f"a file has {source.size()} bytes, the table says {part.size_bytes}", file=part.path)
        file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
        by_id = {_id_of(field): field for field in file.schema_arrow}
        columns = tuple((by_id[_id_of(field)], field) for field in schema if _id_of(field) in by_id)
        names = {ours.name: found.name for found, ours in columns}
        required = {field.name for field in layout.metadata_fields() if not field.nullable}
        if not required <= names.keys():
            raise Corrupt(f"a file lacks the columns {sorted(required - names.keys())}", file=part.path)
        yield ForeignParquet(file=file, part=part, columns=columns, offset_column=names[layout.offset])


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Corrupt(f"a file that another program wrote can't be read: {reason}", file=path) from error


def _id_of(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return found


def _as_ours(batch: pa.RecordBatch, columns: tuple[tuple[pa.Field, pa.Field], ...]) -> pa.RecordBatch:
    arrays = [_conformed(batch.column(found.name), found, ours) for found, ours in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[ours.name for _, ours in columns])


def _conformed(array: pa.Array, found: pa.Field, ours: pa.Field) -> pa.Array:
    if _is_same(found, ours):
        return array
    kind = ours.type
    if not pa.types.is_nested(kind):
        if isinstance(kind, pa.BaseExtensionType) and not isinstance(array.type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
        if isinstance(array.type, pa.BaseExtensionType) and not isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        if is_promotion(array.type, kind):
            return promoted(array, kind)
        # Safe: what does not fit is not a value that Floeberg wrote.
        return array.cast(kind)
    # A slice's buffers begin before its first row: taking its rows makes them begin there.
    array = array.take(pa.array(np.arange(len(array))))
    if pa.types.is_struct(kind) and pa.types.is_struct(found.type):
        children = _children(array, found.type, kind)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, children=children)
    if pa.types.is_list(kind) and (pa.types.is_list(found.type) or pa.types.is_large_list(found.type)):
        if pa.types.is_large_list(found.type):
            array = array.cast(pa.list_(found.type.value_field))
        values = _conformed(array.values, found.type.value_field, kind.value_field)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, children=[values])
    if pa.types.is_map(kind) and pa.types.is_map(found.type):
        entries = pa.StructArray.from_arrays(
            [
                _conformed(array.keys, found.type.key_field, kind.key_field),
                _conformed(array.items, found.type.item_field, kind.item_field),
            ],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, children=[entries])
    raise Invalid(f"the column {ours.name} is of type {found.type}, not {kind}")


def _children(array: pa.StructArray, found: pa.StructType, kind: pa.StructType) -> list[pa.Array]:
    at = {_id_of(found.field(index)): index for index in range(found.num_fields)}
    children = []
    for ours in kind:
        index = at.get(_id_of(ours))
        if index is None:
            children.append(pa.nulls(len(array), ours.type))
        else:
            children.append(_conformed(array.field(index), found.field(index), ours))
    return children


def _is_same(found: pa.Field, ours: pa.Field) -> bool:
    """Whether two columns agree in type and, at every level, in names and ids."""
    if found.type != ours.type or found.name != ours.name:
        return False
    kind, other = found.type, ours.type
    if pa.types.is_struct(kind):
        return all(
            _id_of(kind.field(index)) == _id_of(other.field(index)) and _is_same(kind.field(index), other.field(index))
            for index in range(kind.num_fields)
        )
    if pa.types.is_list(kind):
        return _is_same(kind.value_field, other.value_field)
    if pa.types.is_map(kind):
        return _is_same(kind.key_field, other.key_field) and _is_same(kind.item_field, other.item_field)
    return True
