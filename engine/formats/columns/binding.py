"""Hands Arrow columns to the encode kernel: their addresses, and the sizes that accesses are checked against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.columns import operations as op
from engine.formats.columns.program import ColumnProgram, Layout
from engine.formats.columns.tables import EncodeTables
from engine.kernels.types import frozen

# Buffers without bytes may have no address; an address of something is all the kernel needs to add zero to.
_NOTHING = np.zeros(64, np.uint8)


class Binding:
    """The slot table of one program over one set of columns; keeps alive what its addresses point to."""

    def __init__(self, program: ColumnProgram, columns: list[pa.Array], row_count: int) -> None:
        """Raises Corrupt for a column of another type or length, or whose buffers are too small for its length."""
        self.slots = np.zeros((len(program.rows), op.SLOT_WIDTH), np.int64)
        self._program = program
        self._kept: list[object] = [_NOTHING]
        for layout, column in zip(program.layouts, columns, strict=True):
            if layout is not None:
                self._bind(layout, column, row_count)

    def tables(self, prefix: bytes, steps: NDArray[np.int64], stack_words: int) -> EncodeTables:
        """What a kernel needs to write these columns by the operations ``steps``, each value after ``prefix``."""
        return EncodeTables(
            prefix=frozen(np.frombuffer(prefix, np.uint8)),
            program=frozen(steps.ravel()),
            slots=self.slots.ravel(),
            stack=np.empty(stack_words, np.int64),
        )

    def _bind(self, layout: Layout, array: pa.Array, length: int) -> None:
        path = layout.path
        array = _plain(array, layout.type, path)
        if len(array) < length:
            raise Corrupt(f"the column {path} has {len(array)} entries where {length} are expected")
        self._kept.append(array)
        if layout.union >= 0:
            self._validity(self.slots[layout.union], array)
        if pa.types.is_struct(layout.type):
            self._bind_struct(layout, array, length)
            return
        slot = self.slots[layout.step]
        if layout.union < 0:
            self._validity(slot, array)
        if layout.children:
            self._bind_list(layout, slot, array, path)
        elif layout.step in self._program.symbols:
            self._bind_enum(slot, array, self._program.symbols[layout.step], path)
        elif self._program.has_data[layout.step]:
            self._bind_strings(slot, array, path)
        else:
            self._bind_values(slot, array, int(self._program.width[layout.step]), path)

    def _bind_struct(self, layout: Layout, array: pa.StructArray, length: int) -> None:
        for child, field in zip(layout.children, layout.type, strict=True):
            if child is None:
                continue
            index = array.type.get_field_index(field.name)
            self._bind(child, array.field(index) if index >= 0 else pa.nulls(len(array), field.type), length)

    def _bind_list(self, layout: Layout, slot: NDArray[np.int64], array: pa.Array, path: str) -> None:
        slot[op.S_OFFSETS] = _address(array.buffers()[1], 4 * array.offset, 4 * (len(array) + 1), path)
        is_map = pa.types.is_map(layout.type)
        children = (array.keys, array.items) if is_map else (array.values,)
        count = min(len(child) for child in children)
        slot[op.S_CHILD_COUNT] = count
        for part, child in zip(layout.children, children, strict=True):
            if part is not None:
                self._bind(part, child, count)

    def _bind_strings(self, slot: NDArray[np.int64], array: pa.Array, path: str) -> None:
        if pa.types.is_dictionary(array.type):
            array = self._bind_indices(slot, array, path)
        _, offsets, data = array.buffers()
        slot[op.S_OFFSETS] = _address(offsets, 4 * array.offset, 4 * (len(array) + 1), path)
        slot[op.S_DATA] = data.address if data is not None and data.size else _NOTHING.ctypes.data
        slot[op.S_DATA_SIZE] = data.size if data is not None else 0

    def _bind_indices(self, slot: NDArray[np.int64], array: pa.DictionaryArray, path: str) -> pa.Array:
        indices = array.indices if array.indices.type == pa.int32() else array.indices.cast(pa.int32())
        entries = _plain(array.dictionary, array.dictionary.type, path)
        self._kept += [indices, entries]
        slot[op.S_INDICES] = _address(indices.buffers()[1], 4 * indices.offset, 4 * len(indices), path)
        slot[op.S_ENTRY_COUNT] = len(entries)
        return entries

    def _bind_enum(self, slot: NDArray[np.int64], array: pa.Array, symbols: Any, path: str) -> None:
        """Each text's index among the symbols, looked up once an entry of the dictionary where there is one."""
        if pa.types.is_dictionary(array.type):
            array = self._bind_indices(slot, array, path)
        found = pc.index_in(array, value_set=pa.array(symbols, array.type)).fill_null(-1)
        self._kept.append(found)
        slot[op.S_VALUES] = _address(found.buffers()[1], 4 * found.offset, 4 * len(found), path)

    def _bind_values(self, slot: NDArray[np.int64], array: pa.Array, width: int, path: str) -> None:
        values = array.buffers()[1]
        if pa.types.is_boolean(array.type):
            slot[op.S_VALUES] = _address(values, 0, (array.offset + len(array) + 7) // 8, path)
            slot[op.S_VALUE_BITS] = array.offset
        else:
            slot[op.S_VALUES] = _address(values, width * array.offset, width * len(array), path)

    def _validity(self, slot: NDArray[np.int64], array: pa.Array) -> None:
        bitmap = array.buffers()[0]
        if bitmap is None or array.null_count == 0:
            return
        slot[op.S_VALIDITY] = _address(bitmap, 0, (array.offset + len(array) + 7) // 8, "validity")
        slot[op.S_BIT_OFFSET] = array.offset


def _address(buffer: pa.Buffer | None, begin: int, size: int, path: str) -> int:
    """The address of ``buffer[begin : begin + size]``. Raises Corrupt where the buffer ends before."""
    if size == 0:
        return _NOTHING.ctypes.data
    if buffer is None or begin + size > buffer.size:
        raise Corrupt(f"the column {path} is shorter than its length says")
    return int(buffer.address) + begin


def _plain(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """The array in the layout that the kernel reads: 32-bit offsets, storage instead of extension types."""
    found = array.type
    if isinstance(found, pa.BaseExtensionType):
        array, found = array.storage, array.storage.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_null(found):
        return pa.nulls(len(array), kind)
    for wide, narrow in _NARROWER:
        if wide(found):
            array = array.cast(narrow)
    if pa.types.is_large_list(found):
        array = array.cast(pa.list_(found.value_field))
    found = array.type
    if pa.types.is_dictionary(found):
        if array.dictionary.null_count:
            array = array.dictionary_decode()
        found = found.value_type
    if not _same(found, kind):
        raise Corrupt(f"the column {path} has the type {array.type}, the table has {kind}")
    return array


_NARROWER = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary_view, pa.binary()),
)
_TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _same(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether the kernel reads the one as the other; nested types are compared part by part as they are bound."""
    if pa.types.is_nested(kind):
        return bool(found.id == kind.id)
    return found == kind or (found in _TEXTS and kind in _TEXTS)
