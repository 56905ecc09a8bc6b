"""A schema with what it refers to, and the one text that its codec reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name

from engine.errors import Invalid
from engine.formats.format_facts import facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSchema:
    """A schema as it was written. ``schema_type`` as Confluent's API names it; ``references`` are the texts of all it
    refers to at any distance, under the names it and they refer to them by, each after those that it needs itself."""

    schema_type: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


def codec_text(schema: WrittenSchema, schema_format: str, what: str) -> str:
    """The schema as the codec of ``schema_format`` reads it; ``what`` names it.

    Raises Invalid for a schema of another type, or one that can't be used; Unavailable when protoc does not end.
    """
    facts = facts_of(schema_format).schemas
    if facts is None or schema.schema_type != facts.type_name:
        raise Invalid(
            f"{what} is of type {schema.schema_type}, the topic's setting says {schema_format}",
            next_step="set value (or key) to what the producers write",
        )
    try:
        return str(resolve_name(facts.reader)(schema.text, schema.references))
    except Invalid as error:
        raise Invalid(f"{what}: {error.problem}", next_step=error.next_step) from error
