"""Rows of files on their way to another as they are, in the table's columns of now."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from engine.errors import Invalid
from engine.formats.evolution.filling import filled

COPIED_ROWS = 16 * 1024
"""Rows of small files that are taken on together: a column costs as much for ten rows as for a thousand."""


class CopiedRows:
    """Gathers rows until there are enough, or others of other columns. Memory: COPIED_ROWS and a row group."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._row_count = 0
        self.files: set[str] = set()
        """Paths of those whose rows are here."""

    def fits(self, rows: pa.Table) -> bool:
        """Whether rows can be added to those that are here."""
        return not self._tables or (self._row_count < COPIED_ROWS and self._tables[0].schema.equals(rows.schema))

    def add(self, path: str, rows: pa.Table) -> None:
        """Rows of a file, right after those before, which they fit."""
        self._tables.append(rows)
        self._row_count += rows.num_rows
        self.files.add(path)

    def take(self) -> Iterator[pa.RecordBatch]:
        """All rows, in the table's schema, and none are left. Raises Invalid where a column is none of the table's."""
        tables, self._tables, self._row_count = self._tables, [], 0
        if tables:
            together = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
            for batch in together.to_batches():
                yield self._in_schema(batch)
        self.files.clear()

    def _in_schema(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        strange = set(rows.schema.names) - set(self._schema.names)
        if strange:
            raise Invalid(f"the columns {sorted(strange)} are none of the table's")
        return in_schema(rows, self._schema)


def in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a file in the columns of ``schema``, null where it lacks one; others are left out.

    Raises Invalid where a column of the file never was one of that type.
    """
    found = {name: rows.column(name) for name in rows.schema.names}
    columns = [
        filled(found[field.name], field.type) if field.name in found else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
