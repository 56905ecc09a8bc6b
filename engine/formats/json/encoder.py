"""Drives JSON's encode kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import encode_all
from engine.formats.json.encode_kernel import ROOM, encode_rows
from engine.formats.json.encode_program import EncodeProgram
from engine.formats.json.program import JsonProgram


def encode_with(
    program: JsonProgram,
    form: EncodeProgram,
    binding: Binding,
    schema_id: int,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
    used: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode ``rows`` by one schema and form after the ``used`` bytes of ``out``, as ``encode_all`` does."""
    lists = np.empty(2 * program.arena.nesting + 4, np.int64)
    slots = binding.slots.ravel()

    def place(row: int, step: int) -> str:
        path = program.arena.paths[step] if step >= 0 else ""
        return f"row {rows[row]} can't be what schema {schema_id} wrote, at {path or 'the value'}"

    return encode_all(
        lambda done, out, ends, trouble: int(
            encode_rows(rows, done, schema_id, form.traits, form.rows, form.pool, slots, lists, out, ends, trouble)
        ),
        place,
        row_count=len(rows),
        room=ROOM,
        out=out,
        used=used,
    )
