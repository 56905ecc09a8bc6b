"""The format of values that nobody describes: one binary column holding the bytes as they are."""

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
from engine.records.records import ByteSpans

VALUE_FIELD = pa.field("value", pa.binary())


class RawCodec:
    """Every value is exact: the column is the value."""

    name = "raw"
    version = 1

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)

    def decode(self, values: ByteSpans) -> Decoded:
        count = len(values)
        column = values.to_arrow()
        if pa.types.is_large_binary(column.type):
            raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
        return Decoded(
            columns=fill_column(self.fields, VALUE_FIELD, column),
            schema_id=pa.nulls(count, pa.int32()),
            verdict=np.full(count, Verdict.EXACT, np.uint8),
            reason=np.full(count, NO_REASON, np.int32),
            reasons=(),
            missing_schema_ids=frozenset(),
        )

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        del schema_id  # such values name no schema
        return spans_of_wanted(columns, VALUE_FIELD, wanted)


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> RawCodec:
    del spec  # there is nothing to configure
    if VALUE_FIELD.name not in {field.name for field in fields if field.type == VALUE_FIELD.type}:
        raise Invalid("a raw topic's table needs a column value of type binary")
    return RawCodec(fields)


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    del schema_text, known, on_conflict  # there are no schemas
    return add_fields(existing, VALUE_FIELD)
