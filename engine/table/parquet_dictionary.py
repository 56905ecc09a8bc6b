"""The values of one leaf column of a row group in the making as a dictionary and an index, and their pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.table import page_dictionary_kernels as kernels
from engine.table import page_value_kernels as pages
from engine.table.page_bit_packing import ROOM
from engine.table.page_dictionary_kernels import (
    ENTRIES,
    ENTRY_BITS,
    FIRST_SLOTS,
    SLOTS,
    STATE_LENGTH,
    USED_BYTES,
    VALUE_BYTES,
)
from engine.table.parquet_bounds import NumberBounds, PageBounds, StringBounds
from engine.table.parquet_levels import EncodedLevels, with_room
from engine.table.parquet_settings import DICTIONARY
from engine.table.parquet_shredding import LeafPiece
from engine.table.parquet_values import (
    ALL,
    ENCODING_IDS,
    PAGE_OVERHEAD,
    EncodedValues,
    Leaf,
    Numbers,
    Scratch,
    Strings,
    number_bounds,
    number_source,
    string_source,
)

MOST_ENTRIES = 1 << (ENTRY_BITS - 1)
"""A row group's column with more distinct values has no dictionary: only lists have so many, and the tables that find
an entry must not grow with them."""

_SIZE_BYTES = 4
"""In front of each string of a dictionary page."""


class Dictionary(Protocol):
    """The values so far."""

    def clear(self) -> None: ...

    def append(self, piece: LeafPiece) -> bool:
        """Add a piece's values. False, and nothing is added, when a dictionary can't hold them."""

    def move_to(self, values: Any) -> None:
        """Put the values so far where they need no dictionary: into Strings or Numbers."""

    def encode(self, levels: EncodedLevels, scratch: Scratch) -> EncodedValues:
        """The pages of at least one value."""


class _Index:
    """What both kinds have in common: a hash table, and the entry of every value so far."""

    def __init__(self, leaf: Leaf, slot: type[np.generic]) -> None:
        self._leaf = leaf
        self._table: NDArray[Any] = np.empty(FIRST_SLOTS, slot)
        self._index: NDArray[np.int32] = np.empty(0, np.int32)
        self._state = np.zeros(STATE_LENGTH, np.int64)
        self._state[SLOTS] = FIRST_SLOTS
        self.clear()

    def clear(self) -> None:
        self._count = 0
        # The next row group has about as many entries: its table begins as large as this one's has become.
        slots = int(self._state[SLOTS])
        self._table[:slots] = 0
        self._state[:] = 0
        self._state[SLOTS] = slots

    @property
    def _entries(self) -> int:
        return int(self._state[ENTRIES])

    def _make_room(self, count: int) -> int:
        """Room for ``count`` more values; the number of entries that there may then be."""
        end = self._count + count
        most = min(end, MOST_ENTRIES)
        self._index = with_room(self._index, self._count, end)
        # The table doubles when half of it is taken, to less than four times the entries.
        self._table = with_room(self._table, int(self._state[SLOTS]), max(4 * most, FIRST_SLOTS))
        return most

    def _encode(
        self,
        levels: EncodedLevels,
        scratch: Scratch,
        dictionary: NDArray[np.uint8],
        bounds: Callable[[], PageBounds],
    ) -> EncodedValues:
        room = levels.size_bytes + 5 * self._count + levels.page_count * PAGE_OVERHEAD + ROOM
        out = scratch.take(room)
        page_at = np.empty(levels.page_count + 1, np.int64)
        pages.encode_indexes(levels.data, levels.level_at, self._index, levels.value_at, out, page_at)
        return EncodedValues(
            data=out,
            page_at=page_at,
            encoding=ENCODING_IDS[DICTIONARY],
            bounds=bounds,
            dictionary=dictionary.data,
            dictionary_entries=self._entries,
            value_bytes=int(self._state[VALUE_BYTES]) if self._leaf.is_bytes and not self._leaf.size else None,
        )


class NumberDictionary(_Index):
    """Distinct numbers; floating point by its bits, so that every NaN and zero comes back as it was."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf, np.int32)
        self._page: NDArray[Any] = np.empty(0, leaf.stored)

    def append(self, piece: LeafPiece) -> bool:
        most = self._make_room(piece.value_count)
        self._page = with_room(self._page, self._entries, most)
        source, first = number_source(piece, self._leaf)
        positions = ALL if piece.positions is None else piece.positions
        refused = kernels.add_numbers(
            source,
            first,
            piece.value_count,
            positions,
            self._table,
            self._page,
            self._state,
            self._index,
            self._count,
            most,
        )
        if refused:
            return False
        self._count += piece.value_count
        return True

    def encode(self, levels: EncodedLevels, scratch: Scratch) -> EncodedValues:
        entries = self._page[: self._entries]
        bounds = partial(number_bounds, self._leaf, entries, levels.value_at, self._index)
        if len(entries) == 1:
            bounds = partial(self._bounds_of_one, entries, levels)
        return self._encode(levels, scratch, entries.view(np.uint8), bounds)

    def _bounds_of_one(self, entry: NDArray[Any], levels: EncodedLevels) -> NumberBounds:
        """The bounds of pages that hold one value over and over, as Kafka's own columns do."""
        one = number_bounds(self._leaf, entry, np.array([0, 1]))
        has_values = levels.value_at[1:] > levels.value_at[:-1]
        return NumberBounds(
            low=np.repeat(one.low, levels.page_count),
            high=np.repeat(one.high, levels.page_count),
            has_bounds=has_values & one.has_bounds,
            nan_count=one.nan_count * self._count,
        )

    def move_to(self, values: Numbers) -> None:
        values.extend(self._page[self._index[: self._count]])


