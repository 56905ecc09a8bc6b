"""Which columns a table needs once one more schema writes into it: one rule for every format that has schemas.

A format hands in what its schema wants as Arrow fields; a field's metadata says what else identifies it: ``ALIASES``
(a JSON list of names it had before) and ``NUMBER`` (a number that is its identity, whatever its name). The rules are
those of docs/row_format.md, "Several schemas".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from engine.formats.codec import FieldProposal, OnConflict, Placement
from engine.formats.evolution.claims import Claims, Family
from engine.formats.evolution.promotion import can_become, is_promotion
from engine.formats.evolution.type_words import type_text, type_word

ALIASES = b"floeberg.aliases"
NUMBER = b"floeberg.number"

_NO_COLUMN = ""
_KEPT_RAW = "records that have it keep their bytes"


def evolve_columns(
    existing: Sequence[pa.Field],
    wanted: Sequence[pa.Field],
    *,
    earlier: Sequence[tuple[Sequence[pa.Field], Placement]],
    on_conflict: OnConflict,
    unmapped: Sequence[str] = (),
) -> FieldProposal:
    """The existing columns with what is ``wanted``, and where each wanted field stands.

    ``earlier`` what each known schema wanted, oldest first, with its placement. ``unmapped`` is handed on, with the
    fields that get no column here.
    """
    evolution = _Evolution(Claims(earlier, number_of=number_of, aliases_of=aliases_of), on_conflict, list(unmapped))
    fields = evolution.record(tuple(existing), list(wanted), "", "")
    return FieldProposal(
        fields=fields,
        placement=evolution.placement,
        conflicts=tuple(evolution.conflicts),
        unmapped=tuple(evolution.unmapped),
    )


def aliases_of(field: pa.Field) -> tuple[str, ...]:
    text = (field.metadata or {}).get(ALIASES)
    return () if text is None else tuple(json.loads(text))


def number_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(NUMBER)
    return None if text is None else int(text)


class _Evolution:
    """One schema's way through the columns; ``placement``, ``conflicts`` and ``unmapped`` grow as it goes."""

    def __init__(self, claims: Claims, on_conflict: OnConflict, unmapped: list[str]) -> None:
        self._claims = claims
        self._on_conflict = on_conflict
        self._paths: set[str] = set()
        self.placement: dict[str, str] = {}
        self.conflicts: list[str] = []
        self.unmapped = unmapped

    def record(
        self, existing: tuple[pa.Field, ...], wanted: list[pa.Field], path: str, parent: str
    ) -> tuple[pa.Field, ...]:
        """The columns of one struct, or of the table; ``path`` leads to it in the schema, ``parent`` in the table."""
        level = _Level(self, existing, self._own_paths(wanted, path), path, parent)
        level.settle()
        return level.fields()

    def _own_paths(self, wanted: list[pa.Field], path: str) -> list[pa.Field]:
        """The fields whose path nothing else of the schema has: a name with a dot in it can read like a nested one."""
        own = []
        for field in wanted:
            inner = joined(path, field.name)
            if inner in self._paths:
                self.unmapped.append(f"{inner}: another field has the same path")
            else:
                self._paths.add(inner)
                own.append(field)
        return own

    def merged(self, column: pa.DataType, wanted: pa.DataType, path: str, parent: str) -> pa.DataType:
        """The type of a column that takes what it took, and the ``wanted`` values too, which it can become."""
        if pa.types.is_struct(column):
            return pa.struct(self.record(tuple(column), list(wanted), path, parent))
        if pa.types.is_list(column):
            kind = self.merged(column.value_type, wanted.value_type, f"{path}[]", f"{parent}[]")
            return pa.list_(column.value_field.with_type(kind))
        if pa.types.is_map(column):
            kind = self.merged(column.item_type, wanted.item_type, f"{path}{{}}", f"{parent}{{}}")
            return pa.map_(column.key_field, column.item_field.with_type(kind))
        return wanted if is_promotion(column, wanted) else column

    def conflict(self, path: str, why: str, column: str) -> str:
        """Note a field that can't have its column, and the one it gets: the column's name, or none."""
        if self._on_conflict is OnConflict.RAW:
            column = _NO_COLUMN
        self.conflicts.append(f"field {path}: {why}; {f'it gets the column {column}' if column else _KEPT_RAW}")
        return column

    def families(self, parent: str, columns: Sequence[str]) -> Family:
        return self._claims.family(parent, columns)


