"""Values of messages that are written down as the fields of ``message Row``, by Protobuf's own runtime."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from engine.formats.protobuf.descriptors import compile_proto, load_file


@cache
def descriptor_text(fields: str) -> str:
    """The schema of a file with the message Row alone; what it refers to is declared inside of it."""
    return compile_proto(f'syntax = "proto3"; message Row {{ {fields} }}', {})


@cache
def _row_class(fields: str) -> type[Message]:
    return GetMessageClass(load_file(descriptor_text(fields)).message_types_by_name["Row"])


def framed_protobuf(fields: str, schema_id: int, value: Any) -> bytes:
    """A value as Confluent's serializer writes it: of the file's first message."""
    message = ParseDict(value, _row_class(fields)())
    return b"\x00" + schema_id.to_bytes(4, "big") + b"\x00" + message.SerializeToString(deterministic=True)
