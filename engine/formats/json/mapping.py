"""Which columns the types of a JSON Schema become, and the names that columns have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from engine.formats.format_facts import FORM_COLUMN, FORMER_FORM_COLUMN, REST_COLUMN
from engine.formats.json.schema import ListNode, MapNode, Node, ObjectNode, Opaque, Scalar

VALUE_NAME = "value"
"""The single column of a schema that is no object with members."""

# A top-level member must not be taken for one of Kafka's columns, or for the codec's own.
_TAKEN_PREFIX = "kafka_"

_DIVIDERS = frozenset(".[]{}")

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.LONG: pa.int64(),
    Scalar.DOUBLE: pa.float64(),
    Scalar.BOOLEAN: pa.bool_(),
}


def arrow_type(node: Node) -> pa.DataType | None:
    """The column's type, nullable at every level (map keys apart); None where there is no column."""
    if isinstance(node, Scalar):
        return _SCALARS[node]
    if isinstance(node, ObjectNode):
        fields = list(fields_of(node))
        return pa.struct(fields) if fields else None
    if isinstance(node, ListNode):
        items = arrow_type(node.items)
        return None if items is None else pa.list_(pa.field("element", items))
    if isinstance(node, MapNode):
        values = arrow_type(node.values)
        key = pa.field("key", pa.string(), nullable=False)
        return None if values is None else pa.map_(key, pa.field("value", values))
    return None


def fields_of(node: ObjectNode, *, is_top: bool = False) -> Iterator[pa.Field]:
    """The columns of an object's members, in the schema's order."""
    names = column_names([name for name, _ in node.members], is_top=is_top)
    for name, member in node.members:
        kind = arrow_type(member)
        if kind is not None:
            yield pa.field(names[name], kind)


def form_column(fields: Iterable[pa.Field]) -> str:
    """The name of the form's column beside these ones."""
    is_former = any(field.name == FORMER_FORM_COLUMN and field.type == pa.string() for field in fields)
    return FORMER_FORM_COLUMN if is_former else FORM_COLUMN


def own_fields(existing: Iterable[pa.Field]) -> tuple[pa.Field, ...]:
    """The codec's own columns of a table that has the ``existing`` ones."""
    return pa.field(form_column(existing), pa.string()), pa.field(REST_COLUMN, pa.string())


def wanted_fields(root: Node) -> list[pa.Field]:
    """The columns that a whole schema wants at the top."""
    if isinstance(root, ObjectNode):
        return list(fields_of(root, is_top=True))
    kind = arrow_type(root)
    return [] if kind is None else [pa.field(VALUE_NAME, kind)]


def column_names(members: Sequence[str], *, is_top: bool) -> Mapping[str, str]:
    """The column of each member: its own name, but for what engines and catalogs read as something else.

    A dot divides levels, brackets are those of lists and maps, and a name that is empty is none: so no two paths are
    alike. A function of the object's members alone.
    """
    taken = set(members)
    names: dict[str, str] = {}
    for member in members:
        name = "".join(
            "_" if character in _DIVIDERS or not character.isprintable() else character for character in member
        )
        if not name or (is_top and (name.casefold().startswith(_TAKEN_PREFIX) or name == FORMER_FORM_COLUMN)):
            name = f"_{name}"
        plain, number = name, 2
        while name != member and name in taken:
            name = f"{plain}_{number}"
            number += 1
        taken.add(name)
        names[member] = name
    return names


def opaque_members(node: Node, path: str = "") -> list[str]:
    """What has no column, as ``path: why``."""
    if isinstance(node, Opaque):
        return [f"{path or VALUE_NAME}: {node.why}"]
    if isinstance(node, ObjectNode):
        names = column_names([name for name, _ in node.members], is_top=not path)
        inner = [(f"{path}.{names[name]}" if path else names[name], member) for name, member in node.members]
    elif isinstance(node, ListNode):
        inner = [(f"{path}[]", node.items)]
    elif isinstance(node, MapNode):
        inner = [(f"{path}{{}}", node.values)]
    else:
        inner = []
    return [line for child_path, child in inner for line in opaque_members(child, child_path)]
