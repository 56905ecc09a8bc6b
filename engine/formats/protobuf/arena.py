"""Drives the Protobuf decode kernel over the arena that the formats with schemas share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns.arena import ColumnArena, Words
from engine.formats.columns.maps import TABLE_ENTRIES
from engine.formats.protobuf.decode_kernel import FRAME_WORDS, decode_block
from engine.formats.protobuf.operations import LONGEST_NUMBER_TEXT, MAX_GROUP_DEPTH
from engine.formats.protobuf.program import Program
from engine.records.records import ByteSpans


class ProtobufArena(ColumnArena):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._protobuf = program
        self._longest_symbol = max(self._longest_symbol, LONGEST_NUMBER_TEXT)
        self._header = np.empty(0, np.int32)

    def decode_behind(self, header: NDArray[np.int32], values: ByteSpans, state: NDArray[np.uint8]) -> Words:
        """As ``decode``; each message begins ``header`` int32[n] bytes behind the start of its value."""
        self._header = header
        return self.decode(values, state)

    def _run(self, values: ByteSpans, state: NDArray[np.uint8], issues: Words, may_grow: bool) -> int:
        program = self._protobuf
        self._start_over()
        room = max(2 * program.level_count, MAX_GROUP_DEPTH)
        stack = np.empty(FRAME_WORDS * (program.nesting + 1) + room, np.int64)
        map_table = np.empty(TABLE_ENTRIES if program.has_maps else 1, np.int32)
        stop = decode_block(
            np.ascontiguousarray(values.data),
            values.start,
            values.length,
            self._header,
            state,
            self._rows.ravel(),
            program.fields,
            program.enums,
            program.pool,
            program.pool_start,
            self._buffer,
            self._counts,
            self._whole,
            self._capacity,
            stack,
            map_table,
            may_grow,
            issues,
        )
        return int(stop)
