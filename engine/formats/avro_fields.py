"""Which columns a table needs for one more Avro writer schema."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.avro_mapping import arrow_type, map_schema, opaque_fields
from engine.formats.avro_schema import parse_schema
from engine.formats.value_codec import FieldProposal


def propose_fields(schema_text: str, existing: tuple[pa.Field, ...]) -> FieldProposal:
    """The existing columns with what the schema adds, at every level, by name.

    Raises Invalid when the text is no Avro schema. A field whose type differs from its column's is a conflict.
    """
    root = map_schema(parse_schema(schema_text))
    wanted = arrow_type(root)
    unmapped = tuple(opaque_fields(root))
    try:
        fields = _merge_fields(existing, list(wanted) if wanted is not None else [], "")
    except Invalid as conflict:
        return FieldProposal(fields=existing, conflict=conflict.problem, unmapped=unmapped)
    return FieldProposal(fields=fields, unmapped=unmapped)


def _merge_fields(existing: tuple[pa.Field, ...], wanted: list[pa.Field], path: str) -> tuple[pa.Field, ...]:
    by_name = {field.name: field for field in wanted}
    merged = []
    for field in existing:
        new = by_name.pop(field.name, None)
        inner = f"{path}.{field.name}" if path else field.name
        merged.append(field if new is None else field.with_type(_merge_types(field.type, new.type, inner)))
    return (*merged, *by_name.values())


def _merge_types(existing: pa.DataType, wanted: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_struct(existing) and pa.types.is_struct(wanted):
        return pa.struct(_merge_fields(tuple(existing), list(wanted), path))
    if pa.types.is_map(existing) and pa.types.is_map(wanted) and existing.key_type == wanted.key_type:
        item = existing.item_field
        return pa.map_(
            existing.key_field, item.with_type(_merge_types(existing.item_type, wanted.item_type, f"{path}{{}}"))
        )
    if pa.types.is_list(existing) and pa.types.is_list(wanted):
        element = existing.value_field
        return pa.list_(element.with_type(_merge_types(existing.value_type, wanted.value_type, f"{path}[]")))
    if existing != wanted:
        raise Invalid(f"field {path}: the schema has {wanted}, the table has {existing}")
    return existing
