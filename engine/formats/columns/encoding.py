"""The bytes of a block's rows as formats' kernels write them, in a buffer that grows until all fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.columns.program import ColumnProgram
from engine.formats.columns.slot_kernels import ENCODE_PROBLEM, NO_ROOM
from engine.formats.columns.tables import Output
from engine.kernels.types import frozen
from engine.records.records import NULL_LENGTH, ByteSpans

# What a row is expected to take before any was written; a wrong guess costs one copy of what was written.
FIRST_GUESS_BYTES = 256


class Encoder:
    """Takes some rows of a block at a time; those that are never written are null.

    ``room`` bytes are free when a kernel begins an operation. Kernels of messages whose lengths come first write
    ``from_end``: rows, positions and free bytes then count from the end of the buffer.
    """

    def __init__(self, row_count: int, room: int, *, from_end: bool = False) -> None:
        self._room = room
        self._from_end = from_end
        self._data = np.empty(0, np.uint8)
        self._used = 0
        self._start = np.zeros(row_count, np.int64)
        self._length = np.full(row_count, NULL_LENGTH, np.int32)

    def write(
        self, rows: NDArray[np.int64], encode: Callable[[Output, int], int], program: ColumnProgram, schema_id: int
    ) -> None:
        """``encode(output, done)`` goes on at row ``done`` and returns how many are done then.

        Raises Corrupt, naming the column, for what decoding can't have made.
        """
        rows = frozen(rows[::-1] if self._from_end else rows)
        ends, trouble = np.empty(len(rows) + 1, np.int64), np.zeros(2, np.int64)
        before = ends[0] = self._used
        self._reserve(before + FIRST_GUESS_BYTES * len(rows) + self._room)
        done = 0
        while (done := int(encode(Output(rows, self._data, ends, trouble), done))) < len(rows):
            step, code = trouble.tolist()
            if code != NO_ROOM:
                place = program.paths[step] if step >= 0 else ""
                raise Corrupt(
                    f"row {rows[done]} can't be what schema {schema_id} wrote, at {place or 'the value'}: "
                    f"{ENCODE_PROBLEM[code]}"
                )
            self._used = int(ends[done])
            expected = (self._used - before) * len(rows) // max(1, done)
            self._reserve(max(2 * len(self._data), before + expected + expected // 8))
        self._used = int(ends[-1])
        step = -1 if self._from_end else 1
        where = slice(None, None, step) if len(rows) == len(self._start) else rows
        self._start[where], self._length[where] = ends[1:] if self._from_end else ends[:-1], np.diff(ends)

    def spans(self) -> ByteSpans:
        """The rows' bytes; nothing can be written any more."""
        if not self._from_end:
            return ByteSpans(data=self._data[: self._used], start=self._start, length=self._length)
        data = self._data[len(self._data) - self._used :]
        start = np.where(self._length >= 0, self._used - self._start, 0)
        return ByteSpans(data=data, start=start, length=self._length)

    def _reserve(self, size_bytes: int) -> None:
        if size_bytes <= len(self._data):
            return
        larger = np.empty(size_bytes, np.uint8)
        used = slice(len(larger) - self._used, None) if self._from_end else slice(self._used)
        larger[used] = self._data[len(self._data) - self._used :] if self._from_end else self._data[: self._used]
        self._data = larger
