"""A condition on a table's columns as SQL reads it: DuckDB on rows that are handed to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.table.pruned_files import condition_expression
from engine.table.topic_table import TopicTable

_NEXT_STEP = "give what could stand after WHERE in a query of the table"


class DuckdbCondition:
    """What retention takes for a ``Condition``. It sees the rows and nothing else: no file, no network.

    Raises Invalid, with DuckDB's own words.
    """

    def __init__(self, table: TopicTable, condition: str) -> None:
        self._condition = condition
        self._offset = table.layout.offset
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET python_enable_replacements = false")
        schema = table.facts.schema
        self.expression = condition_expression(table.iceberg_schema, condition)
        self.unread = frozenset(
            name for name in schema.names if name != self._offset and not _may_be_named(name, condition)
        )
        read = pa.schema([field for field in schema if field.name not in self.unread])
        self._check(pa.Table.from_pylist([], schema=read))

    def offsets(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """The offsets of the rows of which the condition is true."""
        with self._refused():
            chosen = self._connection.from_arrow(pa.Table.from_batches([rows])).filter(self._condition)
            found = chosen.project(_name(self._offset)).fetchnumpy()[self._offset]
        return np.asarray(found, np.int64)

    def _check(self, rows: pa.Table) -> None:
        """One expression, true or false: a number would be true of all rows but those with 0."""
        with self._refused():
            kinds = self._connection.from_arrow(rows).project(f"({self._condition})").types
        if [str(kind) for kind in kinds] != ["BOOLEAN"]:
            raise Invalid(f"The condition {self._condition!r} is neither true nor false", next_step=_NEXT_STEP)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise Invalid(f"DuckDB refuses the condition: {error}", next_step=_NEXT_STEP) from error


def _may_be_named(column: str, condition: str) -> bool:
    """Whether a condition can mean a column: by its name, or by a sign that stands for columns without it."""
    text = condition.casefold()
    return '"' in column or any(sign in text for sign in (column.casefold(), "*", "#", "columns"))


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
