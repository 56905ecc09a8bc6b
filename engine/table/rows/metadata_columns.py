"""The columns of a table beside the value's: key, headers, why a row has no columns, and a record's own bytes.

With ``key = "string"`` or ``"raw"`` the column is the key. A typed key is a struct of its codec's fields: null for a
null key and for one that can't be decoded. What a typed column can't give back stands in the raw column beside it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.codec import NO_REASON, Decoded, ValueCodec, Verdict
from engine.formats.evolution.promotion import promoted
from engine.records.records import NULL_LENGTH, ByteSpans, Headers
from engine.table.columns import HEADERS_TYPE, TableLayout
from engine.table.rows.header_kernels import decode_header_sections, encode_header_sections


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


def key_columns(layout: TableLayout, keys: ByteSpans, decoded: Decoded | None) -> dict[str, pa.Array]:
    """The key's columns by name; ``decoded`` what the key's codec made of ``keys``, None where it has none.

    Without a field there is no struct to tell a key from none: all keys then keep their bytes.
    """
    if not layout.has_typed_key:
        return _plain_key_columns(layout, keys)
    if decoded is None or len(decoded) != len(keys):
        raise Invalid(f"{0 if decoded is None else len(decoded)} decoded keys were given for {len(keys)} records")
    columns = {}
    kept = decoded.verdict != Verdict.EXACT
    if decoded.columns.type.num_fields:
        columns[layout.key_column] = _nullable_struct(
            decoded.columns, (keys.length != NULL_LENGTH) & (decoded.verdict != Verdict.UNDECODABLE)
        )
    else:
        kept = keys.length != NULL_LENGTH
    columns[layout.key_raw] = kept_bytes(keys, kept)
    if layout.key_has_schemas:
        columns[layout.key_schema_id] = decoded.schema_id
    return columns


def keys_from_columns(
    layout: TableLayout, columns: dict[str, pa.Array], codec: ValueCodec | None, count: int
) -> ByteSpans:
    """The keys that ``key_columns`` was given. Raises Corrupt for columns that this program did not write."""
    key, raw = columns.get(layout.key_column), columns.get(layout.key_raw)
    if not layout.has_typed_key:
        return with_raw(spans_of(key, count), raw)
    if codec is None:
        raise Invalid(f"rows with {layout.key} keys are read with a codec for them")
    if key is None:
        return spans_of(raw, count)
    if not pa.types.is_struct(key.type):
        raise Corrupt(f"the column {layout.key_column} is of type {key.type}, not a struct")
    schema_id = columns.get(layout.key_schema_id)
    if schema_id is None:
        schema_id = pa.nulls(count, pa.int32())
    is_typed: NDArray[np.bool_] = key.is_valid().to_numpy(zero_copy_only=False)
    key = promoted(key, pa.struct(list(codec.fields)))
    return with_raw(codec.encode(key, schema_id, is_typed & ~rows_kept(raw, count)), raw)


def _plain_key_columns(layout: TableLayout, keys: ByteSpans) -> dict[str, pa.Array]:
    if layout.key == "raw":
        return {layout.key_column: binary_column(keys), layout.key_raw: pa.nulls(len(keys), pa.binary())}
    not_text = keys.is_not_utf8
    text = kept_bytes(keys, ~not_text) if bool(not_text.any()) else binary_column(keys)
    return {layout.key_column: _as_string(text), layout.key_raw: kept_bytes(keys, not_text)}


def _as_string(array: pa.Array) -> pa.Array:
    """The same bytes, known to be UTF-8, as text: no byte is copied or looked at again."""
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count, array.offset)


def _nullable_struct(columns: pa.StructArray, is_valid: NDArray[np.bool_]) -> pa.StructArray:
    children = [columns.field(index) for index in range(columns.type.num_fields)]
    null_count = len(is_valid) - int(np.count_nonzero(is_valid))
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if null_count else None
    return pa.Array.from_buffers(columns.type, len(is_valid), [validity], null_count, children=children)


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
    unfit = headers.key.is_not_utf8
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
    children = [_as_string(binary_column(headers.key)), binary_column(headers.value)]
    pairs = pa.Array.from_buffers(HEADERS_TYPE.value_type, len(headers.key), [None], 0, children=children)
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


def error_column(value: Decoded, key: Decoded | None) -> pa.Array:
    """The value's reason, then the key's as ``key: …``; null where neither has one."""
    of_value = _reasons(value, "")
    if key is None or bool((key.reason == NO_REASON).all()):
        return of_value
    of_key = _reasons(key, "key: ")
    if of_value.null_count == len(of_value):
        return of_key
    return pc.coalesce(pc.binary_join_element_wise(of_value, of_key, "; "), of_value, of_key)


def _reasons(decoded: Decoded, prefix: str) -> pa.Array:
    if not decoded.reasons or bool((decoded.reason == NO_REASON).all()):
        return pa.nulls(len(decoded), pa.string())
    texts = pa.array([f"{prefix}{reason}" for reason in decoded.reasons], pa.string())
    return texts.take(pa.array(decoded.reason, mask=decoded.reason == NO_REASON))
