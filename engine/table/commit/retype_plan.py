"""The columns and the codec that a table is to get in the place of those of its values, decided before any commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Self

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from engine.errors import Invalid
from engine.formats.codec import CodecSpec, OnConflict
from engine.parquet.settings import ParquetSettings
from engine.table.columns import TableLayout, iceberg_schema
from engine.table.commit.schema_change import propose
from engine.table.loading import codec_property
from engine.table.properties import VALUE_PROPERTIES, CodecProperties
from engine.table.topic_table import TopicTable

ID_HEADROOM = 1000
"""Ids that are left free for columns which the table gets by its old format while files are written for the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetypePlan:
    """For the table of ``topic_id``. ``plan_id`` stands in the names of the files that are written by the plan.

    ``columns`` of the value with their ids, of which ``first_id`` is the least: the table never had one as great.
    ``properties`` keep ``codec``, its schemas and the columns' encodings as the table will.
    """

    plan_id: str
    topic_id: str
    first_id: int
    codec: CodecSpec
    columns: tuple[NestedField, ...]
    properties: Mapping[str, str]

    @classmethod
    def begin(cls, table: TopicTable, codec: CodecSpec, fields: Sequence[pa.Field], *, plan_id: str) -> Self:
        """``fields`` that the value has before the first schema. Raises Invalid for names that can't be columns."""
        plan = cls(
            plan_id=plan_id,
            topic_id=table.topic_id,
            first_id=table.last_column_id + ID_HEADROOM + 1,
            codec=codec,
            columns=(),
            properties={VALUE_PROPERTIES.codec: codec_property(codec)},
        )
        return plan._with_fields(fields, table.layout)

    def with_schemas(self, table: TopicTable, schemas: Mapping[int, str], on_conflict: OnConflict | None) -> Self:
        """As a table gets writers' schemas; the files of long ones are written. Raises Invalid for a text that is no
        schema, Unavailable."""
        view = self.view(table)
        fields, properties = propose(view, view.codec, view.value_fields, schemas, VALUE_PROPERTIES, on_conflict)
        placed = ((schema_id, properties.get(f"{VALUE_PROPERTIES.placement}{schema_id}")) for schema_id in schemas)
        placements = {schema_id: json.loads(text) for schema_id, text in placed if text is not None}
        codec = replace(
            self.codec,
            schemas={**self.codec.schemas, **schemas},
            placements={**self.codec.placements, **placements},
        )
        grown = self._with_fields(fields, table.layout)
        return replace(grown, codec=codec, properties={**self.properties, **properties})

    def view(self, table: TopicTable) -> TopicTable:
        """A state of the table as it would be with these columns."""
        own = Schema(*(field for field in table.iceberg_schema.fields if table.layout.is_metadata(field.name)))
        return replace(
            table,
            codec=self.codec,
            iceberg_schema=Schema(*own.fields, *self.columns),
            shown_schema=self.shown(table),
            settings=ParquetSettings.from_properties(self.properties),
        )

    def with_settings(self, chosen: ParquetSettings) -> Self:
        """With the encodings that a file was written with, for columns that none was known of."""
        known = ParquetSettings.from_properties(self.properties)
        settings = chosen if known is None else known.or_else(chosen)
        return self if settings == known else replace(self, properties={**self.properties, **settings.to_properties()})

    def shown(self, table: TopicTable) -> Schema:
        """The columns as engines will see them: another program's own ones stay. Raises Invalid where one of those
        has a new column's name."""
        goes = {one.field_id for one in table.iceberg_schema.fields if not table.layout.is_metadata(one.name)}
        stays = [one for one in table.shown_schema.fields if one.field_id not in goes]
        taken = {one.name.casefold() for one in stays} & {one.name.casefold() for one in self.columns}
        if taken:
            raise Invalid(
                f"another program gave the table a column {', '.join(sorted(taken))}, which the new format has too",
                topic=table.topic,
                next_step="rename that column",
            )
        return Schema(*stays, *self.columns)

    def to_json(self) -> str:
        return json.dumps(
            {
                "plan_id": self.plan_id,
                "topic_id": self.topic_id,
                "first_id": self.first_id,
                "columns": Schema(*self.columns).model_dump_json(),
                "properties": dict(self.properties),
            }
        )

    @classmethod
    def from_json(cls, text: str, codec_of: Callable[[Mapping[str, str], CodecProperties], CodecSpec]) -> Self:
        """``codec_of`` as ``TableLoader.codec``. Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(
                plan_id=value["plan_id"],
                topic_id=value["topic_id"],
                first_id=int(value["first_id"]),
                codec=codec_of(value["properties"], VALUE_PROPERTIES),
                columns=tuple(Schema.model_validate_json(value["columns"]).fields),
                properties=value["properties"],
            )
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise Invalid(f"a plan of a retype is not the JSON that this program writes: {error!r}") from error

    def _with_fields(self, fields: Sequence[pa.Field], layout: TableLayout) -> Self:
        wanted = (one for one in iceberg_schema(layout, fields).fields if not layout.is_metadata(one.name))
        known = max(Schema(*self.columns).field_ids, default=self.first_id - 1)
        return replace(self, columns=tuple(_numbered(wanted, self.columns, count(known + 1))))


def _numbered(wanted: Iterable[NestedField], known: Iterable[NestedField], ids: Iterator[int]) -> Iterator[NestedField]:
    """Fields with the ids that ``known`` ones of their names have, and new ones."""
    by_name = {field.name: field for field in known}
    for field in wanted:
        before = by_name.get(field.name)
        field_id = next(ids) if before is None else before.field_id
        kind = _type_numbered(field.field_type, None if before is None else before.field_type, ids)
        yield NestedField(field_id, field.name, kind, required=field.required)


def _type_numbered(wanted: IcebergType, known: IcebergType | None, ids: Iterator[int]) -> IcebergType:
    if isinstance(wanted, StructType):
        return StructType(*_numbered(wanted.fields, known.fields if isinstance(known, StructType) else (), ids))
    if isinstance(wanted, ListType):
        before = known if isinstance(known, ListType) else None
        element_id = next(ids) if before is None else before.element_id
        element = _type_numbered(wanted.element_type, before and before.element_type, ids)
        return ListType(element_id, element, wanted.element_required)
    if isinstance(wanted, MapType):
        mapped = known if isinstance(known, MapType) else None
        key_id, value_id = (next(ids), next(ids)) if mapped is None else (mapped.key_id, mapped.value_id)
        key = _type_numbered(wanted.key_type, mapped and mapped.key_type, ids)
        value = _type_numbered(wanted.value_type, mapped and mapped.value_type, ids)
        return MapType(key_id, key, value_id, value, wanted.value_required)
    return wanted
