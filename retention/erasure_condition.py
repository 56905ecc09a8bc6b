"""What is to be erased: records of some keys, or rows of which a condition is true."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import BooleanExpression

from engine.errors import FloebergError, Invalid
from engine.formats.codec import ValueCodec
from engine.formats.format_facts import facts_of
from engine.table.columns import TableLayout
from engine.table.pruned_files import keys_expression
from engine.table.rows.metadata_columns import keys_from_columns
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable

_WRITTEN_AS_TEXT = frozenset({"string", "raw", "json", "csv"})
"""Formats of keys whose bytes are what a person writes."""


class Condition(Protocol):
    """For one table, and one thread."""

    expression: BooleanExpression | None
    """What is true of each row that matches, for the bounds in manifests; None where they can't tell."""
    unread: frozenset[str]
    """Columns that it doesn't look at."""

    def offsets(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """The offsets of those ``rows`` that match; they have all of the table's columns but those unread.

        Raises Invalid where the question can't be asked of the table.
        """


class KeyCondition:
    """Records whose own key is one of ``keys``, byte by byte."""

    def __init__(self, table: TopicTable, keys: Collection[bytes]) -> None:
        """Raises Invalid."""
        if not keys:
            raise Invalid("No key is given", topic=table.topic)
        self._layout = table.layout
        self._keys = pa.array(sorted(keys), pa.large_binary())
        self._codec = RowCodecs.of(table).key
        self.expression = keys_expression(table.layout, keys)
        layout = table.layout
        read = {layout.offset, layout.key_column, layout.key_raw, layout.key_schema_id}
        self.unread = frozenset(field.name for field in table.facts.schema) - read

    def offsets(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        keys = keys_of(rows, self._layout, self._codec)
        found: NDArray[np.int64] = rows.column(self._layout.offset).filter(pc.is_in(keys, self._keys)).to_numpy()
        return found


def keys_of(rows: pa.RecordBatch, layout: TableLayout, codec: ValueCodec | None) -> pa.Array:
    """The records' own keys, as large binaries."""
    columns = {name: rows.column(name) for name in rows.schema.names}
    return keys_from_columns(layout, columns, codec, rows.num_rows).to_arrow().cast(pa.large_binary())


def key_bytes(table: TopicTable, text: str) -> frozenset[bytes]:
    """What a key that a person wrote is in the topic's records: its text in UTF-8, or, of typed keys that are no text,
    the JSON of it encoded under each key schema that the table knows. Raises Invalid."""
    if facts_of(table.layout.key).name in _WRITTEN_AS_TEXT:
        return frozenset([text.encode()])
    codec, spec = RowCodecs.of(table).key, table.key_codec
    if codec is None or spec is None:
        raise Invalid("The topic's table knows no schema of its keys yet", topic=table.topic)
    key = _object(table, text, pa.struct(list(codec.fields)))
    found, refused = set(), ""
    schema_ids: list[int | None] = [*spec.schemas]
    for schema_id in schema_ids or [None]:
        try:
            encoded = codec.encode(key, pa.array([schema_id], pa.int32()), np.ones(1, np.bool_))[0]
        except FloebergError as error:
            refused = error.problem  # a key of another schema has other fields
            continue
        if encoded is not None:
            found.add(encoded)
    if not found:
        raise _no_key(table, text, refused or "it is null")
    return frozenset(found)


def _object(table: TopicTable, text: str, kind: pa.StructType) -> pa.Array:
    try:
        value = json.loads(text)
        unknown = set(value) - {field.name for field in kind}
        if unknown:
            raise _no_key(table, text, f"keys have no field {', '.join(sorted(unknown))}")
        return pa.array([value], kind)
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise _no_key(table, text, str(error)) from error


def _no_key(table: TopicTable, text: str, why: str) -> Invalid:
    fields = ", ".join(field.name for field in table.key_fields)
    return Invalid(
        f"{text!r} is no key of the topic, whose keys are {table.layout.key}: {why}",
        topic=table.topic,
        next_step=f"give it as JSON with the fields {fields}, or its bytes as --key-hex, or use --where",
    )
