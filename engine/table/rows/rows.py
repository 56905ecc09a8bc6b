"""Records to the rows of a table and back: exact inverses, for every record Kafka can hold.

Where a typed column can't give a record's bytes back, the bytes stand in the raw column beside it: the key in
``kafka_key_raw``, the headers in ``kafka_headers_raw``, the value in ``kafka_value_raw`` (docs/row_format.md).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt, Invalid
from engine.formats.codec import Decoded, ValueCodec, Verdict, open_codec
from engine.formats.evolution.promotion import promoted
from engine.records.records import NULL_LENGTH, UNKNOWN_EPOCH, ByteSpans, Records
from engine.table.columns import MILLISECONDS_KEPT, US_PER_MS, TableLayout
from engine.table.rows.metadata_columns import (
    error_column,
    header_columns,
    headers_from_columns,
    kept_bytes,
    key_columns,
    keys_from_columns,
    rows_kept,
    with_raw,
)
from engine.table.topic_table import TableFacts, TopicTable

_LARGEST_MS_IN_US = (2**63 - 1) // US_PER_MS

CODECS_KEPT = 64
"""Tables whose codecs stay open: opening one compiles the programs of its schemas."""

IDLE_CODECS = 4
"""Open codecs a table keeps for the next reader; a codec serves one thread at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCodecs:
    """What turns a table's rows into records and back: a codec for values and, where keys are typed, one for keys.

    ``key`` is None where the key's column is the key itself. Not to be shared between threads, as codecs are not.
    """

    value: ValueCodec
    key: ValueCodec | None = None

    @classmethod
    def of(cls, table: TopicTable | TableFacts) -> Self:
        """Raises Invalid for a format that does not exist or columns that it can't fill."""
        key = None if table.key_codec is None else open_codec(table.key_codec, table.key_fields)
        return cls(value=open_codec(table.codec, table.value_fields), key=key)

    def decode(self, records: Records) -> tuple[Decoded, Decoded | None]:
        """What becomes of values and, where they are typed, of keys."""
        return self.value.decode(records.value), None if self.key is None else self.key.decode(records.key)


