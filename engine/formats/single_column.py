"""The one column of the formats whose whole value is one string of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.codec import Columns, column_of, struct_of
from engine.records.records import NULL_LENGTH, ByteSpans


def fill_column(fields: Sequence[pa.Field], filled: pa.Field, column: pa.Array) -> pa.StructArray:
    """A struct of all ``fields`` where only ``filled`` has values and every other column is null."""
    children = [column if field.name == filled.name else pa.nulls(len(column), field.type) for field in fields]
    return struct_of(children, fields, len(column))


def spans_of_wanted(columns: Columns, field: pa.Field, wanted: NDArray[np.bool_]) -> ByteSpans:
    """The strings of the wanted rows, null elsewhere. Raises Corrupt for a wanted row that is null or damaged."""
    column = column_of(columns, field.name)
    if column is None:
        column = pa.nulls(len(wanted), field.type)
    spans = checked_spans(column, field.name, wanted)
    if bool((wanted & (spans.length == NULL_LENGTH)).any()):
        row = int(np.flatnonzero(wanted & (spans.length == NULL_LENGTH))[0])
        raise Corrupt(f"the column {field.name} is null in row {row}, whose value is not")
    return spans


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
