"""Drives the Avro decode kernel over the arena that the formats with schemas share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats import avro_operations as op
from engine.formats.avro_decode_kernel import decode_block
from engine.formats.avro_map_kernel import TABLE_ENTRIES
from engine.formats.avro_program import Program
from engine.formats.column_arena import ColumnArena, Words
from engine.records import ByteSpans


class ArrayArena(ColumnArena):
    """Of programs that end lists and maps with ARRAY_END, which needs where their offsets are: Avro's, JSON's."""

    def _lay_out(self, capacity: Words, data_size: Words) -> None:
        super()._lay_out(capacity, data_size)
        rows = self._rows
        ends_of_lists = rows[:, op.OPERATION] == op.ARRAY_END
        rows[ends_of_lists, op.VALUES] = rows[rows[ends_of_lists, op.SLOT], op.VALUES]


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
