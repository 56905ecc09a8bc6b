"""Whether the row groups of a file's windows lie in the order that its footer says, by the first column they are
sorted by: engines skip row groups by bounds, which are true whatever the order, but a false order skips none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.table.windows import FileWindows


@dataclass(slots=True, kw_only=True)
class SortOrder:
    """``windows`` of the footer, None in stream order, where nothing is claimed."""

    windows: FileWindows | None
    _greatest: Any = None
    _has_nulls: bool = False

    def false_in_group(self, index: int, rows: pa.Table) -> Iterator[str]:
        """``rows`` of the next row group, ``index``."""
        if self.windows is None:
            return
        name = self.windows.clustering.columns[0]
        if name not in rows.column_names:
            yield f"the footer says that rows are sorted by {name}, and there is no such column"
            return
        if index in self.windows.first_groups:
            self._greatest, self._has_nulls = None, False
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)  # they come after the numbers, as nulls do
        bounds = pc.min_max(column)
        least, greatest = bounds["min"], bounds["max"]
        if least.is_valid:
            is_after = self._greatest is None or pc.greater_equal(least, self._greatest).as_py()
            if self._has_nulls or not is_after:
                yield f"row group {index} has values of {name} that belong before those of the one before"
            self._greatest = greatest
        self._has_nulls = self._has_nulls or column.null_count > 0
