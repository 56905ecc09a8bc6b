"""Hands columns to the Protobuf encode kernel: the texts of enums as their numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.formats.columns import operations as shared
from engine.formats.columns.binding import Binding
from engine.formats.protobuf.mapping import EnumTable

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
