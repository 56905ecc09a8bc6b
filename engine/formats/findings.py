"""The verdicts of one block of values as they are put together, and its rows as they are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.formats.codec import NO_REASON, Verdict


class Findings:
    """``verdict`` uint8[n] and ``reason`` int32[n] as ``Decoded`` has them; rows are exact until something is noted."""

    def __init__(self, row_count: int) -> None:
        self.verdict = np.full(row_count, Verdict.EXACT, np.uint8)
        self.reason = np.full(row_count, NO_REASON, np.int32)
        self._index_of: dict[str, int] = {}

    def note(self, rows: NDArray[np.intp], verdict: Verdict, text: str) -> None:
        if not len(rows):
            return
        self.verdict[rows] = verdict
        self.reason[rows] = self._index_of.setdefault(text, len(self._index_of))

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._index_of)


def distinct(values: NDArray[Any]) -> list[int]:
    """The different values, rising. Nearly every block has one, and finding that out needs no hash table."""
    if len(values) and values.min() == values.max():
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found
