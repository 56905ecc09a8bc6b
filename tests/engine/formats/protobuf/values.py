"""Schemas and values for the Protobuf tests: a hand-made rich one, generated ones, and what a reader should see."""

from __future__ import annotations

import datetime as dt
import functools
import struct
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from engine.formats.codec import CodecSpec, ValueCodec, open_codec, propose_fields
from engine.formats.protobuf.descriptors import compile_proto, load_file
from engine.formats.protobuf.mapping import NANOS_SUFFIX

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SCHEMA_ID = 7
HEADER = struct.pack(">bI", 0, SCHEMA_ID) + b"\0"

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 order_id = 1;
  string customer = 2;
  bool paid = 3;
  Status status = 4;
  optional string note = 5;
  google.protobuf.Timestamp created_at = 6;
  Address address = 7;
  repeated Item items = 8;
  map<string, double> tags = 9;
  oneof payment {
    string card = 10;
    Address cash = 11;
    google.protobuf.Empty free = 12;
  }
  repeated sint32 codes = 13;
  uint64 hash = 14;
  google.protobuf.Int64Value points = 15;
  google.protobuf.Duration took = 16;
  google.protobuf.FieldMask mask = 17;
  fixed32 crc = 200;
  float weight = 5000;
  enum Status { NEW = 0; PAID = 1; SHIPPED = 7; }
  message Address { string city = 1; optional string zip = 2; }
  message Item {
    string sku = 1;
    int32 quantity = 2;
    map<int32, Order.Address> places = 3;
    repeated string labels = 4;
    bytes digest = 5;
  }
}
"""


@functools.cache
def compiled(proto: str) -> str:
    return compile_proto(proto, {})


@functools.cache
def message_class(proto: str, name: str | None = None) -> type[Message]:
    messages = load_file(compiled(proto)).message_types_by_name
    return GetMessageClass(messages[name] if name else next(iter(messages.values())))


def spec(text: str, **more: Any) -> CodecSpec:
    return CodecSpec(name="protobuf", schemas={SCHEMA_ID: text}, **more)


def opened(text: str) -> ValueCodec:
    """The codec of a table that has the columns of one schema."""
    return open_codec(spec(text), propose_fields("protobuf", text, ()).fields)


def framed(message: Message) -> bytes:
    return HEADER + message.SerializePartialToString()


def order(number: int) -> Any:
    made: Any = message_class(ORDER)(
        order_id=number * 7_000_000_001,
        customer="für später €"[: number % 13],
        paid=number % 2 == 0,
        status=(0, 1, 7, -3)[number % 4],
        hash=(number * 0x9E3779B97F4A7C15) % 2**64,
        crc=(number * 0x9E3779B1) % 2**32,
        weight=number / 3,
        codes=range(-number % 5, number % 4),
    )
    if number % 3:
        made.note = "note" * (number % 2)
        made.created_at.FromNanoseconds(1_760_000_000_000_000_000 + number * 1_000_001)
        made.points.value = number % 5
    if number % 4:
        made.address.city = "Sund" * (number % 9)
        made.took.FromNanoseconds(number * (-1) ** number * 123_456_789_012)
        made.mask.paths.extend(["a.b", "c"][: number % 3])
    for index in range(number % 4):
        item = made.items.add(sku=f"SKU-{index}", quantity=-index, digest=bytes(range(index * 9)))
        item.labels.extend(["", "x" * 40][:index])
        for place in range(index):
            item.places[place - 1].zip = str(place)
    made.tags.update({f"k{index}": index / 7 for index in range(number % 5)})
    if number % 5 == 1:
        made.card = ""
    elif number % 5 == 2:
        made.cash.city = "x"
    elif number % 5 == 3:
        made.free.SetInParent()
    return made


def orders(count: int) -> list[bytes]:
    return [framed(order(number)) for number in range(count)]


def varint(value: int) -> bytes:
    """The twin of the kernel's writer."""
    left, out = value % 2**64, bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def sized(number: int, content: bytes) -> bytes:
    return tag(number, 2) + varint(len(content)) + content


def shown(message: Any) -> dict[str, Any]:
    """What the columns show of a message: the twin of the mapping and of the kernels, by the runtime's reflection."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if is_opaque(field):
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            pairs = getattr(message, field.name).items()
            value_field = inner.fields_by_name["value"]
            row[field.name] = {key: _shown_value(value_field, value) for key, value in pairs}
        elif field.is_repeated:
            row[field.name] = [_shown_value(field, value) for value in getattr(message, field.name)]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _shown_value(field, getattr(message, field.name))
        if inner is not None and inner.full_name == "google.protobuf.Timestamp" and not field.is_repeated:
            nanos = getattr(message, field.name).nanos % 1000
            row[field.name + NANOS_SUFFIX] = nanos if row[field.name] is not None and nanos else None
    return row


def is_opaque(field: Any) -> bool:
    """Groups, and messages that hold nothing but groups, are the only fields without columns that are generated."""
    if field.type == FieldDescriptorProto.TYPE_GROUP:
        return True
    inner = field.message_type
    if inner is None:
        return False
    if inner.GetOptions().map_entry:
        return is_opaque(inner.fields_by_name["value"])
    if not inner.fields:
        return bool(field.is_repeated)
    return not inner.full_name.startswith("google.") and all(is_opaque(one) for one in inner.fields)


def _shown_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    if field.type in (FieldDescriptorProto.TYPE_UINT64, FieldDescriptorProto.TYPE_FIXED64):
        return Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "google.protobuf.Duration":
        total = value.seconds * 10**9 + value.nanos
        return Decimal((int(total < 0), tuple(int(digit) for digit in str(abs(total))), -9))
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return _shown_value(field.message_type.fields[0], value.value)
    if name == "google.protobuf.FieldMask":
        return list(value.paths)
    return shown(value) if field.message_type.fields else True
