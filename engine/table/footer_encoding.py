"""Encodes a Parquet file's footer, whole or for a small file made of a few pages.

Source: the Parquet format specification, ``parquet.thrift``, FileMetaData.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.table.parquet_footer import MAGIC
from engine.table.thrift_compact import BINARY, I32, I64, LIST, STRUCT, binary, listed, struct, zigzag


def encode_footer(
    *,
    schema: list[bytes],
    row_count: int,
    row_groups: list[bytes],
    key_values: Mapping[str, str] | None = None,
    created_by: bytes | None = None,
    column_orders: int = 0,
) -> bytes:
    """A footer with its length and magic; ``column_orders``: how many columns have statistics in their type's order."""
    fields = [
        (1, I32, zigzag(2)),
        (2, LIST, listed(STRUCT, schema)),
        (3, I64, zigzag(row_count)),
        (4, LIST, listed(STRUCT, row_groups)),
    ]
    if key_values:
        pairs = [
            struct(((1, BINARY, binary(key.encode())), (2, BINARY, binary(value.encode()))))
            for key, value in key_values.items()
        ]
        fields.append((5, LIST, listed(STRUCT, pairs)))
    if created_by is not None:
        fields.append((6, BINARY, binary(created_by)))
    if column_orders:
        type_defined = struct(((1, STRUCT, struct(())),))
        fields.append((7, LIST, listed(STRUCT, [type_defined] * column_orders)))
    encoded = struct(fields)
    return encoded + len(encoded).to_bytes(4, "little") + MAGIC