class CodecPool:
    """The open codecs of tables, each used by one thread at a time. Safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: BoundedCache[str, _IdleCodecs] = BoundedCache(capacity=CODECS_KEPT)
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, table: TopicTable) -> Iterator[RowCodecs]:
        """Codecs that nobody else uses meanwhile. Raises as ``RowCodecs.of``."""
        idle = self._idle.get(table.location)
        if idle is None or not idle.fit(table):
            idle = _IdleCodecs(table=table, codecs=[])
            self._idle.put(table.location, idle)
        with self._lock:
            codecs = idle.codecs.pop() if idle.codecs else None
        codecs = codecs or RowCodecs.of(table)
        try:
            yield codecs
        finally:
            with self._lock:
                if len(idle.codecs) < IDLE_CODECS:
                    idle.codecs.append(codecs)


@dataclass(slots=True, kw_only=True, eq=False)
class _IdleCodecs:
    """Those of one table, as it was loaded, that nobody uses."""

    table: TopicTable
    codecs: list[RowCodecs]

    def fit(self, table: TopicTable) -> bool:
        """Whether the codecs read ``table`` too: most commits change neither schemas nor columns."""
        if table.metadata_location != self.table.metadata_location:
            if _what_is_read(table) != _what_is_read(self.table):
                return False
            self.table = table
        return True


def _what_is_read(table: TopicTable) -> tuple[object, ...]:
    return table.codec, table.value_fields, table.key_codec, table.key_fields


def rows_from_records(
    layout: TableLayout,
    schema: pa.Schema,
    partition: int,
    records: Records,
    decoded: Decoded,
    decoded_key: Decoded | None = None,
) -> pa.RecordBatch:
    """The rows of ``n`` records of one partition, as the table's Arrow ``schema`` has them.

    ``decoded`` is what the codec made of ``records.value``, ``decoded_key`` what the key's codec, where keys are
    typed, made of ``records.key``. The batch shares the memory of all. Raises Invalid when the codecs' columns are not
    those of the table.
    """
    count = len(records)
    if len(decoded) != count:
        raise Invalid(f"{len(decoded)} decoded values were given for {count} records")
    timestamp, timestamp_type = _timestamp_columns(records)
    headers, headers_raw = header_columns(records.headers, count)
    metadata: dict[str, pa.Array] = {
        layout.partition: pa.array(np.full(count, partition, np.int32)),
        layout.offset: pa.array(np.ascontiguousarray(records.offset)),
        layout.timestamp: timestamp,
        layout.timestamp_type: timestamp_type,
        layout.leader_epoch: _nullable_epoch(records.leader_epoch),
        **key_columns(layout, records.key, decoded_key),
        layout.headers: headers,
        layout.headers_raw: headers_raw,
        layout.value_raw: kept_bytes(records.value, decoded.verdict != Verdict.EXACT),
        layout.schema_id: decoded.schema_id,
        layout.error: error_column(decoded, decoded_key),
        layout.is_null: pa.array(records.value.length == NULL_LENGTH),
    }
    return pa.RecordBatch.from_arrays(_in_table_order(schema, metadata, decoded), schema=schema)


def records_from_rows(layout: TableLayout, rows: pa.RecordBatch | pa.Table, codecs: RowCodecs) -> Records:
    """The records that ``rows_from_records`` was given. ``rows`` in file order, at most 2 GiB in any one column.

    A column that is null in every row may be left out, strings may be dictionary-encoded, and columns may have the
    narrower types they had when their file was written. Raises Corrupt for rows that this program did not write.
    """
    _check_types(layout, rows.schema)
    columns = {name: _one_array(rows.column(name), name) for name in rows.schema.names}
    offset = _required(columns, layout.offset).to_numpy()
    count = len(offset)
    timestamp_type = _required(columns, layout.timestamp_type).to_numpy()
    timestamp = _required(columns, layout.timestamp).view(pa.int64()).to_numpy()
    kept_ms = timestamp_type >= MILLISECONDS_KEPT
    value_columns = {
        # Older files have narrower types.
        field.name: column if column.type == field.type else promoted(column, field.type)
        for field in codecs.value.fields
        if (column := columns.get(field.name)) is not None
    }
    return Records(
        offset=offset,
        timestamp_ms=np.where(kept_ms, timestamp, timestamp // US_PER_MS),
        timestamp_type=(timestamp_type - np.where(kept_ms, MILLISECONDS_KEPT, 0)).astype(np.int8),
        leader_epoch=_epochs(columns.get(layout.leader_epoch), count),
        key=keys_from_columns(layout, columns, codecs.key, count),
        value=_values(layout, columns, value_columns, codecs.value, count),
        headers=headers_from_columns(columns.get(layout.headers), columns.get(layout.headers_raw), count),
    )


def _check_types(layout: TableLayout, schema: pa.Schema) -> None:
    for field in layout.metadata_fields():
        index = schema.get_field_index(field.name)
        if index < 0:
            continue  # an older file; what can't be missing is asked for by name
        kind = _without_dictionaries(schema.field(index).type)
        if kind != field.type:
            raise Corrupt(f"the column {field.name} is of type {kind}, not {field.type}")


def _without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type of the same values, plain, at every level that metadata columns have."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_dictionaries(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_without_dictionaries(child.type)) for child in kind])
    return kind


def _in_table_order(schema: pa.Schema, metadata: dict[str, pa.Array], decoded: Decoded) -> list[pa.Array]:
    arrays = []
    for field in schema:
        if field.name in metadata:
            arrays.append(metadata[field.name])
            continue
        index = decoded.columns.type.get_field_index(field.name)
        if index < 0:
            raise Invalid(f"the codec fills no column {field.name}, the table has one")
        array = decoded.columns.field(index)
        if array.type != field.type:
            raise Invalid(f"the codec gives {array.type} for the column {field.name}, the table has {field.type}")
        arrays.append(array)
    if len(arrays) != len(metadata) + decoded.columns.type.num_fields:
        raise Invalid("the codec fills columns that the table does not have")
    return arrays


def _timestamp_columns(records: Records) -> tuple[pa.Array, pa.Array]:
    milliseconds = records.timestamp_ms
    fits = np.abs(milliseconds) <= _LARGEST_MS_IN_US
    fits &= milliseconds != np.iinfo(np.int64).min  # its absolute value is itself
    kinds = records.timestamp_type.astype(np.int32)
    if bool(fits.all()):
        microseconds = milliseconds * np.int64(US_PER_MS)
    else:
        microseconds = np.where(fits, np.where(fits, milliseconds, 0) * np.int64(US_PER_MS), milliseconds)
        kinds += np.where(fits, 0, MILLISECONDS_KEPT).astype(np.int32)
    return pa.array(microseconds).view(pa.timestamp("us", "UTC")), pa.array(kinds)


def _nullable_epoch(leader_epoch: NDArray[np.int32]) -> pa.Array:
    unknown = leader_epoch == UNKNOWN_EPOCH
    return pa.array(np.ascontiguousarray(leader_epoch), mask=unknown if bool(unknown.any()) else None)


def _values(
    layout: TableLayout,
    columns: dict[str, pa.Array],
    value_columns: dict[str, pa.Array],
    codec: ValueCodec,
    count: int,
) -> ByteSpans:
    is_null = _required(columns, layout.is_null).to_numpy(zero_copy_only=False)
    raw = columns.get(layout.value_raw)
    schema_id = columns.get(layout.schema_id)
    if schema_id is None:
        schema_id = pa.nulls(count, pa.int32())
    encoded = codec.encode(value_columns, schema_id, ~(is_null | rows_kept(raw, count)))
    return with_raw(encoded, raw)


def _epochs(column: pa.Array | None, count: int) -> NDArray[np.int32]:
    if column is None:
        return np.full(count, UNKNOWN_EPOCH, np.int32)
    epochs: NDArray[np.int32] = column.fill_null(UNKNOWN_EPOCH).to_numpy()
    return epochs


def _required(columns: dict[str, pa.Array], name: str) -> pa.Array:
    column = columns.get(name)
    if column is None:
        raise Corrupt(f"the rows have no column {name}")
    if column.null_count:
        raise Corrupt(f"the column {name} has {column.null_count} nulls, where every row has a value")
    return column


def _one_array(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        raise Corrupt(f"the column {name} passes 2 GiB", next_step="read fewer rows at a time")
    return combined
