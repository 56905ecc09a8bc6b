"""Which columns a table needs for one more Protobuf writer schema.

A field's identity is its number within its message. The messages that values are have numbers of their own each: those
of the first message of the schema that is added are as they stand, those of any other begin at a place of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import pyarrow as pa

from engine.formats.codec import FieldProposal, KnownSchema, OnConflict
from engine.formats.evolution.columns import NUMBER, evolve_columns
from engine.formats.format_facts import MESSAGE_COLUMN
from engine.formats.protobuf.mapping import MessageNode, arrow_fields, opaque_fields
from engine.formats.protobuf.schema import ProtobufSchema, columns_of, parse_schema

# Behind all numbers of fields, and those of their timestamps' nanoseconds.
_NUMBER_BITS = 30


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    """The existing columns with what the schema adds, at every level. Raises Invalid for a text that is no schema."""
    schema = parse_schema(schema_text)
    first = schema.roots[0].message.full_name
    wanted = [field for fields in _wanted(schema, first).values() for field in fields]
    unmapped = [line for root in schema.roots for line in opaque_fields(root.message)]
    if len(schema.roots) > 1:
        wanted.append(pa.field(MESSAGE_COLUMN, pa.string()))
    earlier = [(_earlier(parse_schema(one.text), schema, wanted), one.placement) for one in known]
    return evolve_columns(existing, wanted, earlier=earlier, on_conflict=on_conflict, unmapped=unmapped)


def _wanted(schema: ProtobufSchema, first: str) -> dict[str, list[pa.Field]]:
    """By the full name of their message, the columns of a schema; those of the message ``first`` with plain numbers."""
    found: dict[str, list[pa.Field]] = {root.message.full_name: [] for root in schema.roots}
    for root, field in columns_of(schema):
        name = root.message.full_name
        for column in arrow_fields(MessageNode(full_name=name, fields=(field,)), NUMBER):
            number = int(column.metadata[NUMBER])
            if name != first:
                number += crc32(name.encode()) << _NUMBER_BITS
            found[name].append(column.with_metadata({NUMBER: str(number)}))
    return found


def _earlier(known: ProtobufSchema, schema: ProtobufSchema, wanted: list[pa.Field]) -> list[pa.Field]:
    """What an earlier schema wanted. Its messages that are none of the new schema's have numbers that say nothing of
    it: their fields are those of the same names."""
    by_name = {field.name: field for field in wanted}
    names = {root.message.full_name for root in schema.roots}
    fields = []
    for name, columns in _wanted(known, schema.roots[0].message.full_name).items():
        fields += columns if name in names else [_renumbered(one, by_name.get(one.name)) for one in columns]
    if len(known.roots) > 1:
        fields.append(pa.field(MESSAGE_COLUMN, pa.string()))
    return fields


def _renumbered(field: pa.Field, like: pa.Field | None) -> pa.Field:
    """The field with the numbers of another of the same name, and so on inwards."""
    kind = _renumbered_type(field.type, None if like is None else like.type)
    metadata: Mapping[bytes, bytes] = {} if like is None else like.metadata or {}
    return pa.field(field.name, kind, field.nullable, dict(metadata) or None)


def _renumbered_type(kind: pa.DataType, like: pa.DataType | None) -> pa.DataType:
    if pa.types.is_struct(kind):
        others = {child.name: child for child in like} if like is not None and pa.types.is_struct(like) else {}
        return pa.struct([_renumbered(child, others.get(child.name)) for child in kind])
    if pa.types.is_list(kind):
        inner = like.value_type if like is not None and pa.types.is_list(like) else None
        return pa.list_(kind.value_field.with_type(_renumbered_type(kind.value_type, inner)))
    if pa.types.is_map(kind):
        inner = like.item_type if like is not None and pa.types.is_map(like) else None
        return pa.map_(kind.key_field, kind.item_field.with_type(_renumbered_type(kind.item_type, inner)))
    return kind
