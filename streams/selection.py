"""Which columns and rows of a topic are wanted, and what that means for one state of its table.

With engine/table/pruned_files.py the seam to pyiceberg's expressions: one condition chooses files by their bounds, row
groups by their statistics, and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import And, BooleanExpression, BoundIsNaN, BoundNotEqualTo, BoundNotIn, BoundNotNaN, Or
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema, prune_columns
from pyparsing import ParseBaseException

from engine.errors import Invalid
from engine.parquet.footer import MAGIC, ParquetFooter
from engine.table.columns import arrow_schema
from engine.table.pruned_files import files_without
from engine.table.topic_table import TopicTable

_NEXT_STEP = "write comparisons, IN, LIKE 'x%', IS NULL, joined by AND, OR and NOT: price > 5 AND country = 'DE'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """``columns`` in the order they are wanted, None for all that the table has; ``where`` in the grammar of Iceberg's
    own expressions, None for all rows."""

    columns: tuple[str, ...] | None = None
    where: str | None = None

    def of(self, table: TopicTable) -> TableSelection:
        """What it is for the table as it was loaded. Raises Invalid for a column that the table lacks, and for a
        condition that can't be read."""
        rows = arrow_schema(table.iceberg_schema, with_ids=False)
        names = rows.names if self.columns is None else list(self.columns)
        _check_columns(table, names, rows.names)
        chosen = pa.schema([rows.field(name) for name in names])
        if self.where is None:
            return TableSelection(table=table, rows=rows, chosen=chosen)
        condition, bound, tested = _condition(table, self.where)
        return TableSelection(
            table=table,
            rows=rows,
            chosen=chosen,
            tested=tested,
            expression=expression_to_pyarrow(bound, table.iceberg_schema),
            without_rows=files_without(table, condition),
            has_statistics=_is_of_numbers_alone(bound),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelection:
    """``rows`` all columns of the table, ``chosen`` those that are given, ``tested`` the names of those that the
    ``expression`` looks at; ``without_rows``: paths of files of which no row is wanted; ``has_statistics``: whether
    those of a row group can tell that it has none."""

    table: TopicTable
    rows: pa.Schema
    chosen: pa.Schema
    tested: frozenset[str] = frozenset()
    expression: pc.Expression | None = None
    without_rows: frozenset[str] = frozenset()
    has_statistics: bool = False

    @property
    def read(self) -> pa.Schema:
        """The columns that have to be read, in table order: with the offset, by which rows are put in order."""
        names = {*self.chosen.names, *self.tested, self.table.layout.offset}
        return pa.schema([column for column in self.rows if column.name in names])

    def chosen_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted of those that were read, in the columns that are."""
        if self.expression is not None:
            rows = rows.filter(self.expression)
        return rows.select(self.chosen.names)

    def row_groups(self, footer: ParquetFooter) -> frozenset[int]:
        """Those of a file that may have a row that is wanted, by their statistics."""
        everything = frozenset(range(len(footer.group_at)))
        if not self.has_statistics:
            return everything
        encoded = bytes(footer.encoded)
        # pyarrow looks at nothing but the footer: one without the data before it is enough.
        content = b"".join([MAGIC, encoded, len(encoded).to_bytes(4, "little"), MAGIC])
        fragment = dataset.ParquetFileFormat().make_fragment(pa.BufferReader(content))
        try:
            kept = fragment.subset(self.expression, schema=self.rows)
        except pa.ArrowException:
            return everything  # a column is narrower in this file: its rows tell
        return frozenset(group.id for group in kept.row_groups)


def _check_columns(table: TopicTable, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(
            f"The table has no column {', '.join(unknown)}",
            topic=table.topic,
            next_step=f"there are {', '.join(known)}",
        )
    if len(set(names)) < len(names):
        raise Invalid("A column is named twice", topic=table.topic, next_step="name each column once")


def _condition(table: TopicTable, text: str) -> tuple[BooleanExpression, BooleanExpression, frozenset[str]]:
    """As it is written, bound to the table's columns, and the top-level ones that it looks at."""
    schema: Schema = table.iceberg_schema
    try:
        condition = parse(text)
        bound = rewrite_not(bind(schema, condition, True))
        tested = prune_columns(schema, extract_field_ids(bound), False)
    except (ParseBaseException, ValidationError, ValueError, TypeError, RecursionError) as error:
        raise Invalid(
            f"The condition {text!r} can't be read: {error}", topic=table.topic, next_step=_NEXT_STEP
        ) from error
    return condition, bound, frozenset(column.name for column in tested.fields)


def _is_of_numbers_alone(part: BooleanExpression) -> bool:
    """Whether no NaN can make it true: it is unlike every number, and statistics leave it out."""
    if isinstance(part, (And, Or)):
        return _is_of_numbers_alone(part.left) and _is_of_numbers_alone(part.right)
    return not isinstance(part, (BoundNotEqualTo, BoundNotIn, BoundIsNaN, BoundNotNaN))
