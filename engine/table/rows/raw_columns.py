"""The columns that keep a record's own bytes, and how they stand over what a codec gives back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.records.records import NULL_LENGTH, ByteSpans


def binary_column(spans: ByteSpans) -> pa.Array:
    """All strings as a binary column. Raises Invalid over 2 GiB."""
    array = spans.to_arrow()
    if array.type != pa.binary():
        raise Invalid("one column of a block passes 2 GiB", next_step="turn fewer records at a time into rows")
    return array


def kept_bytes(spans: ByteSpans, keep: NDArray[np.bool_]) -> pa.Array:
    """The strings of the rows to keep as a binary column, null elsewhere."""
    if not bool(keep.any()):
        return pa.nulls(len(spans), pa.binary())
    length = np.where(keep, spans.length, np.int32(NULL_LENGTH))
    return binary_column(ByteSpans(data=spans.data, start=spans.start, length=length))


def rows_kept(raw: pa.Array | None, count: int) -> NDArray[np.bool_]:
    """bool[count]: which rows have bytes in a raw column, which may not be there."""
    if raw is None or raw.null_count == count:
        return np.zeros(count, np.bool_)
    kept: NDArray[np.bool_] = raw.is_valid().to_numpy(zero_copy_only=False)
    return kept


def with_raw(spans: ByteSpans, raw: pa.Array | None) -> ByteSpans:
    """Put the bytes of the raw column over the rows that have some."""
    if raw is None or raw.null_count == len(raw):
        return spans
    kept = spans_of(raw, len(raw))
    is_kept = kept.length != NULL_LENGTH
    return ByteSpans(
        data=np.concatenate([spans.data, kept.data]),
        start=np.where(is_kept, kept.start + len(spans.data), spans.start),
        length=np.where(is_kept, kept.length, spans.length),
    )


def spans_of(array: pa.Array | None, count: int) -> ByteSpans:
    """A column's strings; all null where there is no column."""
    if array is None:
        return ByteSpans.nulls(count)
    return ByteSpans.from_arrow(array)
