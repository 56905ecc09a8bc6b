"""Which columns the fields of earlier schemas stand in: by it a field that comes again is known again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A field of an earlier schema in a column; ``aliases`` the names it had before that; ``age`` 0 for the newest
    schema."""

    column: str
    name: str
    aliases: tuple[str, ...]
    number: int | None
    age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The columns that one field has had, the newest first, and how long ago the newest was claimed."""

    columns: tuple[str, ...] = ()
    age: int = 0


class Claims:
    """The claims of all earlier schemas, by the parent of the columns (``items[]``, ``tags{}``, "" for the table)."""

    def __init__(
        self,
        earlier: Sequence[tuple[Sequence[pa.Field], Mapping[str, str]]],
        *,
        number_of: Callable[[pa.Field], int | None],
        aliases_of: Callable[[pa.Field], tuple[str, ...]],
    ) -> None:
        self._number_of = number_of
        self._aliases_of = aliases_of
        self._by_parent: defaultdict[str, list[Claim]] = defaultdict(list)
        for age, (fields, placement) in enumerate(reversed(earlier)):
            self._walk(fields, placement, "", "", age)

    def _walk(self, fields: Sequence[pa.Field], placement: Mapping[str, str], path: str, parent: str, age: int) -> None:
        for field in fields:
            inner = f"{path}.{field.name}" if path else field.name
            column = placement.get(inner, field.name)
            if not column:
                continue
            self._by_parent[parent].append(
                Claim(
                    column=column,
                    name=field.name,
                    aliases=self._aliases_of(field),
                    number=self._number_of(field),
                    age=age,
                )
            )
            suffix, children = _record_in(field.type)
            below = f"{parent}.{column}" if parent else column
            self._walk(children, placement, inner + suffix, below + suffix, age)

    def family(self, parent: str, columns: Sequence[str]) -> Family:
        """The claims on the ``columns`` that there are below one parent."""
        there = set(columns)
        return Family([claim for claim in self._by_parent.get(parent, ()) if claim.column in there], columns)


class Family:
    """The claims on the columns of one parent, newest first."""

    def __init__(self, claims: Sequence[Claim], columns: Sequence[str]) -> None:
        self._of_name: defaultdict[str, list[Claim]] = defaultdict(list)
        self._of_number: defaultdict[int, list[Claim]] = defaultdict(list)
        self._of_alias: defaultdict[str, list[str]] = defaultdict(list)
        for claim in claims:
            for alias in claim.aliases:
                self._of_alias[alias].append(claim.column)
            if claim.number is None:
                self._of_name[claim.name].append(claim)
            else:
                self._of_number[claim.number].append(claim)
        self._claimed = {claim.column for claim in claims}
        self._unclaimed = set(columns) - self._claimed
        self._oldest = max((claim.age for claim in claims), default=-1) + 1

    def of_field(self, name: str, number: int | None) -> Known:
        """What a field of this name, or of this number where it has one, has stood in; a column that nobody claims is
        known by its name."""
        mine = self._of_name.get(name) if number is None else self._of_number.get(number)
        if mine:
            return Known(columns=tuple(dict.fromkeys(claim.column for claim in mine)), age=mine[0].age)
        return Known(columns=(name,), age=self._oldest) if name in self._unclaimed else Known()

    def renamed_since(self, name: str) -> tuple[str, ...]:
        """What fields have stood in that were called ``name`` before: of schemas that are newer than the one that is
        added, and came first."""
        return tuple(dict.fromkeys(self._of_alias.get(name, ())))

    def is_claimed(self, column: str) -> bool:
        return column in self._claimed


def _record_in(kind: pa.DataType) -> tuple[str, Sequence[pa.Field]]:
    """The record that a column's lists and maps hold: (what to add to its path, its fields)."""
    suffix = ""
    while pa.types.is_list(kind) or pa.types.is_map(kind):
        is_map = pa.types.is_map(kind)
        suffix += "{}" if is_map else "[]"
        kind = kind.item_type if is_map else kind.value_type
    return suffix, tuple(kind) if pa.types.is_struct(kind) else ()
