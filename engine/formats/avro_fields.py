"""Which columns a table needs for one more Avro writer schema."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.avro_mapping import arrow_type, map_schema, opaque_fields
from engine.formats.avro_schema import parse_schema
from engine.formats.value_codec import FieldProposal


def propose_fields(schema_text: str, existing: tuple[pa.Field, ...]) -> FieldProposal:
    """The existing columns with what the schema adds, at every level, by name.

    Raises Invalid when the text is no Avro schema. A field whose type differs from its column's is a conflict. A field
    whose name differs from an earlier one's in case alone gets no column: engines would find both ambiguous.
    """
    root = map_schema(parse_schema(schema_text))
    wanted = arrow_type(root)
    unmapped = list(opaque_fields(root))
    try:
        fields = _merge_fields(existing, list(wanted) if wanted is not None else [], "", unmapped)
    except Invalid as conflict:
        return FieldProposal(fields=existing, conflict=conflict.problem, unmapped=tuple(unmapped))
    return FieldProposal(fields=fields, unmapped=tuple(unmapped))


def _merge_fields(
    existing: tuple[pa.Field, ...], wanted: list[pa.Field], path: str, unmapped: list[str]
) -> tuple[pa.Field, ...]:
    by_name = {field.name: field for field in wanted}
    taken = {field.name.casefold(): field.name for field in existing}
    merged = []
    for field in existing:
        new = by_name.pop(field.name, None)
        inner = f"{path}.{field.name}" if path else field.name
        kind = field.type if new is None else _merge_types(field.type, new.type, inner, unmapped)
        merged.append(field.with_type(kind))
    for field in by_name.values():
        inner = f"{path}.{field.name}" if path else field.name
        earlier = taken.setdefault(field.name.casefold(), field.name)
        if earlier == field.name:
            merged.append(field.with_type(_merge_types(_without_fields(field.type), field.type, inner, unmapped)))
        else:
            unmapped.append(f"{inner}: its name differs from {earlier} in case alone")
    return tuple(merged)


def _without_fields(kind: pa.DataType) -> pa.DataType:
    """A type before any field of a record in it was added: what a new column's type begins as."""
    if pa.types.is_struct(kind):
        return pa.struct([])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_without_fields(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_fields(kind.value_type)))
    return kind


def _merge_types(existing: pa.DataType, wanted: pa.DataType, path: str, unmapped: list[str]) -> pa.DataType:
    if pa.types.is_struct(existing) and pa.types.is_struct(wanted):
        return pa.struct(_merge_fields(tuple(existing), list(wanted), path, unmapped))
    if pa.types.is_map(existing) and pa.types.is_map(wanted) and existing.key_type == wanted.key_type:
        item = existing.item_field
        kind = _merge_types(existing.item_type, wanted.item_type, f"{path}{{}}", unmapped)
        return pa.map_(existing.key_field, item.with_type(kind))
    if pa.types.is_list(existing) and pa.types.is_list(wanted):
        element = existing.value_field
        kind = _merge_types(existing.value_type, wanted.value_type, f"{path}[]", unmapped)
        return pa.list_(element.with_type(kind))
    if existing != wanted:
        raise Invalid(f"field {path}: the schema has {wanted}, the table has {existing}")
    return existing
