"""Which columns a table needs for one more Avro writer schema."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.avro.mapping import arrow_type, map_schema, opaque_fields
from engine.formats.avro.schema import parse_schema
from engine.formats.codec import FieldProposal, KnownSchema, OnConflict
from engine.formats.evolution.columns import evolve_columns


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    """The columns there are, with what the schema adds at every level. Raises Invalid where the text is no schema."""
    root = map_schema(parse_schema(schema_text))
    wanted = arrow_type(root)
    earlier = [(_wanted(schema.text), schema.placement) for schema in known]
    return evolve_columns(
        existing,
        tuple(wanted) if wanted is not None else (),
        earlier=earlier,
        on_conflict=on_conflict,
        unmapped=opaque_fields(root),
    )


def _wanted(schema_text: str) -> tuple[pa.Field, ...]:
    """The fields of a schema that the table has; one that can't be read any more claims no column."""
    try:
        kind = arrow_type(map_schema(parse_schema(schema_text)))
    except Invalid:
        return ()
    return tuple(kind) if kind is not None else ()
