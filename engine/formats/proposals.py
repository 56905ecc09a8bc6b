"""What one more schema does to a table's columns, decided on everything the table keeps; nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.formats.codec import CodecSpec, FieldProposal, KnownSchema, OnConflict, propose_fields
from engine.formats.format_facts import facts_of

ON_CONFLICT_OPTION = "on_conflict"
"""The codec option that a topic's setting of the same name travels in."""


def on_conflict_of(options: Mapping[str, str]) -> OnConflict:
    """What a codec's options ask for. Raises ValueError for a word that no setting has."""
    return OnConflict(options.get(ON_CONFLICT_OPTION, OnConflict.SIBLING))


def first_fields(codec: CodecSpec) -> tuple[pa.Field, ...]:
    """The columns a table begins with: those that its options declare or the format always has, none where the first
    schema brings them."""
    facts = facts_of(codec.name)
    if facts.needs_schemas:
        return ()
    return propose_fields(codec.name, codec.options.get(facts.columns_option, ""), (), options=codec.options).fields


def propose_schema(
    codec: CodecSpec,
    fields: Sequence[pa.Field],
    schema_text: str,
    *,
    is_reserved: Callable[[str], bool],
    on_conflict: OnConflict | None = None,
) -> FieldProposal:
    """The columns once a schema is added to those that ``codec`` has, oldest first, and ``fields`` came from.

    ``on_conflict`` as the topic's setting says now; None: as it did when the table was made. A new field that
    ``is_reserved`` by its name, which Kafka's own columns have, gets no column: engines would take it for one of them.
    Raises Invalid for a text that is no schema.
    """
    proposal = propose_fields(
        codec.name,
        schema_text,
        fields,
        known=[
            KnownSchema(text=text, placement=codec.placements.get(schema_id, {}))
            for schema_id, text in codec.schemas.items()
        ],
        on_conflict=on_conflict or on_conflict_of(codec.options),
        options=codec.options,
    )
    refused = [field.name for field in proposal.fields if is_reserved(field.name)]
    if not refused:
        return proposal
    problems = (
        f"field {name}: it would be taken for one of Kafka's columns; records that have it keep their bytes"
        for name in refused
    )
    return replace(
        proposal,
        fields=tuple(field for field in proposal.fields if field.name not in refused),
        conflicts=(*proposal.conflicts, *problems),
    )


def with_schema(codec: CodecSpec, schema_id: int, text: str, proposal: FieldProposal) -> CodecSpec:
    """The codec once it has one more schema, the newest."""
    return replace(
        codec,
        schemas={**codec.schemas, schema_id: text},
        placements={**codec.placements, schema_id: proposal.placement},
    )
