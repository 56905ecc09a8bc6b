"""Which columns a table needs once one more schema writes into it: one rule for every format that has schemas.

A format hands in what its schema wants as Arrow fields; a field's metadata says what else identifies it: ``ALIASES``
(a JSON list of names it had before) and ``NUMBER`` (a number that is its identity, whatever its name).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.value_codec import FieldProposal, OnConflict, Placement

ALIASES = b"floeberg.aliases"
NUMBER = b"floeberg.number"


def evolve_columns(
    existing: Sequence[pa.Field],
    wanted: Sequence[pa.Field],
    *,
    earlier: Sequence[tuple[Sequence[pa.Field], Placement]],
    on_conflict: OnConflict,
    unmapped: Sequence[str] = (),
) -> FieldProposal:
    """The existing columns with what is ``wanted``, and where each wanted field stands.

    ``earlier`` what each known schema wanted, oldest first, with its placement. ``unmapped`` is handed on, with the
    fields that get no column here.
    """
    del earlier, on_conflict
    found = list(unmapped)
    try:
        fields = _merge_fields(tuple(existing), list(wanted), "", found)
    except Invalid as conflict:
        return FieldProposal(fields=tuple(existing), conflicts=(conflict.problem,), unmapped=tuple(found))
    return FieldProposal(fields=fields, unmapped=tuple(found))


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