class _Level:
    """The fields of one record of the schema, and the columns that they share a parent with."""

    def __init__(
        self, evolution: _Evolution, existing: tuple[pa.Field, ...], wanted: list[pa.Field], path: str, parent: str
    ) -> None:
        self._evolution = evolution
        self._existing = existing
        self._wanted = wanted
        self._path = path
        self._parent = parent
        self._columns = {field.name: field for field in existing}
        self._family = evolution.families(parent, tuple(self._columns))
        self._names = {field.name.casefold(): field.name for field in existing}
        self._column_of: dict[int, str] = {}
        self._taken: set[str] = set()

    def settle(self) -> None:
        """Give each field its column: first those that are known by their own name or number, the newest knowledge
        first; then those known by an alias; then the new ones."""
        own = [self._family.of_field(field.name, number_of(field)) for field in self._wanted]
        known = sorted((index for index, found in enumerate(own) if found.columns), key=lambda at: own[at].age)
        for index in known:
            self._place(index, own[index].columns)
        for index, field in enumerate(self._wanted):
            if own[index].columns:
                continue
            families = [self._family.of_field(alias, None).columns for alias in aliases_of(field)]
            for family in (*families, self._family.renamed_since(field.name)):
                if index not in self._column_of:
                    self._place(index, family)
        for index in range(len(self._wanted)):
            if index not in self._column_of:
                self._column_of[index] = self._new_column(index)

    def _place(self, index: int, family: Sequence[str]) -> None:
        """In the newest column of its family that can take it, else beside the first one; nowhere where others have
        taken them all."""
        field = self._wanted[index]
        free = [name for name in family if name not in self._taken]
        if not free:
            return
        fitting = [name for name in free if can_become(self._columns[name].type, field.type)]
        if fitting:
            self._take(index, fitting[0])
            return
        first = family[-1]
        sibling = f"{first}__{type_word(field.type)}"
        if self._is_waiting(sibling, field):
            self._take(index, sibling)
            return
        why = f"the schema has {type_text(field.type)}, the table has {type_text(self._columns[first].type)}"
        self._take(index, self._evolution.conflict(self._path_of(index), why, self._free_name(sibling)))

    def _is_waiting(self, sibling: str, field: pa.Field) -> bool:
        """Whether a sibling is there that no field of another name has."""
        column = self._columns.get(sibling)
        if column is None or sibling in self._taken or self._family.is_claimed(sibling):
            return False
        return can_become(column.type, field.type)

    def _new_column(self, index: int) -> str:
        field = self._wanted[index]
        there = self._names.get(field.name.casefold())
        if there is None:
            return self._named(index, field.name)
        number = number_of(field)
        name = self._free_name(field.name if number is None else f"{field.name}__field_{number}")
        why = f"the column {there} is another field's"
        if there != field.name:
            why = f"its name differs from {there} in case alone"
        return self._take(index, self._evolution.conflict(self._path_of(index), why, name))

    def _named(self, index: int, name: str) -> str:
        self._names[name.casefold()] = name
        return self._take(index, name)

    def _take(self, index: int, name: str) -> str:
        self._column_of[index] = name
        self._taken.add(name)
        if name:
            self._names[name.casefold()] = name
        return name

    def _free_name(self, name: str) -> str:
        """The name, or the first one of its kind that no column has."""
        made, number = name, 1
        while made.casefold() in self._names:
            number += 1
            made = f"{name}__{number}"
        return made

    def _path_of(self, index: int) -> str:
        return joined(self._path, self._wanted[index].name)

    def fields(self) -> tuple[pa.Field, ...]:
        """The columns, old ones first, with the fields below them settled too."""
        evolution = self._evolution
        types = {field.name: field.type for field in self._existing}
        for index, field in enumerate(self._wanted):
            path, column = self._path_of(index), self._column_of[index]
            if column:
                before = types.get(column)
                start = without_fields(field.type) if before is None else before
                kind = evolution.merged(start, field.type, path, joined(self._parent, column))
                if _is_hollow(kind):
                    evolution.unmapped.append(f"{path}: no field of it has a column")
                    column = _NO_COLUMN
                else:
                    types[column] = kind
            if column != field.name:
                evolution.placement[path] = column
        kept = tuple(field.with_type(types.pop(field.name)) for field in self._existing)
        return kept + tuple(pa.field(name, kind) for name, kind in types.items())


def _is_hollow(kind: pa.DataType) -> bool:
    """Whether no value has anything in such a column: Parquet has no struct without fields."""
    if pa.types.is_list(kind):
        return _is_hollow(kind.value_type)
    if pa.types.is_map(kind):
        return _is_hollow(kind.item_type)
    return bool(pa.types.is_struct(kind) and kind.num_fields == 0)


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def without_fields(kind: pa.DataType) -> pa.DataType:
    """A type before any field of a record in it was added: what a new column's type begins as."""
    if pa.types.is_struct(kind):
        return pa.struct([])
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(without_fields(kind.item_type))
        return pa.map_(kind.key_field.remove_metadata(), item.remove_metadata())
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(without_fields(kind.value_type)).remove_metadata())
    return kind
