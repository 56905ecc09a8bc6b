"""The columns a table needs for a JSON Schema."""

from __future__ import annotations

import pyarrow as pa

from engine.formats.codec import FieldProposal, KnownSchema, OnConflict
from engine.formats.evolution.columns import evolve_columns
from engine.formats.json.mapping import opaque_members, own_fields, wanted_fields
from engine.formats.json.schema import parse_schema


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    """Without a text only the codec's own columns: those a table has before its first schema."""
    wanted: list[pa.Field] = []
    unmapped: list[str] = []
    if schema_text:
        root = parse_schema(schema_text)
        wanted, unmapped = wanted_fields(root), opaque_members(root)
    earlier = [(wanted_fields(parse_schema(one.text)), one.placement) for one in known]
    return evolve_columns(
        existing, [*wanted, *own_fields(existing)], earlier=earlier, on_conflict=on_conflict, unmapped=unmapped
    )
