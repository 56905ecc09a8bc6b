"""The message indexes behind the schema id of a Protobuf value: which message of the schema's file it is.

How many there are, then the indexes, from the file's messages inwards, as zigzag varints; a single zero stands for the
first message. Source: Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from engine.formats.confluent_framing import FRAMED, HEADER_BYTES
from engine.kernels.types import read_only, strided, writable
from engine.records.records import ByteSpans

BAD_INDEXES = 16
BAD_INDEXES_REASON = "the message indexes behind the schema header can't be read"

FIRST_MESSAGE = (0,)

# The indexes' bytes make a row's key, their number in its highest byte; longer ones don't occur.
_MAX_BYTES = 7

_READ = types.void(
    read_only(types.uint8), strided(types.int64), strided(types.int32),
    writable(types.uint8), writable(types.int64), writable(types.int32),
)  # fmt: skip


@njit(_READ, nogil=True, cache=True)
def _read(data, start, length, state, key, header):  # type: ignore[no-untyped-def]
    for row in range(start.shape[0]):
        key[row] = 0
        header[row] = HEADER_BYTES
        if state[row] != FRAMED:
            continue
        first = start[row] + HEADER_BYTES
        end = min(start[row] + np.int64(length[row]), first + _MAX_BYTES)
        at = first
        left = np.int64(1)
        count = np.int64(0)
        shift = np.int64(0)
        is_first = True
        while left > 0 and at < end:
            byte = np.int64(data[at])
            key[row] |= byte << (8 * (at - first))
            at += 1
            if is_first:
                count |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                left -= 1
                if is_first:
                    is_first = False
                    left = np.int64(-1) if count & 1 else count >> 1
        if left != 0:
            state[row] = BAD_INDEXES
            continue
        key[row] |= (at - first) << 56
        header[row] = HEADER_BYTES + at - first


def read_indexes(values: ByteSpans, state: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For the rows that are FRAMED: (key int64[n] of their message indexes, bytes before the message int32[n]).

    ``state`` becomes BAD_INDEXES where they can't be read.
    """
    key, header = np.empty(len(values), np.int64), np.empty(len(values), np.int32)
    _read(np.ascontiguousarray(values.data), values.start, values.length, state, key, header)
    return key, header


def key_of(raw: bytes) -> int:
    """The key of indexes that are written so; 0, which no row has, for longer ones than occur."""
    return int.from_bytes(raw, "little") | len(raw) << 56 if len(raw) <= _MAX_BYTES else 0


LONG_FIRST_KEY = key_of(b"\x02\x00")
"""The first message, written with how many indexes there are: some serializers do."""


def write_indexes(path: Sequence[int]) -> bytes:
    if tuple(path) == FIRST_MESSAGE:
        return b"\0"
    written = bytearray()
    for number in (len(path), *path):
        left = number << 1
        while left >= 0x80:
            written.append(left & 0x7F | 0x80)
            left >>= 7
        written.append(left)
    return bytes(written)
