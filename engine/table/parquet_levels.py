"""The levels of one leaf column of a row group in the making, and where its pages begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.table import page_value_kernels as pages
from engine.table.page_bit_packing import ROOM
from engine.table.page_words import WORD_BYTES
from engine.table.parquet_settings import PAGE_ROWS
from engine.table.parquet_shredding import LeafPiece

_NO_LEVELS = np.empty(0, np.uint8)
_LARGEST_RUN_BYTES = 32
"""A page whose levels are all the same takes at most so much: two sizes, and two runs."""


def with_room(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """An array of at least ``needed`` items that begins with the ``used`` first of ``array``."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedLevels:
    """The levels of each page, encoded, and where its entries and values begin: int64[pages + 1] each.

    ``definition_counts`` and ``repetition_counts``: how many entries have each level; None without levels.
    """

    data: NDArray[np.uint8]
    level_at: NDArray[np.int64]
    entry_at: NDArray[np.int64]
    value_at: NDArray[np.int64]
    definition_counts: tuple[int, ...] | None
    repetition_counts: tuple[int, ...] | None

    @property
    def page_count(self) -> int:
        return len(self.entry_at) - 1

    @property
    def size_bytes(self) -> int:
        return int(self.level_at[-1])

    @property
    def entry_count(self) -> int:
        return int(self.entry_at[-1])

    @property
    def value_count(self) -> int:
        return int(self.value_at[-1])


class LevelBuffer:
    """Levels of the rows so far. Where they are all the same, which most are, no array is filled."""

    def __init__(self, *, deepest_definition: int, deepest_repetition: int) -> None:
        self._deepest_definition = deepest_definition
        self._deepest_repetition = deepest_repetition
        self._definition: NDArray[np.uint8] = _NO_LEVELS
        self._repetition: NDArray[np.uint8] = _NO_LEVELS
        self._entry_at: NDArray[np.int64] = np.empty(0, np.int64)
        self._value_at: NDArray[np.int64] = np.empty(0, np.int64)
        self.clear()

    def clear(self) -> None:
        self._rows = self._entries = 0
        self._tally = np.zeros(self._deepest_definition + 1, np.int64)
        self._constant: int | None = None
        self._has_definitions = self._has_repetitions = False

    def append(self, piece: LeafPiece, rows: int) -> None:
        """Add the levels of ``rows`` more rows."""
        self._append_page_starts(piece, rows)
        end = self._entries + piece.count
        if self._deepest_definition:
            self._append_definitions(piece.definition, end)
        if self._deepest_repetition and (piece.repetition is not None or self._has_repetitions):
            self._repetition = with_room(
                self._repetition, self._entries if self._has_repetitions else 0, end + WORD_BYTES
            )
            if not self._has_repetitions:
                self._repetition[: self._entries] = 0
                self._has_repetitions = True
            self._repetition[self._entries : end] = 0 if piece.repetition is None else piece.repetition
        self._rows += rows
        self._entries = end

    def _append_definitions(self, definition: int | NDArray[np.uint8], end: int) -> None:
        if not self._has_definitions and isinstance(definition, int) and self._constant in {None, definition}:
            self._constant = definition
            return
        self._definition = with_room(self._definition, self._entries if self._has_definitions else 0, end + WORD_BYTES)
        if not self._has_definitions:
            if self._constant is not None:
                self._definition[: self._entries] = self._constant
            self._has_definitions = True
        self._definition[self._entries : end] = definition

    def _append_page_starts(self, piece: LeafPiece, rows: int) -> None:
        first, end = -(-self._rows // PAGE_ROWS), -(-(self._rows + rows) // PAGE_ROWS)
        self._entry_at = with_room(self._entry_at, first, end)
        self._value_at = with_room(self._value_at, first, end)
        deepest = self._deepest_definition
        starts = np.arange(first, end) * PAGE_ROWS - self._rows
        if piece.row_at is not None:
            starts = piece.row_at[starts]
        self._entry_at[first:end] = starts + self._entries
        values = int(self._tally[deepest])
        if isinstance(piece.definition, int):
            self._value_at[first:end] = values + (starts if piece.definition == deepest else 0)
            self._tally[piece.definition] += piece.count
            return
        is_value = piece.definition == deepest
        before = 0
        for page, start in enumerate(starts.tolist(), first):
            values += int(np.count_nonzero(is_value[before:start]))
            self._value_at[page] = values
            before = start
        for level in range(deepest + 1):
            self._tally[level] += np.count_nonzero(piece.definition == level)

    def encode(self) -> EncodedLevels:
        page_count = -(-self._rows // PAGE_ROWS)
        entry_at = np.append(self._entry_at[:page_count], self._entries)
        value_at = np.append(self._value_at[:page_count], self._tally[-1])
        # A level takes at most a byte, and a group of 8 that is no run at most one byte of header.
        largest = self._entries * 2 * (self._has_definitions + self._has_repetitions)
        out = np.empty(largest + page_count * _LARGEST_RUN_BYTES + ROOM, np.uint8)
        level_at = np.empty(page_count + 1, np.int64)
        pages.encode_levels(
            self._repetition if self._has_repetitions else _NO_LEVELS,
            self._deepest_repetition,
            self._definition if self._has_definitions else _NO_LEVELS,
            self._constant or 0,
            self._deepest_definition,
            entry_at,
            out,
            level_at,
        )
        return EncodedLevels(
            data=out,
            level_at=level_at,
            entry_at=entry_at,
            value_at=value_at,
            definition_counts=tuple(self._tally.tolist()) if self._deepest_definition else None,
            repetition_counts=self._repetition_counts(),
        )

    def _repetition_counts(self) -> tuple[int, ...] | None:
        if not self._deepest_repetition:
            return None
        if not self._has_repetitions:
            return (self._rows, *([0] * self._deepest_repetition))
        repetition = self._repetition[: self._entries]
        deeper = [int(np.count_nonzero(repetition == level)) for level in range(1, self._deepest_repetition + 1)]
        return (self._rows, *deeper)
