"""Arrow columns as codecs hand them out and take them in: in one piece, in the order of the fields, a row a value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.codec import Columns, FieldProposal
from engine.records.records import NULL_LENGTH, ByteSpans


def struct_of(columns: Sequence[pa.Array], fields: Sequence[pa.Field], row_count: int) -> pa.StructArray:
    """A struct array that is never null itself; correct for zero fields too, where the length is all there is."""
    return pa.Array.from_buffers(pa.struct(list(fields)), row_count, [None], 0, children=list(columns))


def column_of(columns: Columns, name: str) -> pa.Array | None:
    """One column in one piece, or None where there is none. Raises Corrupt when it can't be held in one array."""
    if isinstance(columns, pa.StructArray):
        index = columns.type.get_field_index(name)
        return columns.field(index) if index >= 0 else None
    column = columns.get(name)
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            raise Corrupt(f"the column {name} is too large for one Arrow array", next_step="read fewer rows at a time")
    return column


def columns_of(columns: Columns, fields: Sequence[pa.Field], row_count: int) -> list[pa.Array]:
    """The column of each field in one piece, all null where there is none."""
    held = ((column_of(columns, field.name), field) for field in fields)
    return [pa.nulls(row_count, field.type) if column is None else column for column, field in held]


def rows_in_order(
    parts: Sequence[tuple[NDArray[np.intp], pa.StructArray]], fields: Sequence[pa.Field], row_count: int
) -> pa.StructArray:
    """Parts, each with its rows' rising places in the block, as one block; what lies in no part is null."""
    if len(parts) == 1 and len(parts[0][0]) == row_count:
        return parts[0][1]
    whole = [struct_of([pa.nulls(1, field.type) for field in fields], fields, 1)]  # row 0 stands for what is in no part
    place, at = np.zeros(row_count, np.int64), 1
    for rows, part in parts:
        whole.append(part)
        place[rows] = np.arange(at, at + len(part))
        at += len(part)
    children = [
        pa.concat_arrays([part.field(index) for part in whole]).take(pa.array(place)) for index in range(len(fields))
    ]
    return struct_of(children, fields, row_count)


def add_fields(existing: Sequence[pa.Field], *wanted: pa.Field) -> FieldProposal:
    """The proposal of a format that always fills the same columns."""
    present = {field.name: field.type for field in existing}
    conflicts = tuple(
        f"field {field.name}: the table has {present[field.name]}, the format needs {field.type}"
        for field in wanted
        if present.get(field.name, field.type) != field.type
    )
    added = (field for field in wanted if field.name not in present)
    return FieldProposal(fields=(*existing, *added), conflicts=conflicts)


def checked_spans(column: pa.Array, name: str, wanted: NDArray[np.bool_]) -> ByteSpans:
    """The strings of the wanted rows, null elsewhere. Raises Corrupt for a damaged column."""
    spans = ByteSpans.from_arrow(column)
    if len(spans) != len(wanted):
        raise Corrupt(f"the column {name} has {len(spans)} rows, {len(wanted)} were asked about")
    end = spans.start + np.maximum(spans.length, 0)
    if len(spans) and bool(((spans.length < NULL_LENGTH) | (spans.start < 0) | (end > len(spans.data))).any()):
        raise Corrupt(f"the column {name} has offsets that leave its data")
    length = np.where(wanted, spans.length, np.int32(NULL_LENGTH)).astype(np.int32)
    return ByteSpans(data=spans.data, start=spans.start, length=length)
