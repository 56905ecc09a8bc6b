"""The columns of a topic's table: Kafka's own first, flat and prefixed, then the fields of the value.

docs/row_format.md describes them; field ids are those of the created Iceberg table, never ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from engine.errors import Invalid
from engine.formats.format_facts import FORMATS, noted_columns
from engine.parquet.leaves import FIELD_ID_KEY

UTC = "UTC"

US_PER_MS = 1000

MILLISECONDS_KEPT = 2
"""Added to ``kafka_timestamp_type`` where the timestamp has no microseconds in 64 bits and stands as it is."""

HEADERS_TYPE = pa.list_(
    pa.field(
        "element", pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]), False
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What a topic's settings decide about Kafka's own columns: the prefix of their names and the type of the key.

    ``key`` names a format: a plain one's column is the key itself, any other's a struct of that codec's fields.
    """

    prefix: str = "kafka_"
    key: str = "string"

    def __post_init__(self) -> None:
        if not self.prefix or not self.prefix.isascii():
            raise Invalid(f"a column prefix is one or more ASCII characters, not {self.prefix!r}")
        if self.key not in FORMATS:
            raise Invalid(f"a topic's key is one of {', '.join(sorted(FORMATS))}, not {self.key!r}")

    @property
    def has_typed_key(self) -> bool:
        """Whether a codec makes the key's column, and its bytes again."""
        return FORMATS[self.key].plain_key is None

    @property
    def key_has_schemas(self) -> bool:
        """Whether keys may name a writer schema: the columns of the key are then known with the first one."""
        return FORMATS[self.key].schemas is not None

    @property
    def partition(self) -> str:
        return f"{self.prefix}partition"

    @property
    def offset(self) -> str:
        return f"{self.prefix}offset"

    @property
    def timestamp(self) -> str:
        return f"{self.prefix}timestamp"

    @property
    def timestamp_type(self) -> str:
        return f"{self.prefix}timestamp_type"

    @property
    def leader_epoch(self) -> str:
        return f"{self.prefix}leader_epoch"

    @property
    def key_column(self) -> str:
        return f"{self.prefix}key"

    @property
    def key_raw(self) -> str:
        return f"{self.prefix}key_raw"

    @property
    def key_schema_id(self) -> str:
        return f"{self.prefix}key_schema_id"

    @property
    def headers(self) -> str:
        return f"{self.prefix}headers"

    @property
    def headers_raw(self) -> str:
        return f"{self.prefix}headers_raw"

    @property
    def value_raw(self) -> str:
        return f"{self.prefix}value_raw"

    @property
    def schema_id(self) -> str:
        return f"{self.prefix}schema_id"

    @property
    def error(self) -> str:
        return f"{self.prefix}error"

    @property
    def is_null(self) -> str:
        return f"{self.prefix}is_null"

    def metadata_fields(self, key_fields: Sequence[pa.Field] = ()) -> tuple[pa.Field, ...]:
        """Kafka's own columns in table order, without field ids.

        ``key_fields`` what a typed key is made of: a struct needs a field at least, so without any there is no column.
        """
        return (
            pa.field(self.partition, pa.int32(), nullable=False),
            pa.field(self.offset, pa.int64(), nullable=False),
            pa.field(self.timestamp, pa.timestamp("us", UTC), nullable=False),
            pa.field(self.timestamp_type, pa.int32()),
            pa.field(self.leader_epoch, pa.int32()),
            *self._key_field(key_fields),
            pa.field(self.key_raw, pa.binary()),
            *((pa.field(self.key_schema_id, pa.int32()),) if self.key_has_schemas else ()),
            pa.field(self.headers, HEADERS_TYPE),
            pa.field(self.headers_raw, pa.binary()),
            pa.field(self.value_raw, pa.binary()),
            pa.field(self.schema_id, pa.int32()),
            pa.field(self.error, pa.string()),
            pa.field(self.is_null, pa.bool_()),
        )

    def _key_field(self, key_fields: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
        plain = FORMATS[self.key].plain_key
        if plain is not None:
            return (pa.field(self.key_column, pa.type_for_alias(plain)),)
        return (pa.field(self.key_column, pa.struct(list(key_fields))),) if key_fields else ()

    def is_metadata(self, name: str) -> bool:
        """Whether engines, which compare names without case, would take a column for one of Kafka's own."""
        return name.casefold().startswith(self.prefix.casefold()) and name not in noted_columns()

    def to_json(self) -> str:
        return json.dumps({"prefix": self.prefix, "key": self.key}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(prefix=value["prefix"], key=value["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"a table layout is not the JSON that this program writes: {error!r}") from error


def iceberg_schema(
    layout: TableLayout, value_fields: Sequence[pa.Field], key_fields: Sequence[pa.Field] = ()
) -> Schema:
    """The schema to create a table with. Ids are provisional: the created table has its own.

    Raises Invalid when a value field's name starts with the prefix, repeats, or has a type no column can hold.
    """
    _check_names(layout, value_fields)
    ids = iter(range(1, 1 << 30))
    return Schema(*(_nested_field(field, ids) for field in (*layout.metadata_fields(key_fields), *value_fields)))


def _check_names(layout: TableLayout, value_fields: Sequence[pa.Field]) -> None:
    seen: set[str] = set()
    for field in value_fields:
        if layout.is_metadata(field.name):
            raise Invalid(
                f"the value's field {field.name} would be taken for one of Kafka's columns ({layout.prefix}…)",
                next_step="set another column_prefix for this topic",
            )
        if field.name in seen:
            raise Invalid(f"the value has two fields named {field.name}")
        seen.add(field.name)


def value_fields(schema: Schema, layout: TableLayout) -> tuple[pa.Field, ...]:
    """The value's columns of a table as Arrow fields without ids, in table order."""
    return tuple(_arrow_field(field, with_ids=False) for field in schema.fields if not layout.is_metadata(field.name))


def key_fields(schema: Schema, layout: TableLayout) -> tuple[pa.Field, ...]:
    """What a table's typed key is made of, as Arrow fields without ids; none for other keys, and before the first."""
    return key_fields_of((_arrow_field(field, with_ids=False) for field in schema.fields), layout)


def key_fields_of(fields: Iterable[pa.Field], layout: TableLayout) -> tuple[pa.Field, ...]:
    """The fields of the typed key among a table's columns."""
    found = (field.type for field in fields if field.name == layout.key_column and layout.has_typed_key)
    return tuple(next(found, pa.struct([])))


def arrow_schema(schema: Schema, *, with_ids: bool = True) -> pa.Schema:
    """A table's columns as they are written to Parquet: every level carries its field id as ``PARQUET:field_id``, or
    none does."""
    return pa.schema([_arrow_field(field, with_ids=with_ids) for field in schema.fields])


_PRIMITIVES: tuple[tuple[pa.DataType, iceberg.PrimitiveType], ...] = (
    (pa.bool_(), iceberg.BooleanType()),
    (pa.int32(), iceberg.IntegerType()),
    (pa.int64(), iceberg.LongType()),
    (pa.float32(), iceberg.FloatType()),
    (pa.float64(), iceberg.DoubleType()),
    (pa.date32(), iceberg.DateType()),
    (pa.time64("us"), iceberg.TimeType()),
    (pa.timestamp("us", UTC), iceberg.TimestamptzType()),
    (pa.timestamp("us"), iceberg.TimestampType()),
    (pa.string(), iceberg.StringType()),
    (pa.binary(), iceberg.BinaryType()),
    (pa.uuid(), iceberg.UUIDType()),
)
_TO_ICEBERG = dict(_PRIMITIVES)
_TO_ARROW = {kind: arrow for arrow, kind in _PRIMITIVES}


def _nested_field(field: pa.Field, ids: Iterator[int]) -> Any:
    own_id = next(ids)
    return iceberg.NestedField(own_id, field.name, _iceberg_type(field, ids), required=not field.nullable)


def _iceberg_type(field: pa.Field, ids: Iterator[int]) -> iceberg.IcebergType:
    kind = field.type
    if kind in _TO_ICEBERG:
        return _TO_ICEBERG[kind]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return iceberg.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return iceberg.FixedType(kind.byte_width)
    if pa.types.is_struct(kind):
        return iceberg.StructType(*(_nested_field(child, ids) for child in kind))
    if pa.types.is_list(kind):
        element = kind.value_field
        return iceberg.ListType(next(ids), _iceberg_type(element, ids), element_required=not element.nullable)
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        key_id, item_id = next(ids), next(ids)
        return iceberg.MapType(
            key_id, _iceberg_type(key, ids), item_id, _iceberg_type(item, ids), value_required=not item.nullable
        )
    raise Invalid(f"the column {field.name} has the type {kind}, which an Iceberg table can't hold")


def _arrow_field(field: Any, *, with_ids: bool) -> pa.Field:
    kind = _arrow_type(field.field_type, with_ids=with_ids)
    return pa.field(field.name, kind, not field.required, _id_metadata(field.field_id, with_ids))


def _id_metadata(field_id_: int, with_ids: bool) -> dict[bytes, bytes] | None:
    return {FIELD_ID_KEY: str(field_id_).encode()} if with_ids else None


def _arrow_type(kind: iceberg.IcebergType, *, with_ids: bool) -> pa.DataType:
    if isinstance(kind, iceberg.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, iceberg.FixedType):
        return pa.binary(len(kind))
    if isinstance(kind, iceberg.StructType):
        return pa.struct([_arrow_field(child, with_ids=with_ids) for child in kind.fields])
    if isinstance(kind, iceberg.ListType):
        element = _arrow_type(kind.element_type, with_ids=with_ids)
        metadata = _id_metadata(kind.element_id, with_ids)
        return pa.list_(pa.field("element", element, not kind.element_required, metadata))
    if isinstance(kind, iceberg.MapType):
        key = _arrow_type(kind.key_type, with_ids=with_ids)
        value = _arrow_type(kind.value_type, with_ids=with_ids)
        return pa.map_(
            pa.field("key", key, False, _id_metadata(kind.key_id, with_ids)),
            pa.field("value", value, not kind.value_required, _id_metadata(kind.value_id, with_ids)),
        )
    if kind in _TO_ARROW:
        return _TO_ARROW[kind]
    raise Invalid(f"a table column has the type {kind}, which no value is written as")
