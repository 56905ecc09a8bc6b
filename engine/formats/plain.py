"""The formats whose whole value is one column: ``raw``, the bytes as they are, and ``string``, text in UTF-8; what is
none keeps its bytes and says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.arrow_columns import add_fields, checked_spans, columns_of, struct_of
from engine.formats.codec import NO_REASON, CodecSpec, Columns, Decoded, FieldProposal, KnownSchema, OnConflict, Verdict
from engine.records.records import NULL_LENGTH, ByteSpans

NOT_UTF8 = "not UTF-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFormat:
    """What ``engine.formats.codec`` asks of a format's module."""

    name: str
    column: pa.Field

    def open_codec(self, spec: CodecSpec, fields: tuple[pa.Field, ...]) -> PlainCodec:
        del spec  # there is nothing to configure
        if (self.column.name, self.column.type) not in {(field.name, field.type) for field in fields}:
            raise Invalid(f"a {self.name} topic's table needs a column {self.column.name} of type {self.column.type}")
        return PlainCodec(self, fields)

    def propose_fields(
        self, schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
    ) -> FieldProposal:
        del schema_text, known, on_conflict  # there are no schemas
        return add_fields(existing, self.column)


_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\r")


def is_text(value: bytes) -> bool:
    """Whether a value is text in UTF-8 that somebody wrote: numbers' bytes are often UTF-8 too."""
    if not _CONTROLS.isdisjoint(value):
        return False
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


RAW = PlainFormat(name="raw", column=pa.field("value", pa.binary()))
STRING = PlainFormat(name="string", column=pa.field("value", pa.string()))


class PlainCodec:
    """Values are exact, as they are; what should be text and is none can't be decoded."""

    version = 1

    def __init__(self, kind: PlainFormat, fields: Sequence[pa.Field]) -> None:
        self.name = kind.name
        self.fields = tuple(fields)
        self._column = kind.column

    def decode(self, values: ByteSpans) -> Decoded:
        count = len(values)
        undecodable = np.zeros(count, np.bool_)
        is_text = pa.types.is_string(self._column.type)
        if is_text:
            undecodable = values.is_not_utf8
            values = replace(values, length=np.where(undecodable, np.int32(NULL_LENGTH), values.length))
        filled = values.to_arrow()
        if pa.types.is_large_binary(filled.type):
            raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
        if is_text:
            filled = pa.Array.from_buffers(pa.string(), count, filled.buffers(), filled.null_count)
        return Decoded(
            columns=struct_of(columns_of({self._column.name: filled}, self.fields, count), self.fields, count),
            schema_id=pa.nulls(count, pa.int32()),
            verdict=np.where(undecodable, Verdict.UNDECODABLE, Verdict.EXACT).astype(np.uint8),
            reason=np.where(undecodable, 0, NO_REASON).astype(np.int32),
            reasons=(NOT_UTF8,),
            missing_schema_ids=frozenset(),
        )

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        del schema_id  # such values name no schema
        name = self._column.name
        spans = checked_spans(columns_of(columns, [self._column], len(wanted))[0], name, wanted)
        lacking = np.flatnonzero(wanted & (spans.length == NULL_LENGTH))
        if len(lacking):
            raise Corrupt(f"the column {name} is null in row {lacking[0]}, whose value is not")
        return spans
