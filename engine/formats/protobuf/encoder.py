"""Drives the Protobuf encode kernel: columns bound, room for its output, and what it found wrong in words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.columns import operations as shared
from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import ENCODE_PROBLEM, NO_ROOM
from engine.formats.protobuf.encode_kernel import FRAME_WORDS, encode_rows
from engine.formats.protobuf.mapping import EnumTable
from engine.formats.protobuf.program import Program
from engine.formats.protobuf.write_kernels import ROOM

# What a row is expected to take before any was written; a wrong guess costs one copy of what was written.
FIRST_GUESS_BYTES = 256

# A number that no enum has: the text it stands for is no symbol and no number.
_NO_NUMBER = 1 << 40


class ProtobufBinding(Binding):
    def _bind_enum(self, slot: NDArray[np.int64], array: pa.Array, symbols: EnumTable, path: str) -> None:
        """Each text's number, looked up once an entry of the dictionary where there is one."""
        if pa.types.is_dictionary(array.type):
            array = self._bind_indices(slot, array, path)
        found = pc.index_in(array, value_set=pa.array(symbols.symbols, array.type))
        place = found.fill_null(len(symbols.numbers)).to_numpy(zero_copy_only=False)
        numbers = np.array([*symbols.numbers, _NO_NUMBER], np.int64)[place]
        strangers = pc.and_(found.is_null(), array.is_valid()).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(strangers).tolist():
            numbers[row] = _number_of(array[row].as_py())
        self._kept.append(numbers)
        slot[shared.S_VALUES] = numbers.ctypes.data


def _number_of(text: str | bytes | None) -> int:
    """The number of an enum that has no symbol for it."""
    try:
        number = int(text or "")
    except ValueError:
        return _NO_NUMBER
    return number if -(2**31) <= number < 2**31 else _NO_NUMBER


class Output:
    """Bytes that grow from their end towards their beginning."""

    def __init__(self) -> None:
        self.data = np.empty(0, np.uint8)
        self.used = 0

    def write(
        self, program: Program, binding: Binding, header: bytes, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Encode ``rows``, each behind the ``header``: (where each begins, as its distance from the end of the data;
        its length). Raises Corrupt, naming the column, for what decoding can't have made.
        """
        behind = np.empty(len(rows) + 1, np.int64)
        behind[-1] = self.used
        trouble = np.zeros(2, np.int64)
        stack = np.empty(FRAME_WORDS * (program.nesting + 1), np.int64)
        steps, slots = program.rows.ravel(), binding.slots.ravel()
        prefix = np.frombuffer(header, np.uint8)
        self._reserve(self.used + FIRST_GUESS_BYTES * len(rows) + ROOM)
        done, before = 0, self.used
        while True:
            done = int(encode_rows(rows, done, prefix, steps, slots, stack, self.data, behind, trouble))
            self.used = int(behind[len(rows) - done])
            if done == len(rows):
                return behind[:-1], (behind[:-1] - behind[1:]).astype(np.int32)
            step, code = trouble.tolist()
            if code != NO_ROOM:
                raise Corrupt(
                    f"row {rows[len(rows) - 1 - done]} can't be what its schema wrote, at "
                    f"{program.paths[step] or 'the value'}: {ENCODE_PROBLEM[code]}"
                )
            expected = (self.used - before) * len(rows) // max(1, done)
            self._reserve(max(2 * len(self.data), before + expected + expected // 8))

    def _reserve(self, size_bytes: int) -> None:
        if size_bytes <= len(self.data):
            return
        larger = np.empty(size_bytes, np.uint8)
        larger[len(larger) - self.used :] = self.data[len(self.data) - self.used :]
        self.data = larger
