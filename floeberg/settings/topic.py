"""How topics are kept: the tables ``[[topics]]``. Which formats there are, and what each needs, ``FORMATS`` says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from engine.errors import Invalid
from engine.formats.format_facts import (
    AUTO,
    ENVELOPES,
    FORMATS,
    FormatFacts,
    format_of_schema_file,
    formats_with_schemas,
)
from engine.parquet.row_counts import DEFAULT_WINDOW_ROWS, MOST_WINDOW_ROWS, ROW_GROUP_ROWS
from floeberg.settings.registry import URL_SCHEMES, RegistrySettings
from floeberg.settings.retention import RetentionSettings
from floeberg.settings.section import Section, split_list

if TYPE_CHECKING:
    from engine.table.windows import Clustering

_NAMES: dict[str, Mapping[str, Any]] = {"value": FORMATS, "key": FORMATS, "unwrap": ENVELOPES}
_LEFT_OUT = {
    "partition_by": "is no setting: files' and row groups' bounds prune as well by time, cluster_by does by values "
    "(docs/clustering.md)"
}
_FRESHNESS_MS = 60_000
"""With Kafka's own settings a quiet topic closes a segment after seven days: nobody waits that long for a table."""

_FILE = "schemas is one file, for values that name no schema"

_OPTIONS_PREFIX = {"value": "", "key": "key_"}
"""What stands before a format's name in the name of the table with its options."""


def _kind_of_source(value: object) -> str:
    is_path = isinstance(value, str) and not value.startswith(URL_SCHEMES)
    return "files" if is_path else "registry"


SchemasSetting = Annotated[
    Annotated[RegistrySettings, Tag("registry")] | Annotated[str, Tag("files")], Discriminator(_kind_of_source)
]


