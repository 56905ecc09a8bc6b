"""Drives the JSON encode kernel: room for its output, and what it found wrong in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.avro_binding import Binding
from engine.formats.avro_encode_kernel import ENCODE_PROBLEM, NO_ROOM
from engine.formats.avro_encoder import FIRST_GUESS_BYTES, enlarged
from engine.formats.json_encode_kernel import ROOM, encode_rows
from engine.formats.json_encode_program import EncodeProgram
from engine.formats.json_program import JsonProgram


def encode_with(
    program: JsonProgram,
    form: EncodeProgram,
    binding: Binding,
    schema_id: int,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
    used: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode ``rows`` by one schema and form behind the ``used`` bytes of ``out``: (the buffer, perhaps a larger one;
    where each row's bytes lie, int64[len(rows) + 1]). Raises Corrupt, naming the column, for what decoding can't have
    made.
    """
    ends = np.empty(len(rows) + 1, np.int64)
    ends[0] = used
    trouble = np.zeros(2, np.int64)
    lists = np.empty(2 * program.arena.nesting + 4, np.int64)
    slots = binding.slots.ravel()
    out = enlarged(out, used, used + FIRST_GUESS_BYTES * len(rows) + ROOM)
    done = 0
    while True:
        done = int(
            encode_rows(
                rows, done, schema_id, form.traits, form.rows, form.pool, slots, lists, out, ends, trouble
            )
        )  # fmt: skip
        if done == len(rows):
            return out, ends
        step, code = trouble.tolist()
        if code != NO_ROOM:
            path = program.arena.paths[step] if step >= 0 else ""
            raise Corrupt(
                f"row {rows[done]} can't be what schema {schema_id} wrote, at {path or 'the value'}: "
                f"{ENCODE_PROBLEM[code]}"
            )
        written = int(ends[done])
        expected = (written - used) * len(rows) // max(1, done)
        out = enlarged(out, written, max(2 * len(out), used + expected + expected // 8))
