"""Drives the Protobuf decode kernel over the arena that the formats with schemas share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns.arena import ColumnArena, Words
from engine.formats.columns.tables import Arena, Block
from engine.formats.protobuf import operations as op
from engine.formats.protobuf.decode_kernel import FRAME_WORDS, MessageTables, decode_block
from engine.formats.protobuf.program import Program
from engine.kernels.types import frozen
from engine.records.records import ByteSpans


class ProtobufArena(ColumnArena):
    issue_text = op.ISSUE_TEXT
    no_column = op.NO_COLUMN

    def __init__(self, program: Program) -> None:
        self.program = program
        free = max(2 * program.level_count, op.MAX_GROUP_DEPTH)
        super().__init__(program, stack_words=FRAME_WORDS * (program.nesting + 1) + free)
        self._longest_symbol = max(self._longest_symbol, op.LONGEST_NUMBER_TEXT)
        self._header = np.empty(0, np.int32)
        self._tables = MessageTables(
            fields=frozen(program.fields),
            enums=frozen(program.enums),
            pool=frozen(program.pool),
            pool_start=frozen(program.pool_start),
        )

    def decode_after(self, header: NDArray[np.int32], values: ByteSpans, state: NDArray[np.uint8]) -> Words:
        """As ``decode``; each message begins ``header`` int32[n] bytes after the start of its value."""
        self._header = header
        return self.decode(values, state)

    def _decode(self, block: Block, arena: Arena, may_grow: bool) -> int:
        return int(decode_block(block, arena, self._tables, self._header, may_grow))
