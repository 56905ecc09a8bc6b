"""Which files of a snapshot can't hold a row that is looked for, by the bounds in their manifest entries.

The seam to pyiceberg's expressions. Whoever looks knows better what a row is: here a file is left out only where every
reading of the question agrees that no row of it matches.
"""

from __future__ import annotations

from collections.abc import Collection

from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    In,
    IsNull,
    LiteralPredicate,
    Not,
    NotNull,
    Or,
    SetPredicate,
)
from pyiceberg.expressions.literals import LongLiteral, StringLiteral
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, StringType
from pyparsing import ParseBaseException

from engine.table.columns import TableLayout
from engine.table.manifests import listed_manifests, manifest_entries, reading_metadata
from engine.table.topic_table import TopicTable

_READ_ALIKE = {StringType: StringLiteral, IntegerType: LongLiteral, LongType: LongLiteral}
"""Columns and literals that SQL engines compare as Iceberg does; fractions and moments each in its own way."""


def keys_expression(layout: TableLayout, keys: Collection[bytes]) -> BooleanExpression | None:
    """What is true of each row with one of ``keys``; None where the manifests can't tell."""
    if layout.key != "string":
        return None
    texts, others = [], False
    for key in keys:
        try:
            texts.append(key.decode())
        except UnicodeDecodeError:
            others = True
    # A key that is no text stands in the raw column alone.
    parts: list[BooleanExpression] = [NotNull(layout.key_raw)] if others else []
    if texts:
        parts.append(In(layout.key_column, texts))
    return Or(*parts) if len(parts) > 1 else parts[0]


def condition_expression(schema: Schema, condition: str) -> BooleanExpression | None:
    """What is true of each row of which a SQL condition is; None where Iceberg's own grammar doesn't read it, or might
    read it in another way."""
    # A backslash, and the wildcards of LIKE, mean different things to the two.
    if "\\" in condition or "like" in condition.casefold():
        return None
    try:
        found = parse(condition)
        return found if _is_read_alike(schema, found) else None
    except (ParseBaseException, ValueError, TypeError, RecursionError):
        return None


def _is_read_alike(schema: Schema, part: BooleanExpression) -> bool:
    if isinstance(part, Not):
        return _is_read_alike(schema, part.child)
    if isinstance(part, (And, Or)):
        return _is_read_alike(schema, part.left) and _is_read_alike(schema, part.right)
    if isinstance(part, (IsNull, NotNull)):
        schema.find_field(part.term.name, case_sensitive=False)
        return True
    if isinstance(part, LiteralPredicate):
        literals: Collection[object] = [part.literal]
    elif isinstance(part, SetPredicate):
        literals = part.literals
    else:
        return False
    kind = schema.find_field(part.term.name, case_sensitive=False).field_type
    wanted = _READ_ALIKE.get(type(kind))
    return wanted is not None and all(isinstance(literal, wanted) for literal in literals)


def files_without(table: TopicTable, expression: BooleanExpression) -> frozenset[str]:
    """Paths of the snapshot's data files none of whose rows match. Raises Corrupt, Unavailable."""
    if table.manifest_list is None:
        return frozenset()
    with reading_metadata(table, table.manifest_list):
        io = load_file_io(properties=dict(table.warehouse.properties), location=table.manifest_list)
    try:
        bounds = _InclusiveMetricsEvaluator(table.iceberg_schema, expression, case_sensitive=False)
    except (ValidationError, ValueError, TypeError):
        return frozenset()  # it does not fit the columns: nothing is left out
    return frozenset(
        entry.data_file.file_path
        for manifest in listed_manifests(table, io, table.manifest_list)
        for entry in manifest_entries(table, manifest, io)
        if entry.data_file.content == DataFileContent.DATA and not bounds.eval(entry.data_file)
    )
