"""Drives the JSON decode kernel over the arena that all schema formats share, and finds the forms on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns.arena import ArrayArena
from engine.formats.columns.maps import TABLE_ENTRIES
from engine.formats.json import operations as op
from engine.formats.json.decode_kernel import decode_rows
from engine.formats.json.form_book import FormBook
from engine.formats.json.program import JsonProgram
from engine.records.records import ByteSpans


class JsonArena(ArrayArena):
    """``forms`` int32[n]: the form of each row of the last block, -1 for none."""

    def __init__(self, program: JsonProgram) -> None:
        super().__init__(program.arena)
        self.book = FormBook(program)
        self.forms = np.empty(0, np.int32)
        objects, members = len(program.objects), program.member_count
        self._report = np.zeros(op.REPORT_WIDTH, np.int64)
        self._trace = np.empty(op.MAX_TRACE, np.int32)
        self._tables: dict[int, NDArray[Any]] = {
            op.C_OBJECTS: program.object_table,
            op.C_MEMBERS: program.member_table,
            op.C_POOL: program.pool,
            op.C_NAMES: program.names,
            op.C_FOLLOW: _likely_members(program),
            op.C_STAMPS: np.zeros(members + 1, np.int64),
            op.C_STACK: np.empty((op.FRAME_WIDTH + 1) * (program.arena.nesting + 4), np.int64),
            op.C_SKIPPED: np.empty(op.MAX_DEPTH, np.uint8),
            op.C_MAP_TABLE: np.empty(TABLE_ENTRIES if program.arena.has_maps else 1, np.int32),
            op.C_REPORT: self._report,
            op.C_TRACE: self._trace,
            op.C_SCRATCH: np.empty(op.MAX_NAME_BYTES, np.uint8),
            op.C_FORMS: self.book.words,
            op.C_RANKS: np.tile(np.array([-1, 0], np.int64), objects + 1),
        }
        self._context = np.zeros(op.CONTEXT_WIDTH, np.int64)
        for place, table in self._tables.items():
            self._context[place] = table.ctypes.data
        self._context[op.C_OBJECT_COUNT] = objects
        self._context[op.C_MEMBER_COUNT] = members
        self._context[op.C_LAST] = len(program.arena.rows) - 1

    def _run(self, values: ByteSpans, state: NDArray[np.uint8], issues: NDArray[np.int64], may_grow: bool) -> int:
        self._start_over()
        rows = self._rows.ravel()
        self.forms = np.empty(len(values), np.int32)
        data = np.ascontiguousarray(values.data)
        self._context[op.C_PROGRAM] = rows.ctypes.data
        self._context[op.C_ARENA] = self._buffer.ctypes.data
        self._context[op.C_COUNTS] = self._counts.ctypes.data
        self._context[op.C_CAPACITY] = self._capacity.ctypes.data
        first, without_form = 0, -1
        while True:
            self._context[op.C_FORM_COUNT] = len(self.book.forms)
            may_learn = self.book.may_learn
            stop = int(
                decode_rows(
                    data, values.start, values.length, state, first, without_form, self._context,
                    self._counts, self._whole, may_grow, may_learn, issues, self.forms,
                )
            )  # fmt: skip
            if stop == len(values) or self._report[op.R_STOP] == op.STOP_NO_ROOM:
                return stop
            trace = self._trace[: self._report[op.R_TRACE]]
            learned = self.book.learn(trace, int(self._report[op.R_YES]), int(self._report[op.R_NO]))
            first, without_form = stop, -1 if learned else stop


def _likely_members(program: JsonProgram) -> NDArray[np.int64]:
    """Behind each member the next one of its object, and for each object its first: what names are compared with."""
    follow = np.arange(1, program.member_count + len(program.objects) + 2, dtype=np.int64)
    for number, place in enumerate(program.objects):
        count = len(place.members)
        if count:
            follow[place.first + count - 1] = -1
        follow[program.member_count + number] = place.first if count else -1
    return follow