class StringDictionary(_Index):
    """Distinct byte arrays."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf, np.uint32)
        self._prefix = 0 if leaf.size else _SIZE_BYTES
        self._hashes: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._words: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._entry_at: NDArray[np.int64] = np.zeros(1, np.int64)
        self._page: NDArray[np.uint8] = np.empty(0, np.uint8)

    @property
    def _used(self) -> int:
        return int(self._state[USED_BYTES])

    def append(self, piece: LeafPiece) -> bool:
        count = piece.value_count
        offsets, data, first = string_source(piece, self._leaf)
        positions = ALL if piece.positions is None else piece.positions
        entries, most = self._entries, self._make_room(count)
        self._hashes = with_room(self._hashes, entries, most)
        self._words = with_room(self._words, entries, most)
        self._entry_at = with_room(self._entry_at, entries + 1, most + 1)
        added = len(data) if len(positions) else int(offsets[first + count]) - int(offsets[first])
        self._page = with_room(self._page, self._used, self._used + added + self._prefix * count + ROOM)
        refused = kernels.add_strings(
            offsets,
            data,
            first,
            count,
            positions,
            self._table,
            self._hashes,
            self._words,
            self._entry_at,
            self._page,
            self._state,
            self._index,
            self._count,
            self._prefix,
            most,
        )
        if refused:
            return False
        self._count += count
        return True

    def encode(self, levels: EncodedLevels, scratch: Scratch) -> EncodedValues:
        return self._encode(levels, scratch, self._page[: self._used], partial(self._bounds, levels))

    def _bounds(self, levels: EncodedLevels) -> StringBounds:
        low, high = np.empty(levels.page_count, np.int64), np.empty(levels.page_count, np.int64)
        kernels.entry_bounds(
            self._index,
            levels.value_at,
            self._entries,
            self._words,
            self._entry_at,
            self._page,
            self._prefix,
            self._leaf.flip,
            low,
            high,
        )
        return StringBounds(low=self._strings_at(low), high=self._strings_at(high), signed_size=self._leaf.signed_size)

    def _strings_at(self, entries: NDArray[np.int64]) -> list[bytes | None]:
        return [
            None if at < 0 else self._page[self._entry_at[at] + self._prefix : self._entry_at[at + 1]].tobytes()
            for at in entries.tolist()
        ]

    def move_to(self, values: Strings) -> None:
        ends = self._entry_at[: self._entries + 1]
        # Each entry as two offsets: where its bytes begin, behind its size, and where they end.
        spans = np.column_stack([ends[:-1] + self._prefix, ends[1:]]).astype(np.int32).reshape(-1)
        values.extend(spans, self._page, 0, self._count, self._index[: self._count].astype(np.int64) * 2)
