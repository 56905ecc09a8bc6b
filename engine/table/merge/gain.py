"""What records gain, or lose, by being decoded again: columns beside bytes, and the reasons of those that keep them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.format_facts import facts_of
from engine.table.columns import TableLayout
from engine.table.topic_table import TableFacts

MOST_REASONS = 100
"""Different reasons counted: there may be one for each record."""

OTHER_REASONS = "other reasons"


@dataclass(slots=True)
class Gain:
    """``gained`` records with more columns than before, or no longer with bytes beside them; ``lost`` the opposite."""

    gained: int = 0
    lost: int = 0

    def add(self, before: pa.Table, after: pa.RecordBatch, table: TableFacts) -> None:
        """The same records as rows ``before`` and ``after``."""
        filled = _filled(after, table) - _filled(before, table)
        kept = _kept(after, table.layout) - _kept(before, table.layout)
        self.gained += int(np.count_nonzero((filled > 0) | (kept < 0)))
        self.lost += int(np.count_nonzero((filled < 0) | (kept > 0)))


@dataclass(slots=True)
class Reasons:
    """How many rows keep their bytes, by reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Those of an error column. The ones of the fewest rows become one when there are too many."""
        if column.null_count == len(column):
            return
        for found in column.drop_null().value_counts().to_pylist():
            self.counts[found["values"]] += found["counts"]
        for reason, rows in self.counts.most_common()[MOST_REASONS:]:
            del self.counts[reason]
            self.counts[OTHER_REASONS] += rows


def _filled(rows: pa.Table | pa.RecordBatch, table: TableFacts) -> NDArray[np.int32]:
    """How many of a row's typed columns hold something; how a value was spelled is nothing that anybody gains."""
    own = {name for name in rows.schema.names if table.layout.is_metadata(name) and name != table.layout.key_column}
    own.update(facts_of(table.codec.name).spelling_columns)
    return _valid(rows, [name for name in rows.schema.names if name not in own])


def _kept(rows: pa.Table | pa.RecordBatch, layout: TableLayout) -> NDArray[np.int32]:
    """How many of a row's parts keep their bytes."""
    return _valid(rows, [name for name in (layout.value_raw, layout.key_raw) if name in rows.schema.names])


def _valid(rows: pa.Table | pa.RecordBatch, names: list[str]) -> NDArray[np.int32]:
    valid = np.zeros(rows.num_rows, np.int32)
    for name in names:
        column = rows.column(name)
        if column.null_count:
            valid += column.is_valid().to_numpy(zero_copy_only=False)
        else:
            valid += 1
    return valid
