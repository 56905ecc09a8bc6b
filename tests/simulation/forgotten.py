"""Whose records somebody asks to be erased."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.table.topic_table import TopicTable
from retention.erasure_condition import Condition, KeyCondition
from tests.engine.kafka_log.batch_twin import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Records of ``keys``; with ``window``, those at its offsets alone, so that an older record of a key may stay."""

    keys: frozenset[bytes]
    window: OffsetRange | None = None

    def __str__(self) -> str:
        keys = ", ".join(map(repr, sorted(self.keys)))
        return keys if self.window is None else f"{keys} at {self.window}"

    def holds(self, row: Row) -> bool:
        return row.key in self.keys and (self.window is None or row.offset in self.window)

    def condition(self, table: TopicTable) -> Condition:
        """As the program asks for it."""
        by_key = KeyCondition(table, self.keys)
        return by_key if self.window is None else _Within(by_key, self.window)


@dataclass(slots=True)
class _Within:
    """Stands for a condition in SQL, which would start DuckDB for each."""

    keys: KeyCondition
    window: OffsetRange
    expression: None = field(default=None, init=False)

    @property
    def unread(self) -> frozenset[str]:
        return self.keys.unread

    def offsets(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        found = self.keys.offsets(rows)
        return found[(found >= self.window.start) & (found < self.window.end)]
