"""The formats there are: all that the rest of the program asks about one, entered here and nowhere else.

What a format is made of is named as ``module`` or ``module:name`` and imported when it is used: settings are read
without any codec, and a worker loads only the format it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from engine.errors import Invalid

AUTO = "auto"
"""The setting that asks for a guess; no format's name."""

FORM_COLUMN, FORMER_FORM_COLUMN = "kafka_form", "json_form"
"""How a text was spelled; the second in tables made before the column stood among Kafka's own names."""

REST_COLUMN = "kafka_rest"
"""The text of what has no column."""

MESSAGE_COLUMN = "protobuf_message"
"""Which message of its schema a row is, where that has several; null for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFacts:
    """The writers' schemas of a format, which its values name by id.

    ``type_name`` as Confluent's API writes it. ``endings``: of a schema's file; the first that exists is read.
    ``reader``: (text, texts of what it refers to by name) -> the text that the codec reads. ``references``: text -> the
    names it refers to; None where a file is complete in itself. ``compiled``: the ending of a binary file -> bytes ->
    the text that the codec reads. These functions raise Invalid.
    """

    type_name: str
    endings: tuple[str, ...]
    reader: str
    references: str | None = None
    compiled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """How values that name no schema show that they have the format.

    ``test``: a value, not empty -> whether it may be one. ``words``: what such values are, in the plural.
    ``is_certain``: no value passes by chance.
    """

    test: str
    words: str
    is_certain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFacts:
    """One format, of values and of keys.

    ``codec``: what has ``open_codec(spec, fields)`` and ``propose_fields(schema_text, existing, known, on_conflict)``,
    which do what those of ``engine.formats.codec`` say.
    ``plain_key``: Arrow's name of the column's type where it is the key itself; None where a codec fills a struct.
    ``inference``: (the newest schema or None, those that workers propose) -> the next one or None, for values that name
    no schema. Without it schemas must come from elsewhere.
    ``options``: the class of the options that rows are written back by, set in a table of the format's name: a
    dataclass, one field an option, made by ``of(texts)``, which raises Invalid. ``columns_option``: which of them
    declares the columns.
    ``spelling_columns``, ``rest_column``, ``type_column``: what the codec notes of a value beside its fields.
    ``recognition``: None where only a setting, or a schema's id, can tell. The first format in order that recognizes a
    topic's values is taken for theirs.
    """

    name: str
    codec: str
    plain_key: str | None = None
    schemas: SchemaFacts | None = None
    inference: str | None = None
    options: str | None = None
    columns_option: str = ""
    spelling_columns: tuple[str, ...] = ()
    rest_column: str | None = None
    type_column: str | None = None
    recognition: Recognition | None = None

    @property
    def needs_schemas(self) -> bool:
        """Whether there are no columns before the first schema."""
        return self.schemas is not None and self.inference is None

    @property
    def schema_endings(self) -> tuple[str, ...]:
        """Of a schema's file; none where there are no schemas."""
        return () if self.schemas is None else (*self.schemas.endings, *self.schemas.compiled)


FORMATS: dict[str, FormatFacts] = {
    facts.name: facts
    for facts in (
        FormatFacts(
            name="avro",
            codec="engine.formats.avro.codec",
            schemas=SchemaFacts(
                type_name="AVRO", endings=(".avsc",), reader="engine.formats.avro.references:inline_references"
            ),
        ),
        FormatFacts(
            name="protobuf",
            codec="engine.formats.protobuf.codec",
            schemas=SchemaFacts(
                type_name="PROTOBUF",
                endings=(".proto",),
                reader="engine.formats.protobuf.descriptors:compile_proto",
                references="engine.formats.protobuf.imports:imported_names",
                compiled={".desc": "engine.formats.protobuf.descriptors:read_descriptor_set"},
            ),
            type_column=MESSAGE_COLUMN,
        ),
        FormatFacts(
            name="json",
            codec="engine.formats.json.codec",
            schemas=SchemaFacts(
                type_name="JSON",
                endings=(".json", ".schema.json"),
                reader="engine.formats.json.references:bundle_references",
                references="engine.formats.json.references:external_references",
            ),
            inference="engine.formats.json.inference:merged_schema",
            spelling_columns=(FORM_COLUMN, FORMER_FORM_COLUMN),
            rest_column=REST_COLUMN,
            recognition=Recognition(
                test="engine.formats.json.recognition:is_object", words="JSON objects", is_certain=True
            ),
        ),
        FormatFacts(
            name="csv",
            codec="engine.formats.csv.codec",
            options="engine.formats.csv.dialect:CsvDialect",
            columns_option="columns",
        ),
        FormatFacts(
            name="string",
            codec="engine.formats.plain:STRING",
            plain_key="string",
            recognition=Recognition(test="engine.formats.plain:is_text", words="text"),
        ),
        FormatFacts(name="raw", codec="engine.formats.plain:RAW", plain_key="binary"),
    )
}

ENVELOPES = {"debezium": "engine.formats.envelopes.debezium"}
"""Formats around formats: what has ``open_codec`` and ``propose_fields`` that are handed the inner one's."""


def noted_columns() -> list[str]:
    """The columns that some codec fills beside a value's fields."""
    beside = [(*facts.spelling_columns, facts.rest_column, facts.type_column) for facts in FORMATS.values()]
    return [name for names in beside for name in names if name is not None]


def formats_with_schemas() -> tuple[str, ...]:
    """Those whose values may name schemas."""
    return tuple(facts.name for facts in FORMATS.values() if facts.schemas is not None)


def facts_of(name: str) -> FormatFacts:
    """Raises Invalid for a format that does not exist."""
    if name not in FORMATS:
        raise Invalid(f"there is no value format {name!r}; there are {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def format_of_schema_file(path: PurePath) -> str | None:
    """The format whose values name no schema and have the one in this file; None where its name is a folder's."""
    fitting = (facts.name for facts in FORMATS.values() if facts.inference and path.name.endswith(facts.schema_endings))
    return next(fitting, None)
