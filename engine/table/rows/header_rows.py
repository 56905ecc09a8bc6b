"""Record headers to the columns ``kafka_headers`` and ``kafka_headers_raw`` and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.records.records import ByteSpans, Headers
from engine.records.utf8_rows import rows_not_utf8
from engine.table.columns import HEADERS_TYPE
from engine.table.rows.header_kernels import decode_header_sections, encode_header_sections


def header_columns(headers: Headers | None, count: int) -> tuple[pa.Array, pa.Array]:
    """(list column, raw column) of ``count`` records.

    A record without headers is null in both. One with a key that is not UTF-8 is null in the list and has its whole
    header section in the raw column: order and duplicates would not survive a split.
    """
    no_raw = pa.nulls(count, pa.binary())
    if headers is None or headers.first[0] == headers.first[-1]:
        return pa.nulls(count, HEADERS_TYPE), no_raw
    base = int(headers.first[0])
    used = slice(base, int(headers.first[-1]))
    headers = Headers(first=headers.first - base, key=headers.key.select(used), value=headers.value.select(used))
    unfit = rows_not_utf8(headers.key)
    if not bool(unfit.any()):
        return _list_column(headers), no_raw
    before = np.zeros(len(unfit) + 1, np.int64)
    np.cumsum(unfit, out=before[1:])
    kept_raw = before[headers.first[1:]] > before[headers.first[:-1]]
    raw = encode_header_sections(headers, kept_raw).to_arrow()
    return _list_column(_without(headers, kept_raw)), raw


def headers_from_columns(listed: pa.Array | None, raw: pa.Array | None, count: int) -> Headers | None:
    """The headers of ``count`` records. Raises Corrupt where the raw column holds no header section."""
    from_list = None if listed is None or listed.null_count == count else _from_list(listed)
    if raw is None or raw.null_count == count:
        return from_list
    from_raw = decode_header_sections(ByteSpans.from_arrow(raw))
    return from_raw if from_list is None else _merge(from_list, from_raw)


def _list_column(headers: Headers) -> pa.Array:
    count = len(headers.first) - 1
    sizes = np.diff(headers.first)
    keys, values = headers.key.to_arrow(), headers.value.to_arrow()
    if keys.type != pa.binary() or values.type != pa.binary():
        raise Invalid("the headers of a block pass 2 GiB", next_step="turn fewer records at a time into rows")
    element = HEADERS_TYPE.value_type
    key_text = pa.Array.from_buffers(pa.string(), len(keys), keys.buffers(), 0)
    pairs = pa.Array.from_buffers(element, len(keys), [None], 0, children=[key_text, values])
    validity = pa.py_buffer(np.packbits(sizes > 0, bitorder="little"))
    offsets = pa.py_buffer(headers.first.astype(np.int32))
    null_count = int(np.count_nonzero(sizes == 0))
    return pa.Array.from_buffers(HEADERS_TYPE, count, [validity, offsets], null_count, children=[pairs])


def _without(headers: Headers, dropped: NDArray[np.bool_]) -> Headers:
    sizes = np.diff(headers.first)
    stays = np.repeat(~dropped, sizes)
    first = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.where(dropped, 0, sizes), out=first[1:])
    return Headers(first=first, key=headers.key.select(stays), value=headers.value.select(stays))


def _from_list(listed: pa.Array) -> Headers:
    sizes = listed.value_lengths().fill_null(0).to_numpy()
    first = np.zeros(len(listed) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    pairs = listed.flatten()
    keys, values = pairs.field("key"), pairs.field("value")
    if keys.null_count or pairs.null_count:
        raise Corrupt("a record header has no key")
    return Headers(first=first, key=ByteSpans.from_arrow(keys), value=ByteSpans.from_arrow(values))


def _merge(left: Headers, right: Headers) -> Headers:
    """The headers of records of which each has some on one side only."""
    left_sizes, right_sizes = np.diff(left.first), np.diff(right.first)
    if bool(((left_sizes > 0) & (right_sizes > 0)).any()):
        raise Corrupt("a record has its headers twice, listed and raw")
    first = left.first + right.first
    left_at = np.arange(left.first[-1]) + np.repeat(first[:-1] - left.first[:-1], left_sizes)
    right_at = np.arange(right.first[-1]) + np.repeat(first[:-1] - right.first[:-1], right_sizes)
    return Headers(
        first=first,
        key=_interleave(left.key, left_at, right.key, right_at),
        value=_interleave(left.value, left_at, right.value, right_at),
    )


def _interleave(
    left: ByteSpans, left_at: NDArray[np.int64], right: ByteSpans, right_at: NDArray[np.int64]
) -> ByteSpans:
    start = np.empty(len(left) + len(right), np.int64)
    length = np.empty(len(start), np.int32)
    start[left_at], length[left_at] = left.start, left.length
    start[right_at], length[right_at] = right.start + len(left.data), right.length
    return ByteSpans(data=np.concatenate([left.data, right.data]), start=start, length=length)
