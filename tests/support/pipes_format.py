"""A toy format: Confluent's header, then texts with a separator between; a schema is the columns' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.formats.arrow_columns import columns_of, struct_of
from engine.formats.codec import NO_REASON, CodecSpec, Columns, Decoded, FieldProposal, KnownSchema, OnConflict, Verdict
from engine.formats.confluent_framing import HEADER_BYTES
from engine.formats.format_facts import FormatFacts, SchemaFacts
from engine.records.records import ByteSpans

_HERE = "tests.support.pipes_format"
SPELLING = "pipes_spelling"
UPPER = "upper"

PIPES = FormatFacts(
    name="pipes",
    codec=_HERE,
    schemas=SchemaFacts(type_name="PIPES", endings=(".pipes",), reader=f"{_HERE}:read_schema"),
    options=f"{_HERE}:PipesOptions",
    spelling_columns=(SPELLING,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipesOptions:
    separator: str = "|"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> PipesOptions:
        found = cls(separator=options.get("separator", "|"))
        if len(found.separator) != 1:
            raise Invalid("a separator is one character")
        return found


def read_schema(text: str, references: Mapping[str, str]) -> str:
    del references
    if not text.strip():
        raise Invalid("a schema of pipes has a name")
    return text.strip()


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    del known, on_conflict
    present = {field.name for field in existing}
    names = [name for name in (*schema_text.split(","), SPELLING) if name not in present]
    return FieldProposal(fields=(*existing, *(pa.field(name, pa.string()) for name in names)))


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> PipesCodec:
    return PipesCodec(spec, fields)


class PipesCodec:
    name = "pipes"
    version = 1

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._names = {schema_id: text.split(",") for schema_id, text in spec.schemas.items()}
        self._separator = PipesOptions.of(spec.options).separator

    def decode(self, values: ByteSpans) -> Decoded:
        ids = [None if value is None else int.from_bytes(value[1:HEADER_BYTES]) for value in values.to_list()]
        missing = frozenset(one for one in ids if one is not None and one not in self._names)
        rows = [self._row(value, one) for value, one in zip(values.to_list(), ids, strict=True)]
        columns = [pa.array([row.get(field.name) for row in rows], pa.string()) for field in self.fields]
        unknown = np.array([one in missing for one in ids], np.bool_)
        return Decoded(
            columns=struct_of(columns, self.fields, len(values)),
            schema_id=pa.array(ids, pa.int32()),
            verdict=np.where(unknown, Verdict.UNDECODABLE, Verdict.EXACT).astype(np.uint8),
            reason=np.where(unknown, 0, NO_REASON).astype(np.int32),
            reasons=("the schema is not known",),
            missing_schema_ids=missing,
        )

    def _row(self, value: bytes | None, schema_id: int | None) -> dict[str, str]:
        if value is None or schema_id not in self._names:
            return {}
        text = value[HEADER_BYTES:].decode()
        row = dict(zip(self._names[schema_id], text.lower().split(self._separator), strict=True))
        return row if text == text.lower() else {**row, SPELLING: UPPER}

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        held = columns_of(columns, self.fields, len(wanted))
        column = {field.name: array.to_pylist() for field, array in zip(self.fields, held, strict=True)}
        values: list[bytes | None] = [None] * len(wanted)
        for row in np.flatnonzero(wanted).tolist():
            one = schema_id[row].as_py()
            text = self._separator.join(column[name][row] for name in self._names[one])
            text = text.upper() if column[SPELLING][row] == UPPER else text
            values[row] = b"\0" + one.to_bytes(4) + text.encode()
        return ByteSpans.from_list(values)
