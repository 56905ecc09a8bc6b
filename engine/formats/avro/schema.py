"""An Avro schema as a graph of types: names resolved, recursion kept, defaults left out.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names" and "Aliases". Only what the binary form depends
on, the logical types and the aliases of fields are read; anything else in the JSON is ignored, as the specification
asks. Types need no aliases here: columns are told apart by the names of fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import Invalid

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

# The JSON of a schema is walked recursively; real schemas nest a handful of levels.
MAX_SCHEMA_DEPTH = 100


@dataclass(slots=True, kw_only=True, eq=False)
class AvroType:
    """One node of the graph; a record that contains itself is its own descendant.

    ``kind`` is the Avro type's name (union included); ``name`` the full name of a named type; ``logical`` the
    logicalType attribute with ``precision`` and ``scale`` beside it; ``size`` the bytes of a fixed; ``aliases`` the
    former names of the fields that have some.
    """

    kind: str
    name: str = ""
    logical: str | None = None
    precision: Any = None
    scale: Any = None
    fields: list[tuple[str, AvroType]] = field(default_factory=list)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0


def parse_schema(text: str) -> AvroType:
    """The graph of a schema's JSON text. Raises Invalid when it is no Avro schema, saying what is wrong and where."""
    try:
        declared = json.loads(text)
        json.dumps(declared, ensure_ascii=False).encode()  # half a surrogate pair can be written in JSON, but not kept
    except UnicodeEncodeError as error:
        raise Invalid(f"an Avro schema has a name that is no Unicode text: {error}") from error
    except ValueError as error:
        if text.strip() in PRIMITIVES:  # the bare name of a primitive, as some registries store it
            return AvroType(kind=text.strip())
        raise Invalid(f"an Avro schema is not JSON: {error}") from error
    except RecursionError as error:
        raise Invalid("an Avro schema is nested too deeply to be read") from error
    return _Parser().parse(declared, "", "the schema", 0)


class _Parser:
    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}

    def parse(self, declared: Any, namespace: str, where: str, depth: int) -> AvroType:
        if depth > MAX_SCHEMA_DEPTH:
            raise Invalid(f"an Avro schema is nested deeper than {MAX_SCHEMA_DEPTH} levels at {where}")
        if isinstance(declared, str):
            return self._reference(declared, namespace, where)
        if isinstance(declared, list):
            branches = [self.parse(branch, namespace, where, depth + 1) for branch in declared]
            if not branches or any(branch.kind == "union" for branch in branches):
                raise Invalid(f"{where} is a union without branches, or with a union inside")
            return AvroType(kind="union", branches=branches)
        if not isinstance(declared, Mapping) or "type" not in declared:
            raise Invalid(f"{where} is not an Avro type: {str(declared)[:80]}")
        kind = declared["type"]
        if not isinstance(kind, str) or kind not in (*PRIMITIVES, "record", "error", "enum", "fixed", "array", "map"):
            return self.parse(kind, namespace, where, depth + 1)
        return self._complex(kind, declared, namespace, where, depth)

    def _reference(self, name: str, namespace: str, where: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(kind=name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full, self.named.get(name))
        if found is None:
            raise Invalid(f"{where} names the type {name}, which the schema does not define before")
        return found

    def _complex(self, kind: str, declared: Mapping[str, Any], namespace: str, where: str, depth: int) -> AvroType:
        made = AvroType(kind="record" if kind == "error" else kind)
        logical = declared.get("logicalType")
        if isinstance(logical, str):
            made.logical, made.precision, made.scale = logical, declared.get("precision"), declared.get("scale", 0)
        if made.kind == "array":
            made.items = self.parse(declared.get("items"), namespace, f"{where}[]", depth + 1)
        elif made.kind == "map":
            made.items = self.parse(declared.get("values"), namespace, f"{where}{{}}", depth + 1)
        elif made.kind in ("record", "enum", "fixed"):
            self._named(made, declared, namespace, where, depth)
        return made

    def _named(self, made: AvroType, declared: Mapping[str, Any], namespace: str, where: str, depth: int) -> None:
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            raise Invalid(f"{where} is a {made.kind} without a name")
        own_namespace = declared.get("namespace", namespace)
        if not isinstance(own_namespace, str):
            own_namespace = namespace
        if "." in name:
            own_namespace = name.rpartition(".")[0]
        made.name = name if "." in name or not own_namespace else f"{own_namespace}.{name}"
        if made.name in self.named:
            raise Invalid(f"{where} defines {made.name} a second time")
        self.named[made.name] = made
        if made.kind == "enum":
            symbols = declared.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise Invalid(f"{where}: the enum {made.name} has no list of symbols")
            if len(set(symbols)) != len(symbols):  # two indices with one text could not be told apart
                raise Invalid(f"{where}: the enum {made.name} has a symbol twice")
            made.symbols = tuple(symbols)
        elif made.kind == "fixed":
            size = declared.get("size")
            if not isinstance(size, int) or not 0 <= size < 2**31:
                raise Invalid(f"{where}: the fixed {made.name} has no size")
            made.size = size
        else:
            self._record_fields(made, declared, own_namespace, where, depth)

    def _record_fields(
        self, made: AvroType, declared: Mapping[str, Any], namespace: str, where: str, depth: int
    ) -> None:
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise Invalid(f"{where}: the record {made.name} has no list of fields")
        seen: set[str] = set()
        for entry in fields:
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(name, str) or not name or name in seen or "type" not in entry:
                raise Invalid(f"{where}: the record {made.name} has a field without name or type, or one twice: {name}")
            seen.add(name)
            aliases = entry.get("aliases")
            if isinstance(aliases, list) and aliases:
                made.aliases[name] = tuple(alias for alias in aliases if isinstance(alias, str))
            made.fields.append((name, self.parse(entry["type"], namespace, f"{where}.{name}", depth + 1)))