class TopicSettings(Section):
    """How topics are kept, in as many tables as there are kinds of topics; the first whose ``name`` matches counts.
    Without any, every topic is kept with the defaults. A format with options has them in a table of its name, for keys
    with ``key_`` before it: ``csv``, ``key_csv`` (row_format.md)."""

    model_config = ConfigDict(frozen=True, extra="allow", str_strip_whitespace=True)

    name: Annotated[str, Field(min_length=1)] = "*"
    """The topic's name, or a pattern of several: ``*`` for any characters, ``?`` for one, ``[ab]`` for either."""

    value: str = AUTO
    """The format of values: ``auto``, ``avro``, ``protobuf``, ``json``, ``csv``, ``string`` or ``raw``. With ``auto``
    it is found from a topic's first values and then fixed in its table."""

    key: str = "string"
    """The format of keys: ``string``, ``raw``, or one of values; ``kafka_key`` is then a struct of its fields."""

    schemas: SchemasSetting | None = None
    """Where writers' schemas come from: a registry's URL, a table ``[topics.schemas]``, a folder of files named by
    schema id, or one schema's file for values that name none."""

    on_conflict: Literal["sibling", "raw"] = "sibling"
    """What becomes of a field whose type its column can't take: ``sibling`` gives it a column beside
    (``amount__string``), with ``raw`` its record keeps its bytes."""

    unwrap: str | None = None
    """The envelope whose content the columns show: ``debezium``."""

    infer_records: NonNegativeInt | None = None
    """Columns of values without a schema are inferred until the table holds so many offsets, and stay as they are then;
    0 ends it with the first ones. 100000 where it is not set."""

    column_prefix: Annotated[str, Field(min_length=1)] = "kafka_"
    """What the names of Kafka's own columns begin with, should a value have such a field."""

    freshness_ms: PositiveInt | Literal["closed"] = _FRESHNESS_MS
    """How long records of a segment that is still open may wait for the table; ``"closed"`` waits until Kafka closes
    it, which makes the fewest files."""

    latest_by_key: bool | None = None
    """Whether a second table, ``<topic>__latest``, shows the newest record of each key (latest_by_key.md). Without it:
    where the topic's ``cleanup.policy`` holds ``compact``."""

    cluster_by: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The columns that compaction sorts rows by, for queries that filter by them (clustering.md); none for stream
    order."""

    cluster_window_rows: Annotated[int, Field(gt=ROW_GROUP_ROWS, le=MOST_WINDOW_ROWS)] | None = None
    """How many rows are sorted together: more prune better and make reads by offset cost more. With ``cluster_by``
    alone."""

    retention: RetentionSettings = RetentionSettings()
    """A table of bounds, ``[topics.retention]``: how long the topic's records are kept."""

    delete_on_topic_deletion: Literal["keep", "after_grace"] = "keep"
    """What becomes of the table once the topic is deleted at the broker: it stays, or it is dropped when the topic has
    been gone for ``[history] grace_ms`` (retention.md)."""

    @field_validator("value", "key", "unwrap", mode="before")
    @classmethod
    def _check_name(cls, value: object, info: ValidationInfo) -> object:
        names = [*((AUTO,) if info.field_name == "value" else ()), *_NAMES[str(info.field_name)]]
        if value is not None and value not in names:
            raise ValueError(f"it is {_either(names)}, not {value!r}")
        return value

    @field_validator("freshness_ms", mode="before")
    @classmethod
    def _check_freshness(cls, value: object) -> object:
        if value == "closed" or (type(value) is int and value > 0):
            return value
        raise ValueError(f'it is milliseconds, or "closed" to wait for segments to close, not {value!r}')

    @model_validator(mode="after")
    def _check_schemas(self) -> Self:
        value, key = FORMATS.get(self.value), FORMATS[self.key]
        chosen = {"key": key} if value is None else {"value": value, "key": key}
        if not self.schemas:
            for setting, facts in chosen.items():
                if facts.needs_schemas:
                    raise ValueError(f'{setting} = "{facts.name}" needs schemas: a folder or a registry\'s http(s) URL')
        elif value is not None and not any(facts.schemas for facts in chosen.values()):
            raise ValueError(f'schemas makes sense with values or keys that have some, not with "{self.value}"')
        elif value is None and self.schema_path is not None and format_of_schema_file(self.schema_path):
            raise ValueError(f'name the format, value = "{format_of_schema_file(self.schema_path)}": {_FILE}')
        if self.infer_records is not None and value is not None and (value.inference is None or self.schemas):
            inferring = _either(facts.name for facts in FORMATS.values() if facts.inference)
            raise ValueError(f"infer_records makes sense with value = {inferring} and no schemas")
        if self.unwrap is not None and (value is None or value.schemas is None):
            raise ValueError(f'unwrap makes sense with {_either(formats_with_schemas())}, not with "{self.value}"')
        return self

    @model_validator(mode="after")
    def _check_clustering(self) -> Self:
        if self.cluster_window_rows is not None and not self.cluster_by:
            raise ValueError("cluster_window_rows makes sense with cluster_by = [columns]")
        try:
            self.clustering  # noqa: B018  # what it raises
        except Invalid as error:
            raise ValueError(f"cluster_by: {error.problem}") from error
        return self

    @property
    def clustering(self) -> Clustering | None:
        """How compaction sorts the topic's rows; None for stream order."""
        if not self.cluster_by:
            return None
        from engine.table.windows import Clustering

        return Clustering(columns=self.cluster_by, window_rows=self.cluster_window_rows or DEFAULT_WINDOW_ROWS)

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        unknown = set(self._tables)
        for setting, prefix in _OPTIONS_PREFIX.items():
            for facts in (one for one in FORMATS.values() if one.options is not None):
                table = f"{prefix}{facts.name}"
                if (getattr(self, setting) == facts.name) != (table in self._tables):
                    example = f'{facts.columns_option} = ["name:type", …]' if facts.columns_option else "…"
                    raise ValueError(f'{setting} = "{facts.name}" and {table} = {{{example}}} belong together')
                unknown.discard(table)
            self.format_options(setting)
        for name in sorted(unknown):
            raise ValueError(f"{name} {_LEFT_OUT.get(name, 'is no setting')}")
        return self

    @property
    def _tables(self) -> dict[str, object]:
        return {name: table for name, table in (self.model_extra or {}).items() if table is not None}

    def format_options(self, setting: str) -> dict[str, str]:
        """The options of the format that ``setting``, value or key, names, as its codec takes them."""
        facts = FORMATS.get(getattr(self, setting))
        if facts is None or facts.options is None:
            return {}
        table = _OPTIONS_PREFIX[setting] + facts.name
        return _options(facts, resolve_name(facts.options), table, self._tables[table])

    @property
    def registry(self) -> RegistrySettings | None:
        """The registry that the schemas come from; None where they come from files, or there are none."""
        return self.schemas if isinstance(self.schemas, RegistrySettings) else None

    @property
    def schema_path(self) -> Path | None:
        """The folder or file that the schemas come from; None where they come from a registry, or there are none."""
        return Path(self.schemas) if isinstance(self.schemas, str) else None


def with_value(topic: TopicSettings, value: str) -> TopicSettings:
    """As these, but of another value format. Raises Invalid where the other settings don't go with it."""
    given = {name: getattr(topic, name) for name in topic.model_fields_set}
    if value != topic.value:
        given.pop(topic.value, None)
    try:
        return TopicSettings.model_validate({**given, "value": value})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise Invalid(f'value = "{value}" does not go with the topic\'s other settings: {problem}') from error


def _options(facts: FormatFacts, options: Any, table: str, given: object) -> dict[str, str]:
    """A table as texts, once they are found to be such ``options``."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{table}: it is a table of options, not {given!r}")
    unknown = given.keys() - {option.name for option in fields(options)}
    if unknown:
        raise ValueError(f"{table}, {', '.join(sorted(unknown))}: is no setting")
    listed = {name: split_list(option) if name == facts.columns_option else option for name, option in given.items()}
    texts = {name: option if isinstance(option, str) else json.dumps(option) for name, option in listed.items()}
    try:
        options.of(texts)
    except Invalid as error:
        raise ValueError(f"{table}: {error.problem}") from error
    return texts


def _either(names: Iterable[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
