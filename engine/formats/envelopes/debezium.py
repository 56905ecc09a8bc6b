"""Debezium's change events laid out flat: the row's new image as top-level columns, the envelope in ``debezium_…``.

A codec around another format's codec, and a proposal around its proposal. Inside are the value's own fields, outside
the table's columns; the names of the one follow from those of the other, so that nothing has to be kept. Placements
name fields of the value: they are the inner format's, and pass through.

Source: Debezium documentation, "Change events" of the MySQL, PostgreSQL, MongoDB connectors (3.x).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.arrow_columns import column_of, struct_of
from engine.formats.codec import Columns, Decoded, FieldProposal, ValueCodec, Verdict
from engine.formats.envelopes import connect_json
from engine.formats.format_facts import noted_columns
from engine.records.records import ByteSpans

AFTER, OPERATION = "after", "op"
PREFIX = "debezium_"
ESCAPE = "after_"
ROW_OPERATIONS = pa.array(["c", "u", "r"])
"""Created, updated, read by a snapshot: the operations that leave a row behind."""

WITH_SCHEMAS = "json"
"""The format whose values Kafka Connect may write with their schema beside."""

AMBIGUOUS = "the row after the change has nothing but nulls, and the operation does not tell that there is one"


def envelope_column(field: str) -> str:
    """The column of a field of the envelope; what a format notes beside the value's own fields keeps its name."""
    return field if field in noted_columns() else PREFIX + field


def image_column(field: str) -> str:
    """The column of a field of the row; one that would be taken for another gets ``after_`` in front."""
    return ESCAPE + field if _is_taken(field) else field


def _is_taken(field: str) -> bool:
    """Whether a name is the envelope's, Kafka's or a format's; engines compare names without case."""
    names = "|".join(map(re.escape, noted_columns()))
    taken = rf"(?:{ESCAPE})*(?:(?:{PREFIX}|kafka_).*|{names})"
    return re.fullmatch(taken, field, re.IGNORECASE | re.DOTALL) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Laid:
    """A column of the table and the field it shows: the row's, or the envelope's."""

    column: pa.Field
    field: str
    is_image: bool

    @classmethod
    def of(cls, column: pa.Field) -> _Laid:
        name: str = column.name
        if name in noted_columns():
            return cls(column=column, field=name, is_image=False)
        if name.startswith(PREFIX):
            return cls(column=column, field=name[len(PREFIX) :], is_image=False)
        field = name[len(ESCAPE) :] if name.startswith(ESCAPE) and _is_taken(name) else name
        return cls(column=column, field=field, is_image=True)


def _inner_fields(laid: Sequence[_Laid]) -> tuple[pa.Field, ...]:
    """The value's own fields; the row after the change stands where its first column does."""
    fields: list[pa.Field] = []
    image = [one.column.with_name(one.field) for one in laid if one.is_image]
    for one in laid:
        if not one.is_image:
            fields.append(one.column.with_name(one.field))
        elif image:
            fields.append(pa.field(AFTER, pa.struct(image)))
            image = []
    return tuple(fields)


Propose = Callable[[tuple[pa.Field, ...]], FieldProposal]
Open = Callable[[tuple[pa.Field, ...]], ValueCodec]


def propose_fields(format_name: str, propose: Propose, existing: Sequence[pa.Field]) -> FieldProposal:
    """What a format proposes beside the value's own fields, as columns of the table: new ones of the row come first."""
    inner = _inner_fields([_Laid.of(column) for column in existing])
    proposal = connect_json.propose_fields(propose, inner) if format_name == WITH_SCHEMAS else propose(inner)
    image: dict[str, pa.Field] = {}
    envelope: dict[str, pa.Field] = {}
    for field in proposal.fields:
        if field.name == AFTER and pa.types.is_struct(field.type):
            image.update((image_column(child.name), child) for child in field.type)
        else:
            envelope[envelope_column(field.name)] = field
    columns = {name: field.with_name(name) for name, field in (image | envelope).items()}
    kept = [columns.pop(column.name, column) for column in existing]
    return replace(proposal, fields=(*kept, *columns.values()))


