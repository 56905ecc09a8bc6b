"""Generated Protobuf schemas, and messages of them made by Google's runtime."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from engine.formats.protobuf.descriptors import load_file
from tests.engine.formats.protobuf.values import is_opaque

_Field = FieldDescriptorProto
_WELL_KNOWN = (timestamp_pb2, duration_pb2, wrappers_pb2, field_mask_pb2, empty_pb2, any_pb2)
_KINDS_OF_WRAPPERS = ("Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes", "Double", "Float")
_MESSAGES = [
    f".google.protobuf.{name}"
    for name in ("Timestamp", "Duration", "FieldMask", "Empty", "Any", *(f"{kind}Value" for kind in _KINDS_OF_WRAPPERS))
]
_SCALARS = [kind for kind in _Field.Type.values() if kind not in (_Field.TYPE_GROUP, _Field.TYPE_MESSAGE)]
_KEYS = [kind for kind in _SCALARS if kind not in (1, 2, _Field.TYPE_BYTES, _Field.TYPE_ENUM)]
_NUMBERS = st.integers(1, 40) | st.sampled_from([2047, 2048, 18_999, 262_144, 2**29 - 1])


def _spread(low: int, high: int) -> st.SearchStrategy[int]:
    """Small numbers, the limits, and anything between."""
    return st.integers(max(low, -3), 300) | st.sampled_from([low, high]) | st.integers(low, high)


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("ab€", min_size=20, max_size=60)
_VALUES = {
    _Field.TYPE_BOOL: st.booleans(),
    _Field.TYPE_STRING: _TEXTS,
    _Field.TYPE_BYTES: st.binary(max_size=40),
    _Field.TYPE_DOUBLE: st.floats(allow_nan=False),
    _Field.TYPE_FLOAT: st.floats(allow_nan=False, width=32),
    **dict.fromkeys((_Field.TYPE_INT32, _Field.TYPE_SINT32, _Field.TYPE_SFIXED32), _spread(-(2**31), 2**31 - 1)),
    **dict.fromkeys((_Field.TYPE_INT64, _Field.TYPE_SINT64, _Field.TYPE_SFIXED64), _spread(-(2**63), 2**63 - 1)),
    **dict.fromkeys((_Field.TYPE_UINT32, _Field.TYPE_FIXED32), _spread(0, 2**32 - 1)),
    **dict.fromkeys((_Field.TYPE_UINT64, _Field.TYPE_FIXED64), _spread(0, 2**64 - 1)),
}


@st.composite
def schema_texts(draw: Any) -> str:
    """A file of one message tree in proto2, proto3 or an edition, as a schema's stored text."""
    syntax = draw(st.sampled_from(["proto2", "proto3", "editions"]))
    file = FileDescriptorProto(name="made.proto", package="made", syntax=syntax)
    if syntax == "editions":
        file.edition = 1000
    file.dependency.extend(module.DESCRIPTOR.name for module in _WELL_KNOWN)
    _draw_enum(draw, file, syntax)
    _draw_message(draw, file.message_type.add(name="Top"), ".made.Top", syntax, 3)
    files = FileDescriptorSet()
    for module in _WELL_KNOWN:
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return base64.b64encode(files.SerializeToString()).decode()


def _draw_enum(draw: Any, file: FileDescriptorProto, syntax: str) -> None:
    enum = file.enum_type.add(name="E")
    numbers = draw(st.lists(_spread(-(2**31), 2**31 - 1), max_size=6, unique=True))
    first = [number for number in numbers if number == 0] or [0]
    for index, number in enumerate([*first, *(number for number in numbers if number)]):
        enum.value.add(name=f"S{index}" * draw(st.integers(1, 4)), number=number)
    if syntax == "editions" and draw(st.booleans()):
        enum.options.features.enum_type = FeatureSet.CLOSED


def _draw_message(draw: Any, message: DescriptorProto, name: str, syntax: str, depth: int) -> None:
    numbers = draw(st.lists(_NUMBERS, min_size=0 if depth < 3 else 1, max_size=6, unique=True))
    oneof_open = False
    for index, number in enumerate(numbers):
        field = message.field.add(name=f"f{index}", number=number, label=_Field.LABEL_OPTIONAL)
        shape = draw(st.sampled_from(["single", "single", "single", "repeated", "repeated", "oneof", "oneof", "map"]))
        if shape == "map":
            _draw_map(draw, message, field, name, syntax, depth)
            continue
        _draw_type(draw, field, message, name, syntax, depth)
        if shape == "repeated":
            field.label = _Field.LABEL_REPEATED
            _draw_packing(draw, field, syntax)
        elif shape == "oneof":
            if not oneof_open:
                message.oneof_decl.add(name="choice")
                oneof_open = True
            field.oneof_index = 0
        elif syntax == "editions" and field.type not in (_Field.TYPE_MESSAGE, _Field.TYPE_ENUM) and draw(st.booleans()):
            field.options.features.field_presence = FeatureSet.IMPLICIT
        elif syntax == "proto2" and draw(st.integers(0, 5)) == 0:
            field.label = _Field.LABEL_REQUIRED
    if syntax == "proto3":
        _draw_optional(draw, message)


