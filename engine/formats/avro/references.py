"""Puts the types that a registry's schema refers to into its text, so that it needs no registry to be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.errors import Invalid
from engine.formats.avro.schema import MAX_SCHEMA_DEPTH, PRIMITIVES

_NAMED = ("record", "error", "enum", "fixed")


def inline_references(schema_text: str, references: Mapping[str, str]) -> str:
    """The schema with each type of the referenced ones (by any name) defined where it is first used.

    Raises Invalid when a text is not JSON or is nested too deeply.
    """
    if not references:
        return schema_text
    inliner = _Inliner()
    for text in references.values():
        inliner.collect(_load(text), "", 0)
    return json.dumps(inliner.inline(_load(schema_text), "", 0))


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise Invalid(f"a schema is not JSON: {error}") from error


def _full_name(declared: dict[str, Any], namespace: str) -> tuple[str, str]:
    """(full name, namespace of what lies inside) of a definition."""
    name, own = str(declared.get("name", "")), declared.get("namespace", namespace)
    if "." in name:
        return name, name.rpartition(".")[0]
    own = own if isinstance(own, str) else namespace
    return (f"{own}.{name}" if own else name), own


class _Inliner:
    def __init__(self) -> None:
        self._library: dict[str, tuple[dict[str, Any], str]] = {}
        self._defined: set[str] = set()

    def collect(self, node: Any, namespace: str, depth: int) -> None:
        """Remember every named type that is defined inside, with the namespace around it."""
        _check_depth(depth)
        if isinstance(node, list):
            for branch in node:
                self.collect(branch, namespace, depth + 1)
        elif isinstance(node, dict):
            if node.get("type") in _NAMED:
                full, inside = _full_name(node, namespace)
                self._library.setdefault(full, (node, namespace))
                for field in _fields(node):
                    self.collect(field.get("type"), inside, depth + 1)
            else:
                for part in ("type", "items", "values"):
                    self.collect(node.get(part), namespace, depth + 1)

    def inline(self, node: Any, namespace: str, depth: int) -> Any:
        _check_depth(depth)
        if isinstance(node, str):
            return self._name(node, namespace, depth)
        if isinstance(node, list):
            return [self.inline(branch, namespace, depth + 1) for branch in node]
        if not isinstance(node, dict):
            return node
        if node.get("type") in _NAMED:
            return self._definition(node, namespace, depth)
        parts = {part: self.inline(node[part], namespace, depth + 1) for part in ("items", "values") if part in node}
        kind = node.get("type")
        if kind not in ("array", "map"):
            parts["type"] = self.inline(kind, namespace, depth + 1)
        return {**node, **parts}

    def _name(self, name: str, namespace: str, depth: int) -> Any:
        if name in PRIMITIVES:
            return name
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._defined:
                return full
            if full in self._library:
                definition, around = self._library[full]
                return self._definition(definition, around, depth + 1)
        return name

    def _definition(self, node: dict[str, Any], namespace: str, depth: int) -> Any:
        full, inside = _full_name(node, namespace)
        if full in self._defined:
            return full
        self._defined.add(full)
        # An explicit namespace, the empty one too: the place of use may lie in another.
        made = {**node, "name": full.rpartition(".")[2], "namespace": inside}
        if "fields" in node:
            made["fields"] = [
                {**field, "type": self.inline(field.get("type"), inside, depth + 1)} for field in _fields(node)
            ]
        return made


def _fields(record: dict[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise Invalid("a record's fields are no list of fields")
    return fields


def _check_depth(depth: int) -> None:
    if depth > MAX_SCHEMA_DEPTH:
        raise Invalid(f"a schema and what it refers to are nested deeper than {MAX_SCHEMA_DEPTH} levels")
