"""What a proposal would do to a table's columns, told column by column: a verdict before it happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.formats.codec import FieldProposal
from engine.formats.evolution.columns import joined
from engine.formats.evolution.type_words import type_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEffect:
    """Columns by their path in the table (``items[].sku``), types in Iceberg's words.

    ``added`` (column, type); ``promoted`` (column, type before, type after); ``elsewhere`` (field's path in the schema,
    name of its column within its parent) of fields that do not stand in the column of their own name; ``conflicts``
    and ``without_column`` as sentences.
    """

    added: tuple[tuple[str, str], ...]
    promoted: tuple[tuple[str, str, str], ...]
    elsewhere: tuple[tuple[str, str], ...]
    conflicts: tuple[str, ...]
    without_column: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns_added": [{"column": column, "type": kind} for column, kind in self.added],
            "columns_promoted": [{"column": name, "from": old, "to": new} for name, old, new in self.promoted],
            "fields_elsewhere": [{"field": path, "column": column} for path, column in self.elsewhere],
            "conflicts": list(self.conflicts),
            "fields_without_column": list(self.without_column),
        }


def effect_of(existing: Sequence[pa.Field], proposal: FieldProposal) -> SchemaEffect:
    """What becomes of the ``existing`` columns by a proposal that was made for them."""
    added: list[tuple[str, str]] = []
    promoted: list[tuple[str, str, str]] = []
    for column, old, new in _changes(existing, proposal.fields, ""):
        if old is None:
            added.append((column, type_text(new)))
        else:
            promoted.append((column, type_text(old), type_text(new)))
    return SchemaEffect(
        added=tuple(added),
        promoted=tuple(promoted),
        elsewhere=tuple((path, column) for path, column in proposal.placement.items() if column),
        conflicts=proposal.conflicts,
        without_column=proposal.unmapped,
    )


def _changes(
    before: Sequence[pa.Field], after: Sequence[pa.Field], path: str
) -> Iterator[tuple[str, pa.DataType | None, pa.DataType]]:
    """(path, type before, type after) of each column that differs; None before for one that is new."""
    known = {field.name: field for field in before}
    for field in after:
        column = joined(path, field.name)
        old = known.get(field.name)
        if old is None:
            yield column, None, field.type
        else:
            yield from _changes_in(old.type, field.type, column)


def _changes_in(old: pa.DataType, new: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType | None, pa.DataType]]:
    if pa.types.is_struct(old):
        yield from _changes(tuple(old), tuple(new), path)
    elif pa.types.is_list(old):
        yield from _changes_in(old.value_type, new.value_type, f"{path}[]")
    elif pa.types.is_map(old):
        yield from _changes_in(old.item_type, new.item_type, f"{path}{{}}")
    elif old != new:
        yield path, old, new
