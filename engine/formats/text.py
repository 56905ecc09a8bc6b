"""The format of plain text values: one string column; what is not UTF-8 keeps its bytes and says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.formats.codec import (
    NO_REASON,
    CodecSpec,
    Columns,
    Decoded,
    FieldProposal,
    KnownSchema,
    OnConflict,
    Verdict,
    add_fields,
)
from engine.formats.single_column import fill_column, spans_of_wanted
from engine.records.records import NULL_LENGTH, ByteSpans

VALUE_FIELD = pa.field("value", pa.string())
NOT_UTF8 = "not UTF-8"


class TextCodec:
    """UTF-8 values are exact, as they are; others can't be decoded."""

    name = "string"
    version = 1

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)

    def decode(self, values: ByteSpans) -> Decoded:
        count = len(values)
        undecodable = values.is_not_utf8
        length = np.where(undecodable, np.int32(NULL_LENGTH), values.length)
        column = ByteSpans(data=values.data, start=values.start, length=length).to_arrow()
        if pa.types.is_large_binary(column.type):
            raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
        text = pa.Array.from_buffers(pa.string(), count, column.buffers(), column.null_count)
        return Decoded(
            columns=fill_column(self.fields, VALUE_FIELD, text),
            schema_id=pa.nulls(count, pa.int32()),
            verdict=np.where(undecodable, Verdict.UNDECODABLE, Verdict.EXACT).astype(np.uint8),
            reason=np.where(undecodable, 0, NO_REASON).astype(np.int32),
            reasons=(NOT_UTF8,),
            missing_schema_ids=frozenset(),
        )

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        del schema_id  # such values name no schema
        return spans_of_wanted(columns, VALUE_FIELD, wanted)


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> TextCodec:
    del spec  # there is nothing to configure
    if VALUE_FIELD.name not in {field.name for field in fields if field.type == VALUE_FIELD.type}:
        raise Invalid("a string topic's table needs a column value of type string")
    return TextCodec(fields)


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    del schema_text, known, on_conflict  # there are no schemas
    return add_fields(existing, VALUE_FIELD)