def _draw_optional(draw: Any, message: DescriptorProto) -> None:
    """Explicit presence in proto3 is a oneof of its own."""
    for index, field in enumerate(message.field):
        is_single = field.label == _Field.LABEL_OPTIONAL and field.type != _Field.TYPE_MESSAGE
        if is_single and not field.HasField("oneof_index") and draw(st.booleans()):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{index}")


def _draw_type(
    draw: Any, field: FieldDescriptorProto, message: DescriptorProto, name: str, syntax: str, depth: int
) -> None:
    kind = draw(st.sampled_from(["scalar", "scalar", "scalar", "enum", "known", "inner", "inner"]))
    if kind == "inner" and depth > 0:
        inner = message.nested_type.add(name=f"M{len(message.nested_type)}")
        field.type, field.type_name = _Field.TYPE_MESSAGE, f"{name}.{inner.name}"
        _draw_message(draw, inner, field.type_name, syntax, depth - 1)
        if syntax == "editions" and draw(st.integers(0, 5)) == 0:
            field.options.features.message_encoding = FeatureSet.DELIMITED
    elif kind == "known":
        field.type, field.type_name = _Field.TYPE_MESSAGE, draw(st.sampled_from(_MESSAGES))
    elif kind == "enum":
        field.type, field.type_name = _Field.TYPE_ENUM, ".made.E"
    else:
        field.type = draw(st.sampled_from([kind for kind in _SCALARS if kind != _Field.TYPE_ENUM]))


def _draw_packing(draw: Any, field: FieldDescriptorProto, syntax: str) -> None:
    if field.type in (_Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE) or draw(st.booleans()):
        return
    if syntax == "editions":
        field.options.features.repeated_field_encoding = FeatureSet.EXPANDED
    else:
        field.options.packed = draw(st.booleans())


def _draw_map(
    draw: Any, message: DescriptorProto, field: FieldDescriptorProto, name: str, syntax: str, depth: int
) -> None:
    entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=draw(st.sampled_from(_KEYS)))
    value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
    _draw_type(draw, value, message, name, syntax, depth)
    value.options.features.ClearField("message_encoding")
    value.ClearField("options")
    field.label, field.type, field.type_name = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE, f"{name}.{entry.name}"


@st.composite
def messages(draw: Any, text: str, *, without_columns: bool = False) -> Any:
    """A message of the schema's first type; ``without_columns``: fields that have none are set too."""
    made = GetMessageClass(load_file(text).message_types_by_name["Top"])()
    fill(draw, made, without_columns)
    return made


def fill(draw: Any, message: Any, without_columns: bool) -> None:
    for field in message.DESCRIPTOR.fields:
        if is_opaque(field) and not without_columns:
            continue
        # A oneof's last drawn member stays.
        count = draw(st.integers(0, 3) if field.is_repeated else st.integers(0, 1))
        if field.is_required:
            count = 1
        for _ in range(count):
            _set(draw, message, field, without_columns)


def _set(draw: Any, message: Any, field: Any, without_columns: bool) -> None:
    here = getattr(message, field.name) if field.is_repeated or field.message_type is not None else None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        key = draw(_VALUES[key_field.type])
        if value_field.message_type is None:
            here[key] = _draw_value(draw, value_field)
        else:
            here[key].SetInParent()
            _fill_inner(draw, here[key], without_columns, 1000)
    elif field.message_type is not None:
        inner = here.add() if field.is_repeated else here
        inner.SetInParent()
        _fill_inner(draw, inner, without_columns, 1000 if field.is_repeated else 1)
    elif field.is_repeated:
        here.append(_draw_value(draw, field))
    else:
        setattr(message, field.name, _draw_value(draw, field))


def _fill_inner(draw: Any, message: Any, without_columns: bool, nanos_step: int) -> None:
    """``nanos_step``: in lists and maps, what is below the microsecond has no column."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-62135596800, 253402300799))
        nanos = draw(st.sampled_from([0, 1, 999_999_999, 5000]) | st.integers(0, 999_999_999))
        message.nanos = nanos // nanos_step * nanos_step
    elif name == "google.protobuf.Duration":
        sign = draw(st.sampled_from([-1, 1]))
        message.seconds = sign * draw(st.integers(0, 315_576_000_000))
        message.nanos = sign * draw(st.sampled_from([0, 1]) | st.integers(0, 999_999_999))
    else:
        fill(draw, message, without_columns)


def _draw_value(draw: Any, field: Any) -> Any:
    if field.enum_type is None:
        return draw(_VALUES[field.type])
    known = st.sampled_from([value.number for value in field.enum_type.values])
    return draw(known if field.enum_type.is_closed else known | _spread(-(2**31), 2**31 - 1))