def open_codec(format_name: str, open_inner: Open, fields: Sequence[pa.Field]) -> UnwrappedCodec:
    """The format's codec, which ``open_inner`` opens for the value's own fields, with its columns laid flat."""
    if format_name == WITH_SCHEMAS:
        return UnwrappedCodec(lambda inner: connect_json.ConnectSchemaCodec(open_inner, inner), fields)
    return UnwrappedCodec(open_inner, fields)


class UnwrappedCodec:
    """Another format's codec, its columns laid flat. Whether there was a row after the change follows from its columns
    and from the operation; where they can't tell, the record keeps its bytes."""

    def __init__(self, open_inner: Open, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._laid = tuple(_Laid.of(column) for column in fields)
        self._inner = open_inner(_inner_fields(self._laid))
        self.name = self._inner.name
        self.version = self._inner.version

    def decode(self, values: ByteSpans) -> Decoded:
        decoded = self._inner.decode(values)
        columns = {
            field.name: column for field, column in zip(self._inner.fields, decoded.columns.flatten(), strict=True)
        }
        image: dict[str, pa.Array] = {}
        if any(one.is_image for one in self._laid):
            after = columns[AFTER]
            # Flattened, so that what lies below a row that is not there is null.
            image = {child.name: column for child, column in zip(after.type, after.flatten(), strict=True)}
            decoded = _judged(decoded, after, list(image.values()), columns.get(OPERATION))
        laid = [(image if one.is_image else columns)[one.field] for one in self._laid]
        return replace(decoded, columns=struct_of(laid, self.fields, len(values)))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        inner: dict[str, pa.Array] = {}
        image: dict[str, pa.Array] = {}
        for one in self._laid:
            column = column_of(columns, one.column.name)
            if column is None:
                column = pa.nulls(len(wanted), one.column.type)
            if len(column) != len(wanted):
                raise Corrupt(f"the column {one.column.name} has {len(column)} entries for {len(wanted)} rows")
            (image if one.is_image else inner)[one.field] = column
        if image:
            there = _has_row(list(image.values()), inner.get(OPERATION), len(wanted))
            inner[AFTER] = pa.StructArray.from_arrays(image.values(), names=list(image), mask=pa.array(~there))
        return self._inner.encode(inner, schema_id, wanted)


def _has_row(image: Sequence[pa.Array], operation: pa.Array | None, row_count: int) -> NDArray[np.bool_]:
    """bool[n]: whether there is a row after the change, as far as columns can tell: one of it is not null, or the
    operation is one that leaves a row."""
    empty = np.ones(row_count, np.bool_)
    for column in image:
        if column.null_count == 0:
            return np.ones(row_count, np.bool_)
        empty &= column.is_null().to_numpy(zero_copy_only=False)
        if not empty.any():
            return ~empty
    there: NDArray[np.bool_] = ~empty
    if operation is not None:
        there |= _leaves_row(operation)
    return there


def _leaves_row(operation: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_dictionary(operation.type):
        operation = operation.dictionary_decode()
    if not pa.types.is_string(operation.type):
        return np.zeros(len(operation), np.bool_)
    found: NDArray[np.bool_] = pc.is_in(operation, value_set=ROW_OPERATIONS).to_numpy(zero_copy_only=False)
    return found


def _judged(decoded: Decoded, after: pa.StructArray, image: list[pa.Array], operation: pa.Array | None) -> Decoded:
    """Records whose row after the change the columns alone would get wrong keep their bytes."""
    there = after.is_valid().to_numpy(zero_copy_only=False)
    wrong = (there != _has_row(image, operation, len(decoded))) & (decoded.verdict == Verdict.EXACT)
    if not wrong.any():
        return decoded
    verdict = np.where(wrong, Verdict.KEEP_RAW, decoded.verdict).astype(np.uint8)
    reason = np.where(wrong, len(decoded.reasons), decoded.reason).astype(np.int32)
    return replace(decoded, verdict=verdict, reason=reason, reasons=(*decoded.reasons, AMBIGUOUS))
