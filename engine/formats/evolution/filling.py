"""An older file's columns as the table's schema has them now: as wide, with null where it lacked a field."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.evolution.promotion import promoted


def filled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of an older file with exactly the type ``kind``: promoted, dictionaries decoded, and null in the fields
    of structs that it lacked. Raises Invalid for an array that a column of the type never was."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    made = _with_fields(promoted(array, kind), kind)
    if made.type != kind:
        raise Invalid(f"a column of type {array.type} does not become one of {kind}")
    return made


def _with_fields(array: pa.Array, kind: pa.DataType) -> pa.Array:
    found = array.type
    if found == kind:
        return array
    if pa.types.is_struct(found) and pa.types.is_struct(kind):
        return _filled_struct(array, kind)
    if pa.types.is_list(found) and pa.types.is_list(kind):
        return _around(array, kind, filled(array.values, kind.value_type))
    if pa.types.is_map(found) and pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
        entries = [filled(array.keys, kind.key_type), filled(array.items, kind.item_type)]
        return _around(array, kind, pa.StructArray.from_arrays(entries, fields=fields))
    return array


def _filled_struct(array: pa.StructArray, kind: pa.StructType) -> pa.Array:
    known = {field.name: array.field(index) for index, field in enumerate(array.type)}
    lacking = [field for field in kind if field.name not in known]
    if len(known) + len(lacking) != len(kind) or not all(field.nullable for field in lacking):
        return array
    children = [
        filled(known[field.name], field.type) if field.name in known else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null() if array.null_count else None)


def _around(array: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """The lists or maps of ``array`` around another child."""
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[child]
    )
