"""A Protobuf schema as a codec sees it: the messages that values may be, and the names of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from google.protobuf.descriptor import Descriptor

from engine.errors import Invalid
from engine.formats.format_facts import MESSAGE_COLUMN
from engine.formats.protobuf.descriptors import load_file
from engine.formats.protobuf.mapping import FieldNode, Leaf, ListNode, MapNode, MessageNode, Node, Opaque, map_message
from engine.formats.protobuf.message_indexes import FIRST_MESSAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A message that values may be; ``indexes`` lead to it in its file. Fields of several roots that have a name in
    common have its column in common; where their types differ, the later one has its root's name behind its own."""

    indexes: tuple[int, ...]
    message: MessageNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSchema:
    """``roots``: the first message of the file, then those that no other message of it refers to."""

    roots: tuple[Root, ...]


def parse_schema(text: str) -> ProtobufSchema:
    """Raises Invalid for a text that is no descriptor set, or a file without messages."""
    messages = list(load_file(text).message_types_by_name.values())
    if not messages:
        raise Invalid("a Protobuf schema has no message")
    referred = {name for message in messages for name in _referred(message) if name != message.full_name}
    picked = [index for index, one in enumerate(messages) if index == 0 or one.full_name not in referred]
    roots = [Root(indexes=(index,), message=map_message(messages[index])) for index in picked]
    if any(field.name == MESSAGE_COLUMN for root in roots for field in root.message.fields):
        roots = roots[:1]
    assert roots[0].indexes == FIRST_MESSAGE, "the first message is a root whatever refers to it"
    return ProtobufSchema(roots=tuple(_named_apart(roots)))


def _referred(message: Descriptor) -> Iterator[str]:
    """The top-level messages that a message and those inside of it have fields of."""
    for field in message.fields:
        target = field.message_type
        while target is not None and target.containing_type is not None:
            target = target.containing_type
        if target is not None:
            yield target.full_name
    for inner in message.nested_types:
        yield from _referred(inner)


def _named_apart(roots: list[Root]) -> Iterator[Root]:
    taken: dict[str, Node] = {}
    for root in roots:
        fields = []
        for field in root.message.fields:
            name = field.name
            while name in taken and not _same_column(taken[name], field.node):
                name = f"{name}__{root.message.full_name.rpartition('.')[2]}"
            fields.append(replace(field, name=name))
        taken = {**{field.name: field.node for field in fields if not isinstance(field.node, Opaque)}, **taken}
        yield replace(root, message=replace(root.message, fields=tuple(fields)))


def _same_column(one: Node, other: Node) -> bool:
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return bool(one.type == other.type)
    if isinstance(one, MessageNode) and isinstance(other, MessageNode):
        return one.full_name == other.full_name
    if isinstance(one, ListNode) and isinstance(other, ListNode):
        return _same_column(one.items, other.items)
    if isinstance(one, MapNode) and isinstance(other, MapNode):
        return _same_column(one.keys, other.keys) and _same_column(one.values, other.values)
    return isinstance(other, Opaque)


def columns_of(schema: ProtobufSchema) -> Iterator[tuple[Root, FieldNode]]:
    """The fields of all roots, one for each name, with the first root that has it."""
    seen: set[str] = set()
    for root in schema.roots:
        for field in root.message.fields:
            if field.name not in seen and not isinstance(field.node, Opaque):
                seen.add(field.name)
                yield root, field
