"""The five bytes before a value in Confluent's wire format: a zero byte, then the schema's id, 4 bytes big-endian.

Source: Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.kernels.types import read_only, strided, writable
from engine.records.records import ByteSpans

HEADER_BYTES = 5

FRAMED, NULL_VALUE, TOO_SHORT, NOT_MAGIC, NEGATIVE_ID = range(5)

FRAMING_REASON = {
    TOO_SHORT: "the value is shorter than the 5 bytes of a schema header",
    NOT_MAGIC: "the value does not begin with the zero byte of a schema header",
    NEGATIVE_ID: "the schema header holds a negative id",
}

_READ = types.void(
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    writable(types.int32),
    writable(types.uint8),
)


@njit(_READ, nogil=True, cache=True)
def _read_headers(data, start, length, schema_id, state):  # type: ignore[no-untyped-def]
    for row in range(start.shape[0]):
        size = np.int64(length[row])
        at = start[row]
        schema_id[row] = -1
        if size < 0:
            state[row] = NULL_VALUE
        elif size < HEADER_BYTES or at < 0 or at + size > data.shape[0]:
            state[row] = TOO_SHORT
        elif data[at] != 0:
            state[row] = NOT_MAGIC
        elif data[at + 1] >= 0x80:
            state[row] = NEGATIVE_ID
        else:
            high = (np.int32(data[at + 1]) << 24) | (np.int32(data[at + 2]) << 16)
            schema_id[row] = high | (np.int32(data[at + 3]) << 8) | np.int32(data[at + 4])
            state[row] = FRAMED


def header_of(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def read_headers(values: ByteSpans) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """(schema id int32[n], -1 where there is none; state uint8[n]: FRAMED or what else a row is)."""
    schema_id = np.empty(len(values), np.int32)
    state = np.empty(len(values), np.uint8)
    _read_headers(np.ascontiguousarray(values.data), values.start, values.length, schema_id, state)
    return schema_id, state
