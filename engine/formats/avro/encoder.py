"""Drives Avro's encode kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.avro.encode_kernel import ROOM, encode_rows
from engine.formats.avro.program import Program
from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import encode_all


def encode_with(
    program: Program,
    binding: Binding,
    schema_id: int,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
    used: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode ``rows`` by one schema after the ``used`` bytes of ``out``, as ``encode_all`` does."""
    lists = np.empty(2 * program.nesting + 2, np.int64)
    steps, slots = program.rows.ravel(), binding.slots.ravel()
    return encode_all(
        lambda done, out, ends, trouble: int(
            encode_rows(rows, done, schema_id, steps, slots, lists, out, ends, trouble)
        ),
        lambda row, step: (
            f"row {rows[row]} can't be what schema {schema_id} wrote, at {program.paths[step] or 'the value'}"
        ),
        row_count=len(rows),
        room=ROOM,
        out=out,
        used=used,
    )
