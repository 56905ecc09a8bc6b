"""Drives the encode kernel: room for its output, and what it found wrong in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.avro_binding import Binding
from engine.formats.avro_encode_kernel import ENCODE_PROBLEM, NO_ROOM, ROOM, encode_rows
from engine.formats.avro_program import Program

# What a row is expected to take before any was written; a wrong guess costs one copy of what was written.
FIRST_GUESS_BYTES = 256


def encode_with(
    program: Program,
    binding: Binding,
    schema_id: int,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
    used: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode ``rows`` by one schema behind the ``used`` bytes of ``out``: (the buffer, perhaps a larger one; where
    each row's bytes lie, int64[len(rows) + 1]). Raises Corrupt, naming the column, for what decoding can't have made.
    """
    ends = np.empty(len(rows) + 1, np.int64)
    ends[0] = used
    trouble = np.zeros(2, np.int64)
    lists = np.empty(2 * program.nesting + 2, np.int64)
    out = enlarged(out, used, used + FIRST_GUESS_BYTES * len(rows) + ROOM)
    steps, slots = program.rows.ravel(), binding.slots.ravel()
    done = 0
    while True:
        done = int(encode_rows(rows, done, schema_id, steps, slots, lists, out, ends, trouble))
        if done == len(rows):
            return out, ends
        step, code = trouble.tolist()
        if code != NO_ROOM:
            raise Corrupt(
                f"row {rows[done]} can't be what schema {schema_id} wrote, at {program.paths[step] or 'the value'}: "
                f"{ENCODE_PROBLEM[code]}"
            )
        written = int(ends[done])
        expected = (written - used) * len(rows) // max(1, done)
        out = enlarged(out, written, max(2 * len(out), used + expected + expected // 8))


def enlarged(out: NDArray[np.uint8], used: int, size_bytes: int) -> NDArray[np.uint8]:
    if size_bytes <= len(out):
        return out
    larger = np.empty(size_bytes, np.uint8)
    larger[:used] = out[:used]
    return larger
