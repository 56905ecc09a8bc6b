"""What a case of evolution is: versions of a schema with a value each, and the row that each value must become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """``row`` the value's columns that are not null; ``is_raw``: the row keeps its bytes too."""

    schema: Any
    value: Any
    row: Mapping[str, Any]
    is_raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``columns`` of the value in the end, with Arrow's types; ``conflicts`` how many fields get another column."""

    kind: str
    name: str
    versions: tuple[Version, ...]
    columns: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    conflicts: int = 0
    codec: str = "avro"

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def a(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """A field."""
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def decimal(precision: int, scale: int = 2) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def enum(*symbols: str, name: str = "State") -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def v(schema: Any, value: Any, row: Mapping[str, Any] | None = None, *, is_raw: bool = False) -> Version:
    """A version whose row is the value itself where nothing else is said."""
    return Version(schema=schema, value=value, row=value if row is None else row, is_raw=is_raw)


TEXT, INT, LONG = "string", "int32", "int64"
"""Arrow's names of the columns' types."""

ONE, TWO = a("a", "int"), a("b", "string")


def case(kind: str, name: str, columns: Mapping[str, str], *versions: Version, **more: Any) -> Case:
    return Case(kind=kind, name=name, versions=versions, columns=columns, **more)
