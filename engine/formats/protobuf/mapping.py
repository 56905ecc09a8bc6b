"""Which Iceberg column, as an Arrow type, each Protobuf field becomes; what has none, and why.

The table of docs/row_format.md, in code. Every mapped type is lossless for the canonical encodings of its values; the
kernels see the others and keep the record's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from engine.errors import Invalid
from engine.formats.protobuf import operations as op

# A message used by many others multiplies: without a bound, thirty nested declarations make a billion columns.
MAX_FIELDS = 8192
MAX_NESTING = 100  # as deep as protobuf's own readers let a value nest

UNSIGNED_LONG = pa.decimal128(20, 0)
SECONDS = pa.decimal128(21, 9)
NANOS_SUFFIX = "__nanos"
"""Behind a timestamp's name: the column of its nanoseconds below the microsecond."""
# Field numbers end at 2^29 - 1: what is no field of its own has numbers behind them.
NANOS_NUMBER = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumTable:
    """An enum's ``numbers``, rising, and the first declared symbol of each; ``default`` is an absent one's number."""

    numbers: tuple[int, ...]
    symbols: tuple[str, ...]
    default: int
    is_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One column, of a value written as the ``kind`` of protobuf_operations says."""

    kind: int
    type: pa.DataType
    enum: EnumTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNode:
    """A field of a message in the order of its numbers. ``has_presence``: absent is not the same as its default;
    ``oneof`` the name of the oneof it is in; ``has_nanos``: its timestamp's nanoseconds may have a column beside."""

    name: str
    number: int
    node: Node
    has_presence: bool
    oneof: str | None = None
    has_nanos: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageNode:
    """A struct; ``is_transparent``: its only field stands for it (wrappers, field masks)."""

    full_name: str
    fields: tuple[FieldNode, ...]
    is_transparent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    items: Node
    is_packed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    keys: Leaf
    values: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """No column can hold it; absent it is exact all the same."""

    why: str


Node: TypeAlias = Leaf | MessageNode | ListNode | MapNode | Opaque

_SCALARS = {
    FieldDescriptor.TYPE_INT32: Leaf(kind=op.INT32, type=pa.int32()),
    FieldDescriptor.TYPE_SINT32: Leaf(kind=op.SINT32, type=pa.int32()),
    FieldDescriptor.TYPE_SFIXED32: Leaf(kind=op.SFIXED32, type=pa.int32()),
    FieldDescriptor.TYPE_INT64: Leaf(kind=op.INT64, type=pa.int64()),
    FieldDescriptor.TYPE_SINT64: Leaf(kind=op.SINT64, type=pa.int64()),
    FieldDescriptor.TYPE_SFIXED64: Leaf(kind=op.SFIXED64, type=pa.int64()),
    FieldDescriptor.TYPE_UINT32: Leaf(kind=op.UINT32, type=pa.int64()),
    FieldDescriptor.TYPE_FIXED32: Leaf(kind=op.FIXED32, type=pa.int64()),
    FieldDescriptor.TYPE_UINT64: Leaf(kind=op.UINT64, type=UNSIGNED_LONG),
    FieldDescriptor.TYPE_FIXED64: Leaf(kind=op.FIXED64, type=UNSIGNED_LONG),
    FieldDescriptor.TYPE_FLOAT: Leaf(kind=op.FLOAT, type=pa.float32()),
    FieldDescriptor.TYPE_DOUBLE: Leaf(kind=op.DOUBLE, type=pa.float64()),
    FieldDescriptor.TYPE_BOOL: Leaf(kind=op.BOOL, type=pa.bool_()),
    FieldDescriptor.TYPE_STRING: Leaf(kind=op.STRING, type=pa.string()),
    FieldDescriptor.TYPE_BYTES: Leaf(kind=op.BYTES, type=pa.binary()),
}
_WELL_KNOWN = {
    "google.protobuf.Timestamp": Leaf(kind=op.TIMESTAMP, type=pa.timestamp("us", "UTC")),
    "google.protobuf.Duration": Leaf(kind=op.DURATION, type=SECONDS),
}
_TRANSPARENT = frozenset(
    f"google.protobuf.{name}"
    for name in (
        "DoubleValue",
        "FloatValue",
        "Int64Value",
        "UInt64Value",
        "Int32Value",
        "UInt32Value",
        "BoolValue",
        "StringValue",
        "BytesValue",
        "FieldMask",
    )
)
_SHAPELESS = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))


def map_message(message: Descriptor) -> MessageNode:
    """The tree of a message's columns. Raises Invalid when it would unfold to more than MAX_FIELDS fields."""
    return _Mapper().message(message, ())


def arrow_type(node: Node, number_key: bytes | None = None) -> pa.DataType | None:
    """The column's type, nullable at every level (map keys apart); None where there is no column. With a
    ``number_key`` the fields of structs carry their numbers under it."""
    if isinstance(node, Leaf):
        return node.type
    if isinstance(node, MessageNode):
        if node.is_transparent:
            return arrow_type(node.fields[0].node, number_key)
        children = arrow_fields(node, number_key)
        return pa.struct(children) if children else None
    if isinstance(node, ListNode):
        return pa.list_(pa.field("element", arrow_type(node.items, number_key)))
    if isinstance(node, MapNode):
        key = pa.field("key", node.keys.type, nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(node.values, number_key)))
    return None


