"""The table by which the kernels pass over values of any Avro type, those that contain themselves included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.formats.avro import operations as op
from engine.formats.avro.schema import AvroType

_LEAVES = {
    "null": (op.SKIP_NOTHING, 0),
    "boolean": (op.SKIP_FIXED, 1),
    "int": (op.SKIP_VARINT, 0),
    "long": (op.SKIP_VARINT, 0),
    "enum": (op.SKIP_VARINT, 0),
    "float": (op.SKIP_FIXED, 4),
    "double": (op.SKIP_FIXED, 8),
    "bytes": (op.SKIP_STRING, 0),
    "string": (op.SKIP_STRING, 0),
}


class SkipTable:
    """One row a type, each type once however often it is used; ``tables`` gives what the kernel reads."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._children: list[int] = []
        self._node_of: dict[int, int] = {}
        self._types: list[AvroType] = []  # keeps the types alive, whose ids are the keys above
        self._empty: dict[int, bool] = {}

    def add(self, avro: AvroType) -> int:
        """The type's row, made where it has none yet."""
        known = self._node_of.get(id(avro))
        if known is not None:
            return known
        node = len(self._rows)
        self._node_of[id(avro)] = node
        self._types.append(avro)
        row = [op.SKIP_NOTHING, 0, 0]
        self._rows.append(row)
        if self._is_empty(avro):
            return node
        if avro.kind in ("record", "union"):
            inner = [child for _, child in avro.fields] if avro.kind == "record" else avro.branches
            nodes = [self.add(child) for child in inner]
            row[:] = [op.SKIP_RECORD if avro.kind == "record" else op.SKIP_UNION, len(self._children), len(nodes)]
            self._children.extend(nodes)
        elif avro.kind in ("array", "map"):
            assert avro.items is not None, "arrays and maps have items by construction"
            operation = op.SKIP_ARRAY if avro.kind == "array" else op.SKIP_MAP
            row[:] = [operation, self.add(avro.items), int(self._is_empty(avro.items))]
        elif avro.kind == "fixed":
            row[:] = [op.SKIP_FIXED, avro.size, 0]
        else:
            row[:2] = _LEAVES[avro.kind]
        return node

    def _is_empty(self, avro: AvroType) -> bool:
        """Whether its values take no bytes: lists of them must not be counted through, their counts are free."""
        if avro.kind != "record":
            return avro.kind == "null" or (avro.kind == "fixed" and avro.size == 0)
        if id(avro) not in self._empty:
            self._empty[id(avro)] = False  # a record inside itself: bounded by the depth of the descent
            self._empty[id(avro)] = all(self._is_empty(child) for _, child in avro.fields)
        return self._empty[id(avro)]

    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64[k, 3] of the types and int64[] of the children they point to; never without a row."""
        return np.array(self._rows or [[0, 0, 0]], np.int64), np.array(self._children or [0], np.int64)
