"""Drives the JSON decode kernel over the arena that all schema formats share, and finds the forms on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns.arena import ArrayArena
from engine.formats.columns.tables import Arena, Block
from engine.formats.json import operations as op
from engine.formats.json.decode_kernel import JsonTables, decode_block
from engine.formats.json.form_book import FormBook
from engine.formats.json.program import JsonProgram
from engine.kernels.types import frozen


class JsonArena(ArrayArena):
    """``forms`` int32[n]: the form of each row of the last block, -1 for none."""

    issue_text = op.ISSUE_TEXT
    no_column = op.NO_COLUMN
    first_without_place = op.FIRST_SPELLING

    def __init__(self, program: JsonProgram) -> None:
        self.program = program
        super().__init__(program.arena, stack_words=(op.FRAME_WIDTH + 1) * (program.arena.nesting + 4))
        self.book = FormBook(program)
        self.forms = np.empty(0, np.int32)
        self._report = np.zeros(op.REPORT_WIDTH, np.int64)
        self._report[[op.R_OBJECTS, op.R_MEMBERS]] = len(program.objects), program.member_count
        self._trace = np.empty(op.MAX_TRACE, np.int32)
        self._tables = JsonTables(
            objects=frozen(program.object_table),
            members=frozen(program.member_table),
            pool=frozen(program.pool),
            names=frozen(program.names),
            forms=frozen(self.book.words.reshape(-1)),
            follow=_likely_members(program),
            stamps=np.zeros(program.member_count + 1, np.int64),
            ranks=np.tile(np.array([-1, 0], np.int64), len(program.objects) + 1),
            report=self._report,
            trace=self._trace,
            scratch=np.empty(op.MAX_NAME_BYTES, np.uint8),
            skipped=np.empty(op.MAX_DEPTH, np.uint8),
        )

    def _decode(self, block: Block, arena: Arena, may_grow: bool) -> int:
        count = len(block.start)
        self.forms = np.empty(count, np.int32)
        first, without_form = 0, -1
        while True:
            self._report[op.R_FORMS] = len(self.book.forms)
            stop = int(
                decode_block(block, arena, self._tables, self.forms, first, without_form, may_grow, self.book.may_learn)
            )
            if stop == count or self._report[op.R_STOP] == op.STOP_NO_ROOM:
                return stop
            trace = self._trace[: self._report[op.R_TRACE]]
            learned = self.book.learn(trace, int(self._report[op.R_YES]), int(self._report[op.R_NO]))
            first, without_form = stop, -1 if learned else stop


def _likely_members(program: JsonProgram) -> NDArray[np.int64]:
    """After each member the next one of its object, and for each object its first: what names are compared with."""
    follow = np.arange(1, program.member_count + len(program.objects) + 2, dtype=np.int64)
    for number, place in enumerate(program.objects):
        count = len(place.members)
        if count:
            follow[place.first + count - 1] = -1
        follow[program.member_count + number] = place.first if count else -1
    return follow
