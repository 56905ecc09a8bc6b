"""Types in Iceberg's words: for people, and for the names of columns."""

from __future__ import annotations

import pyarrow as pa

_WORDS = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_struct, "struct"),
    (pa.types.is_map, "map"),
    (pa.types.is_list, "list"),
    (lambda kind: isinstance(kind, pa.UuidType), "uuid"),
)


def type_word(kind: pa.DataType) -> str:
    """What a sibling column of this type adds to its field's name."""
    if pa.types.is_decimal(kind):
        return f"decimal_{kind.precision}_{kind.scale}"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed_{kind.byte_width}"
    return next((word for is_kind, word in _WORDS if is_kind(kind)), str(kind))


def type_text(kind: pa.DataType) -> str:
    """A type as Iceberg writes it."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{child.name}: {type_text(child.type)}' for child in kind)}>"
    if pa.types.is_list(kind):
        return f"list<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    return type_word(kind)
