"""Least and greatest values of pages: what the page index, a chunk's statistics and a manifest say of a column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.table.thrift_compact import BINARY, binary, listed

LONGEST_STATISTIC = 4096
"""Bytes of a least or greatest value that is written; a longer one is left out, as pyarrow does."""

UNORDERED, ASCENDING, DESCENDING = 0, 1, 2
"""Parquet's BoundaryOrder."""

Extremes = tuple[Any, Any]


class PageBounds(Protocol):
    """Bounds of each page of a column chunk; a page without values, or with nothing but NaN, has none."""

    @property
    def nan_count(self) -> int: ...

    @property
    def has_bounds(self) -> NDArray[np.bool_]:
        """bool[pages]."""

    def extremes(self) -> Extremes | None:
        """Least and greatest of all pages as ``bounds_of`` takes them; None without any, or too long to be written."""

    def encoded(self, value: Any) -> bytes:
        """One of ``extremes`` as Parquet's statistics hold it."""

    def order(self) -> int:
        """The BoundaryOrder of the pages that have bounds."""

    def listed(self) -> tuple[bytes, bytes] | None:
        """Least and greatest of each page as Thrift lists; None when one of them is too long to be written."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberBounds:
    """``low`` and ``high`` have an item a page, of any value where ``has_bounds`` is False."""

    low: NDArray[Any]
    high: NDArray[Any]
    has_bounds: NDArray[np.bool_]
    nan_count: int = 0

    def extremes(self) -> Extremes | None:
        if not self.has_bounds.any():
            return None
        return self.low[self.has_bounds].min(), self.high[self.has_bounds].max()

    def encoded(self, value: Any) -> bytes:
        return bytes(value.tobytes())

    def order(self) -> int:
        low, high = self.low[self.has_bounds], self.high[self.has_bounds]
        if not len(low):
            return UNORDERED
        if (low[1:] >= low[:-1]).all() and (high[1:] >= high[:-1]).all():
            return ASCENDING
        if (low[1:] <= low[:-1]).all() and (high[1:] <= high[:-1]).all():
            return DESCENDING
        return UNORDERED

    def listed(self) -> tuple[bytes, bytes] | None:
        return self._listed(self.low), self._listed(self.high)

    def _listed(self, values: NDArray[Any]) -> bytes:
        width = values.itemsize
        items = np.empty((len(values), 1 + width), np.uint8)
        items[:, 0] = width
        items[:, 1:] = values.view(np.uint8).reshape(-1, width)
        data = items.tobytes()
        if self.has_bounds.all():
            return listed(BINARY, [data], count=len(values))
        size = 1 + width
        return listed(
            BINARY,
            [data[size * at : size * (at + 1)] if there else b"\0" for at, there in enumerate(self.has_bounds)],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StringBounds:
    """``low`` and ``high`` have an item a page, None for one without values. ``signed_size``: the strings are numbers
    of so many bytes, most significant first; 0 where they are not."""

    low: list[bytes | None]
    high: list[bytes | None]
    signed_size: int = 0
    nan_count: int = 0

    @property
    def has_bounds(self) -> NDArray[np.bool_]:
        return np.array([value is not None for value in self.low], np.bool_)

    def extremes(self) -> Extremes | None:
        low, high = self._ordered(self.low), self._ordered(self.high)
        if not low:
            return None
        least, greatest = min(low), max(high)
        if not self.signed_size and max(len(least), len(greatest)) > LONGEST_STATISTIC:
            return None
        return least, greatest

    def encoded(self, value: Any) -> bytes:
        return int(value).to_bytes(self.signed_size, "big", signed=True) if self.signed_size else bytes(value)

    def order(self) -> int:
        low, high = self._ordered(self.low), self._ordered(self.high)
        if not low:
            return UNORDERED
        if all(a <= b for a, b in pairwise(low)) and all(a <= b for a, b in pairwise(high)):
            return ASCENDING
        if all(a >= b for a, b in pairwise(low)) and all(a >= b for a, b in pairwise(high)):
            return DESCENDING
        return UNORDERED

    def listed(self) -> tuple[bytes, bytes] | None:
        if any(len(value or b"") > LONGEST_STATISTIC for value in (*self.low, *self.high)):
            return None
        low, high = ([binary(value or b"") for value in values] for values in (self.low, self.high))
        return listed(BINARY, low), listed(BINARY, high)

    def _ordered(self, values: list[bytes | None]) -> list[Any]:
        there = [value for value in values if value is not None]
        if self.signed_size:
            return [int.from_bytes(value, "big", signed=True) for value in there]
        return there
