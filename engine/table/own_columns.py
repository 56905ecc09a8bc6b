"""Floeberg's own columns: under the names it gave them and of the types it writes, whatever others call them since.

Field ids tie them to the table's columns. Another program may rename a column, widen its type or add one beside: files
of Floeberg's go on as they were, for engines look columns up by id; what others write is read by id too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from engine.errors import Invalid
from engine.table.columns import TableLayout, iceberg_schema
from engine.table.properties import COLUMNS_PROPERTY


def columns_property(own: Schema, table: Schema) -> dict[str, str]:
    """``own`` as a property to set; nothing where the table's schema says the same."""
    return {} if own.as_struct() == table.as_struct() else {COLUMNS_PROPERTY: own.model_dump_json()}


def schema_to_add(
    own: Schema, table: Schema, layout: TableLayout, wanted: Sequence[pa.Field], wanted_key: Sequence[pa.Field]
) -> Schema:
    """The value's and the key's fields that are ``wanted``, as the table calls them, to be united with it by name.

    Raises Invalid where a new column's name is one that another program gave to a column of ours.
    """
    wished = iceberg_schema(layout, wanted, wanted_key)
    return Schema(*_as_table_calls(wished.fields, own.fields, table.fields, {field.field_id for field in own.fields}))


def with_added(
    own: Schema, after: Schema, layout: TableLayout, wanted: Sequence[pa.Field], wanted_key: Sequence[pa.Field]
) -> Schema:
    """Our own columns once what is wanted has been added to a table that is now ``after``."""
    return Schema(*_with_ids(iceberg_schema(layout, wanted, wanted_key).fields, own.fields, after.fields))


def _as_table_calls(
    wanted: Iterable[NestedField], own: Iterable[NestedField], table: Iterable[NestedField], own_ids: set[int]
) -> list[NestedField]:
    ours = {field.name: field for field in own}
    by_id = {field.field_id: field for field in table}
    by_name = {field.name: field for field in by_id.values()}
    named = []
    for field in wanted:
        known = ours.get(field.name)
        if known is None:
            taken = by_name.get(field.name)
            if taken is not None and taken.field_id in own_ids:
                raise Invalid(f"somebody else renamed a column of the table to {field.name}, which a schema now adds")
            named.append(field)
        elif known.field_id in by_id:
            there = by_id[known.field_id]
            kind = _type_as_table_calls(field.field_type, known.field_type, there.field_type)
            named.append(there.model_copy(update={"field_type": kind}))
    return named


def _type_as_table_calls(wanted: IcebergType, own: IcebergType, table: IcebergType) -> IcebergType:
    if isinstance(wanted, StructType) and isinstance(own, StructType) and isinstance(table, StructType):
        ids = {field.field_id for field in own.fields}
        return StructType(*_as_table_calls(wanted.fields, own.fields, table.fields, ids))
    if isinstance(wanted, ListType) and isinstance(own, ListType) and isinstance(table, ListType):
        element = _type_as_table_calls(wanted.element_type, own.element_type, table.element_type)
        return _list_like(table, element)
    if isinstance(wanted, MapType) and isinstance(own, MapType) and isinstance(table, MapType):
        value = _type_as_table_calls(wanted.value_type, own.value_type, table.value_type)
        return _map_like(table, value)
    # As wide as the table has it: what we write may be narrower. Wider than that it becomes for a schema's sake.
    return table if own == wanted or _is_wider(table, wanted) else wanted


# Built again: a copy with another type keeps the field that it made of the old one.
def _list_like(kind: ListType, element: IcebergType) -> ListType:
    return ListType(kind.element_id, element, kind.element_required)


def _map_like(kind: MapType, value: IcebergType) -> MapType:
    return MapType(kind.key_id, kind.key_type, kind.value_id, value, kind.value_required)


def _is_wider(table: IcebergType, wanted: IcebergType) -> bool:
    if isinstance(table, DecimalType) and isinstance(wanted, DecimalType):
        return bool(table.scale == wanted.scale and table.precision > wanted.precision)
    return (wanted, table) in {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def _with_ids(
    wanted: Iterable[NestedField], own: Iterable[NestedField], after: Iterable[NestedField]
) -> list[NestedField]:
    ours = {field.name: field for field in own}
    by_id = {field.field_id: field for field in after}
    by_name = {field.name: field for field in by_id.values()}
    made = []
    for field in wanted:
        known = ours.get(field.name)
        there = by_name.get(field.name) if known is None else by_id.get(known.field_id, known)
        if there is None:
            raise Invalid(f"the column {field.name} was not added")
        source = there if known is None else known
        kind = _type_with_ids(field.field_type, source.field_type, there.field_type)
        made.append(source.model_copy(update={"field_type": kind}))
    return made


def _type_with_ids(wanted: IcebergType, own: IcebergType, after: IcebergType) -> IcebergType:
    if isinstance(wanted, StructType) and isinstance(own, StructType) and isinstance(after, StructType):
        return StructType(*_with_ids(wanted.fields, own.fields, after.fields))
    if isinstance(wanted, ListType) and isinstance(own, ListType) and isinstance(after, ListType):
        element = _type_with_ids(wanted.element_type, own.element_type, after.element_type)
        return _list_like(own, element)
    if isinstance(wanted, MapType) and isinstance(own, MapType) and isinstance(after, MapType):
        value = _type_with_ids(wanted.value_type, own.value_type, after.value_type)
        return _map_like(own, value)
    return wanted
