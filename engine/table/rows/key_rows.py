"""Record keys to the columns ``kafka_key`` and ``kafka_key_raw`` and back.

With ``key = "string"`` or ``"raw"`` the column is the key. A typed key is a struct of its codec's fields: null for a
null key and for one that can't be decoded, whose bytes then stand in the raw column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.codec import Decoded, ValueCodec, Verdict
from engine.formats.evolution.promotion import promoted
from engine.records.records import NULL_LENGTH, ByteSpans
from engine.records.utf8_rows import rows_not_utf8
from engine.table.columns import TableLayout
from engine.table.rows.raw_columns import binary_column, kept_bytes, rows_kept, spans_of, with_raw


def key_columns(layout: TableLayout, keys: ByteSpans, decoded: Decoded | None) -> dict[str, pa.Array]:
    """The key's columns by name; ``decoded`` what the key's codec made of ``keys``, None where it has none.

    Without a field there is no struct to tell a key from none: all keys then keep their bytes.
    """
    if not layout.has_typed_key:
        return dict(zip((layout.key_column, layout.key_raw), _plain_columns(layout, keys), strict=True))
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


def _plain_columns(layout: TableLayout, keys: ByteSpans) -> tuple[pa.Array, pa.Array]:
    nothing_kept = pa.nulls(len(keys), pa.binary())
    if layout.key == "raw":
        return binary_column(keys), nothing_kept
    not_text = rows_not_utf8(keys)
    if not bool(not_text.any()):
        return _as_string(binary_column(keys)), nothing_kept
    return _as_string(kept_bytes(keys, ~not_text)), kept_bytes(keys, not_text)


def _as_string(array: pa.Array) -> pa.Array:
    """The same bytes, known to be UTF-8, as text: no byte is copied or looked at again."""
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count, array.offset)


def _nullable_struct(columns: pa.StructArray, is_valid: NDArray[np.bool_]) -> pa.StructArray:
    children = [columns.field(index) for index in range(columns.type.num_fields)]
    null_count = len(is_valid) - int(np.count_nonzero(is_valid))
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if null_count else None
    return pa.Array.from_buffers(columns.type, len(is_valid), [validity], null_count, children=children)
