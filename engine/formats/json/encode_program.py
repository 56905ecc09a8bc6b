"""Compiles a JSON program and a form into the operations that write a record's text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns import operations as arena_op
from engine.formats.json import encode_kernel as e
from engine.formats.json import operations as op
from engine.formats.json.form import Form
from engine.formats.json.program import JsonProgram, ObjectPlace
from engine.formats.json.string_kernels import spell

_LEAVES = {
    arena_op.LONG: e.E_LONG,
    arena_op.DOUBLE: e.E_DOUBLE,
    arena_op.BOOLEAN: e.E_BOOLEAN,
    arena_op.STRING: e.E_STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodeProgram:
    rows: NDArray[np.int64]
    pool: NDArray[np.uint8]
    traits: int


def compile_form(program: JsonProgram, form: Form) -> EncodeProgram:
    compiler = _FormCompiler(program, form)
    root = program.object_at(0)
    if root is not None:
        compiler.members(root)
    else:
        compiler.nullable(0)
    compiler.add(e.E_END, -1)
    rows = np.array(compiler.rows, np.int64).ravel()
    return EncodeProgram(rows=rows, pool=np.frombuffer(bytes(compiler.pool) or b"\0", np.uint8), traits=form.traits)


class _FormCompiler:
    def __init__(self, program: JsonProgram, form: Form) -> None:
        self._program = program
        self._steps = program.arena.rows
        self._form = form
        self._place_of = {place.step: (number, place) for number, place in enumerate(program.objects)}
        self.rows: list[list[int]] = []
        self.pool = bytearray()

    def add(self, operation: int, slot: int) -> list[int]:
        row = [operation, slot, 0, 0, 0, 0]
        self.rows.append(row)
        return row

    def members(self, place: ObjectPlace) -> None:
        number = self._place_of[place.step][0]
        self.add(e.E_OPEN, place.step)
        written = self._form.written.get(number, frozenset())
        for index in self._form.order_of(number, place):
            member = place.members[index]
            text = self._name(member.name)
            row = self.add(e.E_MEMBER, member.step if member.has_column else -1)
            row[e.E_TEXT], row[e.E_LENGTH], row[e.E_WRITTEN] = len(self.pool), len(text), int(index in written)
            self.pool += text
            if member.has_column:
                self.value(member.step)
            row[e.E_TARGET] = len(self.rows)
        self.add(e.E_CLOSE, place.step)

    def _name(self, name: str) -> bytes:
        traits = self._form.traits
        return spell(name, traits) + (b": " if traits & op.SPACE_AFTER_COLON else b":")

    def nullable(self, step: int) -> None:
        """A value that stands for itself, not behind a member's name: its null is written."""
        opaque = int(self._steps[step, arena_op.OPERATION]) == arena_op.OPAQUE
        row = self.add(e.E_NULLABLE, -1 if opaque else step)
        if not opaque:
            self.value(step)
        row[e.E_TARGET] = len(self.rows)

    def value(self, step: int) -> None:
        operation = int(self._steps[step, arena_op.OPERATION])
        if operation == arena_op.UNION:
            self.members(self._place_of[step][1])
        elif operation == arena_op.ARRAY:
            self._list(step)
        else:
            self.add(_LEAVES[operation], step)

    def _list(self, step: int) -> None:
        is_map = int(self._steps[step, arena_op.PARAMETER]) == arena_op.IS_MAP
        opening = self.add(e.E_MAP if is_map else e.E_LIST, step)
        first = len(self.rows)
        self.add(e.E_KEY if is_map else e.E_ITEM, step + 1)
        self.nullable(step + 2 if is_map else step + 1)
        ending = self.add(e.E_LIST_END, step)
        ending[e.E_TARGET], ending[e.E_WRITTEN] = first, int(is_map)
        opening[e.E_TARGET] = len(self.rows)
