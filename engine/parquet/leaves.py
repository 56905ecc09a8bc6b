"""The leaf columns of a table file's schema, and the field id that each of its fields carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from engine.errors import Invalid

FIELD_ID_KEY = b"PARQUET:field_id"
"""Where Arrow's schemas keep a field's id for Parquet."""


def leaves(schema: Iterable[pa.Field]) -> Iterator[tuple[str, pa.Field]]:
    """(path in the Parquet file, field) of each leaf in file order; paths as ``a.list.element.b``."""
    for field in schema:
        yield from _leaves_of(field, field.name)


def _leaves_of(field: pa.Field, path: str) -> Iterator[tuple[str, pa.Field]]:
    kind = field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves_of(child, f"{path}.{child.name}")
    elif pa.types.is_list(kind):
        yield from _leaves_of(kind.value_field, f"{path}.list.element")
    elif pa.types.is_map(kind):
        yield from _leaves_of(kind.key_field, f"{path}.key_value.key")
        yield from _leaves_of(kind.item_field, f"{path}.key_value.value")
    else:
        yield path, field


def field_id(field: pa.Field) -> int:
    """The id a field carries. Raises Invalid where it carries none."""
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    if text is None:
        raise Invalid(f"the column {field.name} carries no field id")
    return int(text)