def arrow_fields(node: MessageNode, number_key: bytes | None = None) -> list[pa.Field]:
    """The columns of a message, in the order of its numbers, each timestamp's nanoseconds behind it."""
    made = []
    for field in node.fields:
        kind = arrow_type(field.node, number_key)
        if kind is not None:
            made.append(_field(field.name, kind, field.number, number_key))
        if field.has_nanos:
            made.append(_field(field.name + NANOS_SUFFIX, pa.int32(), field.number + NANOS_NUMBER, number_key))
    return made


def _field(name: str, kind: pa.DataType, number: int, number_key: bytes | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if number_key is None else {number_key: str(number).encode()})


def opaque_fields(node: Node, path: str = "") -> list[str]:
    """What has no column, as ``path: why``."""
    if isinstance(node, Opaque):
        return [f"{path}: {node.why}"]
    if isinstance(node, MessageNode) and not node.is_transparent:
        inner = [(f"{path}.{field.name}" if path else field.name, field.node) for field in node.fields]
    elif isinstance(node, ListNode):
        inner = [(f"{path}[]", node.items)]
    elif isinstance(node, MapNode):
        inner = [(f"{path}{{}}", node.values)]
    else:
        inner = []
    return [line for child_path, child in inner for line in opaque_fields(child, child_path)]


class _Mapper:
    def __init__(self) -> None:
        self._field_count = 0

    def message(self, message: Descriptor, around: tuple[str, ...]) -> MessageNode:
        """``around`` are the messages this one lies in: meeting one again is recursion."""
        inside = (*around, message.full_name)
        names = {field.name for field in message.fields}
        fields = []
        for field in sorted(message.fields, key=lambda one: one.number):
            self._field_count += 1
            if self._field_count > MAX_FIELDS:
                raise Invalid(f"a Protobuf schema unfolds to more than {MAX_FIELDS} fields")
            node = self._field(field, inside)
            fields.append(
                FieldNode(
                    name=field.name,
                    number=field.number,
                    node=node,
                    has_presence=field.has_presence,
                    oneof=field.containing_oneof.name if field.containing_oneof is not None else None,
                    has_nanos=_is_timestamp(node) and field.name + NANOS_SUFFIX not in names,
                )
            )
        is_transparent = message.full_name in _TRANSPARENT
        return MessageNode(full_name=message.full_name, fields=tuple(fields), is_transparent=is_transparent)

    def _field(self, field: FieldDescriptor, around: tuple[str, ...]) -> Node:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field.message_type, around)
        node = self._value(field, around)
        if not field.is_repeated or isinstance(node, Opaque):
            return node
        if isinstance(node, Leaf) and node.kind == op.EMPTY:
            return Opaque(why="a list of messages without fields")
        return ListNode(items=node, is_packed=bool(field.is_packed))

    def _map(self, entry: Descriptor, around: tuple[str, ...]) -> Node:
        keys, values = (self._value(entry.fields_by_name[name], around) for name in ("key", "value"))
        if isinstance(values, Opaque):
            return values
        assert isinstance(keys, Leaf), "a map's keys are scalars"
        return MapNode(keys=keys, values=values)

    def _value(self, field: FieldDescriptor, around: tuple[str, ...]) -> Node:
        if field.type == FieldDescriptor.TYPE_GROUP:
            return Opaque(why="a group")
        if field.enum_type is not None:
            return Leaf(kind=op.ENUM, type=pa.string(), enum=_enum_table(field.enum_type))
        message = field.message_type
        if message is None:
            return _SCALARS[field.type]
        if message.full_name in _WELL_KNOWN:
            return _WELL_KNOWN[message.full_name]
        if message.full_name in _SHAPELESS:
            return Opaque(why=f"a {message.full_name} has no shape of its own")
        if message.full_name in around:
            return Opaque(why=f"the message {message.full_name} contains itself")
        if len(around) > MAX_NESTING:
            return Opaque(why=f"messages nested deeper than {MAX_NESTING} levels")
        if message.GetOptions().message_set_wire_format:
            return Opaque(why="a message set")
        if not message.fields:
            return Leaf(kind=op.EMPTY, type=pa.bool_())
        node = self.message(message, around)
        return node if arrow_type(node) is not None else Opaque(why="a message without columns")


def _is_timestamp(node: Node) -> bool:
    return isinstance(node, Leaf) and node.kind == op.TIMESTAMP


def _enum_table(enum: EnumDescriptor) -> EnumTable:
    first: dict[int, str] = {}
    for value in enum.values:
        first.setdefault(value.number, value.name)
    numbers = tuple(sorted(first))
    return EnumTable(
        numbers=numbers,
        symbols=tuple(first[number] for number in numbers),
        default=enum.values[0].number,
        is_closed=enum.is_closed,
    )
