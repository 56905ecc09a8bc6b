"""The types that a JSON Schema (drafts 4 to 2020-12) gives: the part of it that says what a column would be.

Constraints on values (patterns, ranges, required members) are not looked at: a record that breaks them is stored like
any other. What several types may stand for has no column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias
from urllib.parse import unquote

from engine.errors import Invalid

# A definition used by many others multiplies, and one that contains itself would never end.
MAX_TYPES = 8192
MAX_DEPTH = 64
MAX_REFERENCES = 64


class Scalar(Enum):
    """A leaf's type."""

    STRING = "string"
    LONG = "integer"
    DOUBLE = "number"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNode:
    """``members`` in the schema's order."""

    members: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    items: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    values: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """No column can hold it; its null needs none."""

    why: str


Node: TypeAlias = Scalar | ObjectNode | ListNode | MapNode | Opaque

_NULL = Opaque(why="it is always null")
_ANY = Opaque(why="its type is not said")


def parse_schema(text: str) -> Node:
    """Raises Invalid for a text that is no JSON Schema, or one that unfolds to more than MAX_TYPES types."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"a schema is not JSON: {error}") from error
    if not isinstance(root, dict | bool):
        raise Invalid("a JSON Schema is an object, true or false")
    return _Reader(root).node(root, ())


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._type_count = 0
        self._anchors: dict[str, Any] | None = None

    def node(self, schema: Any, open_schemas: tuple[int, ...]) -> Node:
        """``open_schemas`` are those that this one lies in: meeting one again is recursion."""
        self._type_count += 1
        if self._type_count > MAX_TYPES:
            raise Invalid(f"a JSON Schema unfolds to more than {MAX_TYPES} types")
        schema = self._resolved(schema)
        if isinstance(schema, Opaque):
            return schema
        if not isinstance(schema, dict):
            return _ANY
        if id(schema) in open_schemas:
            return Opaque(why="its type contains itself")
        if len(open_schemas) >= MAX_DEPTH:
            return Opaque(why=f"it lies deeper than {MAX_DEPTH} levels")
        return self._typed(schema, (*open_schemas, id(schema)))

    def _typed(self, schema: dict[str, Any], inside: tuple[int, ...]) -> Node:
        kinds = _kinds(schema)
        if kinds:
            return _one_of([self._of_kind(kind, schema, inside) for kind in kinds])
        if isinstance(schema.get("allOf"), list):
            return _all_of([self.node(part, inside) for part in schema["allOf"]])
        for keyword in ("oneOf", "anyOf"):
            if isinstance(schema.get(keyword), list):
                return _one_of([self.node(part, inside) for part in schema[keyword]])
        return _ANY

    def _of_kind(self, kind: str, schema: dict[str, Any], inside: tuple[int, ...]) -> Node:
        if kind == "object":
            return self._object(schema, inside)
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, dict) or "prefixItems" in schema:
                return Opaque(why="the type of its items is not said, or each has its own")
            return ListNode(items=self.node(items, inside))
        if kind == "null":
            return _NULL
        scalars = {scalar.value: scalar for scalar in Scalar}
        return scalars.get(kind, _ANY)

    def _object(self, schema: dict[str, Any], inside: tuple[int, ...]) -> Node:
        properties, all_of = schema.get("properties"), schema.get("allOf")
        made: dict[str, Node] = {}
        for part in all_of if isinstance(all_of, list) else ():
            node = self.node(part, inside)
            made.update(node.members if isinstance(node, ObjectNode) else ())
        for name, member in properties.items() if isinstance(properties, dict) else ():
            made[name] = self.node(member, inside)
        if made:
            return ObjectNode(members=tuple(made.items()))
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and "patternProperties" not in schema:
            return MapNode(values=self.node(more, inside))
        return Opaque(why="its members are not said")

    def _resolved(self, schema: Any) -> Any:
        """The schema that a chain of references leads to."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            found = self._lookup(schema["$ref"])
            if found is None:
                return Opaque(why=f"what {schema['$ref']} refers to is not there")
            schema = found
        return Opaque(why="its references lead in a circle")

    def _lookup(self, reference: str) -> Any:
        before, _, fragment = reference.partition("#")
        if before and before != _identifier(self._root):
            return self._anchor(reference)
        if fragment and not fragment.startswith("/"):
            return self._anchor(f"#{fragment}")
        found = self._root
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found

    def _anchor(self, name: str) -> Any:
        """A definition by its ``$anchor`` or ``$id``, wherever it stands."""
        if self._anchors is None:
            self._anchors = {}
            stack = [self._root]
            while stack:
                node = stack.pop()
                if isinstance(node, dict):
                    if isinstance(node.get("$anchor"), str):
                        self._anchors.setdefault(f"#{node['$anchor']}", node)
                    if _identifier(node):
                        self._anchors.setdefault(_identifier(node), node)
                    stack.extend(node.values())
                elif isinstance(node, list):
                    stack.extend(node)
        return self._anchors.get(name)


def _identifier(node: Any) -> str:
    found = node.get("$id", node.get("id")) if isinstance(node, dict) else None
    return found if isinstance(found, str) else ""


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types a schema names, or that its values have; none where it says nothing of its own."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [kind for kind in named if isinstance(kind, str)]
    if isinstance(schema.get("enum"), list):
        return sorted({_kind_of(value) for value in schema["enum"]})
    if "const" in schema:
        return [_kind_of(schema["const"])]
    if isinstance(schema.get("properties"), dict) or isinstance(schema.get("additionalProperties"), dict):
        return ["object"]
    return ["array"] if isinstance(schema.get("items"), dict) else []


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _one_of(nodes: list[Node]) -> Node:
    """The one column for several types: null is no type, and integers are numbers."""
    found: list[Node] = []
    for node in nodes:
        if node != _NULL and node not in found:
            found.append(node)
    if not found:
        return _NULL
    if len(found) == 1:
        return found[0]
    if set(map(str, found)) == {str(Scalar.LONG), str(Scalar.DOUBLE)}:
        return Scalar.DOUBLE
    return Opaque(why="it is of several types")


def _all_of(nodes: list[Node]) -> Node:
    members: dict[str, Node] = {}
    for node in nodes:
        if isinstance(node, ObjectNode):
            members.update(node.members)
    if members:
        return ObjectNode(members=tuple(members.items()))
    said = [node for node in nodes if not isinstance(node, Opaque)]
    return said[0] if said else _ANY
