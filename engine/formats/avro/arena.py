"""Drives the Avro decode kernel over the arena that the formats with schemas share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.avro.decode_kernel import decode_block
from engine.formats.avro.program import Program
from engine.formats.columns.arena import ArrayArena, Words
from engine.formats.columns.maps import TABLE_ENTRIES
from engine.records.records import ByteSpans


class Arena(ArrayArena):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._avro = program

    def _run(self, values: ByteSpans, state: NDArray[np.uint8], issues: Words, may_grow: bool) -> int:
        program = self._avro
        self._start_over()
        lists = np.empty(3 * program.nesting + 3, np.int64)
        map_table = np.empty(TABLE_ENTRIES if program.has_maps else 1, np.int32)
        stop = decode_block(
            np.ascontiguousarray(values.data),
            values.start,
            values.length,
            state,
            self._rows.ravel(),
            program.skips.ravel(),
            program.skip_children,
            program.pool,
            program.pool_start,
            self._buffer,
            self._counts,
            self._whole,
            self._capacity,
            lists,
            map_table,
            may_grow,
            issues,
        )
        return int(stop)
