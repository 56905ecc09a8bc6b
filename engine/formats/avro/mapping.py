"""Which Iceberg column, as an Arrow type, each Avro type becomes; what has none, and why.

The table of docs/row_format.md, in code. Every mapped type is lossless for the canonical encodings of its values; the
kernels see the others and keep the record's bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.avro.schema import AvroType
from engine.formats.evolution.columns import ALIASES

# A record type used by many others multiplies: without a bound, thirty nested declarations make a billion columns.
MAX_TYPES = 8192
# A null row of a fixed-size column takes the column's size all the same.
MAX_FIXED_BYTES = 4096
MAX_DECIMAL_PRECISION = 38
NO_CONSTANT = -1

VALUE_NAME = "value"
"""The single column of a schema that is not a record."""


class Kind(IntEnum):
    """How a leaf's bytes are read and written; the kernels' operation codes of the leaves."""

    LONG = 0
    INT = 1
    DOUBLE = 2
    FLOAT = 3
    BOOLEAN = 4
    STRING = 5
    BYTES = 6
    ENUM = 7
    FIXED = 8
    TIMESTAMP_MILLIS = 9
    TIME_MILLIS = 10
    TIME_MICROS = 11
    DECIMAL_BYTES = 12
    DECIMAL_FIXED = 13
    UUID_TEXT = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One column. ``size``: bytes of a fixed; ``precision`` of a decimal; ``symbols`` of an enum."""

    kind: Kind
    type: pa.DataType
    size: int = 0
    precision: int = 0
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNode:
    """A field of a record; ``avro`` is kept for tables that have no column for it; ``aliases`` its former names."""

    name: str
    node: Node
    avro: AvroType
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNode:
    fields: tuple[FieldNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    items: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    values: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionNode:
    """A union that a nullable column holds: ``null_index`` of the null branch, -1 for a union of one branch."""

    inner: Node
    null_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Takes no bytes and says nothing: null, a fixed of size 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """No column can hold it. ``constant`` is the one byte that stands for its null or its emptiness, which needs no
    column, or -1 where there is none."""

    why: str
    avro: AvroType
    constant: int = NO_CONSTANT


Node: TypeAlias = Leaf | RecordNode | ListNode | MapNode | UnionNode | Nothing | Opaque

_TIMESTAMP, _LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_PLAIN = {
    "boolean": (Kind.BOOLEAN, pa.bool_()),
    "int": (Kind.INT, pa.int32()),
    "long": (Kind.LONG, pa.int64()),
    "float": (Kind.FLOAT, pa.float32()),
    "double": (Kind.DOUBLE, pa.float64()),
    "bytes": (Kind.BYTES, pa.binary()),
    "string": (Kind.STRING, pa.string()),
}
_LOGICAL = {
    ("int", "date"): (Kind.INT, pa.date32()),
    ("int", "time-millis"): (Kind.TIME_MILLIS, pa.time64("us")),
    ("long", "time-micros"): (Kind.TIME_MICROS, pa.time64("us")),
    ("long", "timestamp-millis"): (Kind.TIMESTAMP_MILLIS, _TIMESTAMP),
    ("long", "timestamp-micros"): (Kind.LONG, _TIMESTAMP),
    ("long", "local-timestamp-millis"): (Kind.TIMESTAMP_MILLIS, _LOCAL),
    ("long", "local-timestamp-micros"): (Kind.LONG, _LOCAL),
    # Version 2 tables have no nanosecond type: timestamp-nanos and local-timestamp-nanos stay the long they are.
    ("string", "uuid"): (Kind.UUID_TEXT, pa.uuid()),
}


def map_schema(schema: AvroType) -> RecordNode:
    """The tree of a schema's columns; one that is no record becomes a record of the single field ``value``.

    Raises Invalid when the schema would unfold to more than MAX_TYPES types.
    """
    node = _Mapper().map(schema, ())
    if isinstance(node, RecordNode):
        return node
    return RecordNode(fields=(FieldNode(name=VALUE_NAME, node=node, avro=schema),))


def opaque(avro: AvroType, why: str) -> Opaque:
    """A type without a column; its null, or its emptiness, is still exact where one byte says it."""
    constant = NO_CONSTANT
    if avro.kind in ("array", "map"):
        constant = 0
    if avro.kind == "union":
        nulls = [index for index, branch in enumerate(avro.branches) if branch.kind == "null"]
        constant = nulls[0] << 1 if nulls and nulls[0] < 64 else NO_CONSTANT
    return Opaque(why=why, avro=avro, constant=constant)


def arrow_type(node: Node) -> pa.DataType | None:
    """The column's type, nullable at every level (map keys apart); None where there is no column. Fields carry their
    former names, as ``evolve_columns`` wants them."""
    if isinstance(node, Leaf):
        return node.type
    if isinstance(node, UnionNode):
        return arrow_type(node.inner)
    if isinstance(node, RecordNode):
        typed = [(child, arrow_type(child.node)) for child in node.fields]
        children = [_arrow_field(child, kind) for child, kind in typed if kind is not None]
        return pa.struct(children) if children else None
    if isinstance(node, ListNode):
        return pa.list_(pa.field("element", arrow_type(node.items)))
    if isinstance(node, MapNode):
        return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", arrow_type(node.values)))
    return None


def _arrow_field(field: FieldNode, kind: pa.DataType) -> pa.Field:
    metadata = {ALIASES: json.dumps(field.aliases).encode()} if field.aliases else None
    return pa.field(field.name, kind, metadata=metadata)


def opaque_fields(node: Node, path: str = "") -> list[str]:
    """What has no column, as ``path: why``."""
    if isinstance(node, Opaque):
        return [f"{path}: {node.why}"]
    if isinstance(node, RecordNode):
        inner = [(f"{path}.{field.name}" if path else field.name, field.node) for field in node.fields]
    elif isinstance(node, ListNode):
        inner = [(f"{path}[]", node.items)]
    elif isinstance(node, MapNode):
        inner = [(f"{path}{{}}", node.values)]
    elif isinstance(node, UnionNode):
        inner = [(path, node.inner)]
    else:
        inner = []
    return [line for child_path, child in inner for line in opaque_fields(child, child_path)]


class _Mapper:
    def __init__(self) -> None:
        self.type_count = 0

    def map(self, avro: AvroType, open_records: tuple[AvroType, ...]) -> Node:
        """``open_records`` are the records this type lies in: meeting one again is recursion."""
        self.type_count += 1
        if self.type_count > MAX_TYPES:
            raise Invalid(f"an Avro schema unfolds to more than {MAX_TYPES} types")
        if avro.kind == "record":
            if avro in open_records:
                return opaque(avro, f"the type {avro.name} contains itself")
            inside = (*open_records, avro)
            fields = [
                FieldNode(name=name, node=self.map(child, inside), avro=child, aliases=avro.aliases.get(name, ()))
                for name, child in avro.fields
            ]
            return RecordNode(fields=tuple(fields))
        if avro.kind == "union":
            return self._union(avro, open_records)
        if avro.kind in ("array", "map"):
            return self._repeated(avro, open_records)
        if avro.kind == "null" or (avro.kind == "fixed" and avro.size == 0):
            return Nothing()
        if avro.kind == "fixed" and avro.size > MAX_FIXED_BYTES:
            return opaque(avro, f"a fixed of more than {MAX_FIXED_BYTES} bytes")
        return _leaf(avro)

    def _union(self, avro: AvroType, open_records: tuple[AvroType, ...]) -> Node:
        nulls = [index for index, branch in enumerate(avro.branches) if branch.kind == "null"]
        values = [branch for branch in avro.branches if branch.kind != "null"]
        if len(values) > 1 or len(nulls) > 1:
            return opaque(avro, "a union of several types")
        if not values:
            return opaque(avro, "a union of nothing but null")
        inner = self.map(values[0], open_records)
        if isinstance(inner, Opaque):
            return opaque(avro, inner.why)
        if nulls and arrow_type(inner) is None:
            return opaque(avro, "a nullable record without columns")
        return UnionNode(inner=inner, null_index=nulls[0] if nulls else -1)

    def _repeated(self, avro: AvroType, open_records: tuple[AvroType, ...]) -> Node:
        assert avro.items is not None, "arrays and maps have items by construction"
        items = self.map(avro.items, open_records)
        if arrow_type(items) is None:
            return opaque(avro, items.why if isinstance(items, Opaque) else "elements without columns")
        return ListNode(items=items) if avro.kind == "array" else MapNode(values=items)


def _leaf(avro: AvroType) -> Leaf:
    if avro.kind == "enum":
        return Leaf(kind=Kind.ENUM, type=pa.string(), symbols=avro.symbols)
    if avro.logical == "decimal" and avro.kind in ("bytes", "fixed") and _is_decimal(avro):
        kind = Kind.DECIMAL_BYTES if avro.kind == "bytes" else Kind.DECIMAL_FIXED
        return Leaf(kind=kind, type=pa.decimal128(avro.precision, avro.scale), size=avro.size, precision=avro.precision)
    if avro.kind == "fixed":
        is_uuid = avro.logical == "uuid" and avro.size == 16
        return Leaf(kind=Kind.FIXED, type=pa.uuid() if is_uuid else pa.binary(avro.size), size=avro.size)
    kind, arrow = _LOGICAL.get((avro.kind, avro.logical or ""), _PLAIN[avro.kind])
    return Leaf(kind=kind, type=arrow)


def _is_decimal(avro: AvroType) -> bool:
    """Whether a decimal annotation is valid and fits; otherwise the specification says to use the underlying type."""
    precision, scale = avro.precision, avro.scale
    return (
        isinstance(precision, int)
        and isinstance(scale, int)
        and 0 < precision <= MAX_DECIMAL_PRECISION
        and 0 <= scale <= precision
    )
