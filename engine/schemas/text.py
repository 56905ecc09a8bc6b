"""A schema with what it refers to, and the one text that its codec reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import Invalid

TYPE_OF_FORMAT = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""The codec's names and those of Confluent's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSchema:
    """A schema as it was written. ``schema_type`` as Confluent's API names it; ``references`` are the texts of all it
    refers to at any distance, under the names it and they refer to them by, each behind those that it needs itself."""

    schema_type: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


def codec_text(schema: WrittenSchema, schema_format: str, what: str) -> str:
    """The schema as the codec of ``schema_format`` reads it; ``what`` names it.

    Raises Invalid for a schema of another type, or one that can't be used; Unavailable when protoc does not end.
    """
    wanted = TYPE_OF_FORMAT.get(schema_format)
    if schema.schema_type != wanted:
        raise Invalid(
            f"{what} is of type {schema.schema_type}, the topic's setting says {schema_format}",
            next_step="set value (or key) to what the producers write",
        )
    try:
        return _TEXTS[schema_format](schema)
    except Invalid as error:
        raise Invalid(f"{what}: {error.problem}", next_step=error.next_step) from error


def _avro(schema: WrittenSchema) -> str:
    if not schema.references:
        return schema.text
    from engine.formats.avro.references import inline_references

    return inline_references(schema.text, list(schema.references.values()))


def _protobuf(schema: WrittenSchema) -> str:
    from engine.formats.protobuf.descriptors import compile_proto

    return compile_proto(schema.text, schema.references)


def _json(schema: WrittenSchema) -> str:
    from engine.formats.json.references import bundle_references

    return bundle_references(schema.text, schema.references)


# Each imports its module when it is called: a topic's format alone decides what is loaded, as in value_codec.
_TEXTS = {"avro": _avro, "protobuf": _protobuf, "json": _json}
