"""Thrift's compact protocol, both directions, for the metadata of Parquet files.

Reading is bounded against hostile input: nothing is allocated beyond the bytes at hand, nesting has a limit, and every
length is checked. Writing covers what a Parquet footer needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet import thrift_kernels as kernels
from engine.parquet.thrift_kernels import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, LIST, SET, STRUCT, TRUE

ThriftValue: TypeAlias = Any
"""int, bool, bytes, a list of values, or a struct as ``{field id: value}``; a double stays its 8 bytes."""

ThriftStruct: TypeAlias = dict[int, ThriftValue]

_PROBLEMS = {
    kernels.TRUNCATED: "it ends early",
    kernels.TOO_DEEP: "it nests too deep",
    kernels.UNKNOWN_TYPE: "it has a type that Parquet does not use",
    kernels.BAD_VARINT: "it has a number that is out of bounds",
    kernels.TAPE_FULL: "it has more values than bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThriftTape:
    """One struct, flat: entry 0 is the struct, and each value comes after what holds it (see ``tokenize``)."""

    data: NDArray[np.uint8]
    field: NDArray[np.int32]
    kind: NDArray[np.uint8]
    value: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    after: NDArray[np.int64]

    @classmethod
    def read(cls, data: NDArray[np.uint8], *, at: int = 0, file: str, what: str) -> Self:
        """Read the struct that begins at byte ``at``; bytes after it are left alone.

        Raises Corrupt, naming ``what`` it was to be and the ``file``, when the bytes are no Thrift struct.
        """
        # A value takes at least a byte of the input, and entry 0 has its stop byte: the tape can't overflow.
        capacity = len(data) - at + 1
        field = np.empty(capacity, np.int32)
        kind = np.empty(capacity, np.uint8)
        value, start, end, after = (np.empty(capacity, np.int64) for _ in range(4))
        count = kernels.tokenize(data, at, field, kind, value, start, end, after)
        if count < 0:
            raise Corrupt(f"the {what} is damaged: {_PROBLEMS[int(count)]}", file=file)
        return cls(
            data=data,
            field=field[:count].copy(),
            kind=kind[:count].copy(),
            value=value[:count].copy(),
            start=start[:count].copy(),
            end=end[:count].copy(),
            after=after[:count].copy(),
        )

    @property
    def end_byte(self) -> int:
        """The position after the struct's last byte."""
        return int(self.end[0])

    def fields_of(self, entry: int) -> dict[int, int]:
        """The struct at ``entry``: field id -> entry. A repeated id keeps its last value, as Thrift's readers do."""
        found: dict[int, int] = {}
        child, last = entry + 1, int(self.after[entry])
        while child < last:
            found[int(self.field[child])] = child
            child = int(self.after[child])
        return found

    def items_of(self, entry: int) -> list[int]:
        """The entries of the list at ``entry``, in order."""
        items = []
        child, last = entry + 1, int(self.after[entry])
        while child < last:
            items.append(child)
            child = int(self.after[child])
        return items

    def item_of(self, entry: int, index: int) -> int:
        """The entry of one item of the list at ``entry``. Raises IndexError."""
        child, last = entry + 1, int(self.after[entry])
        for _ in range(index):
            if child >= last:
                break
            child = int(self.after[child])
        if child >= last:
            raise IndexError(f"a list has no item {index}")
        return child

    def bytes_of(self, entry: int) -> bytes:
        """A binary's bytes, or another value's encoding, without its field header."""
        end = int(self.end[entry])
        start = end - int(self.value[entry]) if self.kind[entry] == BINARY else int(self.start[entry])
        return self.data[start:end].tobytes()

    def unpack(self, entry: int) -> ThriftValue:
        """The value at ``entry`` with all it holds as plain Python values."""
        low, last = int(self.start[entry]), int(self.after[entry])
        data = self.data[low : int(self.end[entry])].tobytes()
        here = slice(entry, last)
        # As Python lists: a scalar out of a NumPy array costs five times as much.
        entries = zip(
            self.field[here].tolist(),
            self.kind[here].tolist(),
            self.value[here].tolist(),
            self.end[here].tolist(),
            self.after[here].tolist(),
            strict=True,
        )
        root: list[ThriftValue] = []
        holders: list[tuple[ThriftValue, int]] = [(root, last)]
        for at, (field, kind, value, end, after) in enumerate(entries, entry):
            while holders[-1][1] <= at:
                holders.pop()
            found: ThriftValue = value
            if kind == BINARY:
                found = data[end - low - value : end - low]
            elif kind == DOUBLE:
                found = data[end - low - 8 : end - low]
            elif kind in (TRUE, FALSE):
                found = bool(value)
            elif kind == STRUCT:
                found = {}
            elif kind in (LIST, SET):
                found = []
            holder = holders[-1][0]
            if isinstance(holder, dict):
                holder[field] = found
            else:
                holder.append(found)
            if kind in (STRUCT, LIST, SET):
                holders.append((found, after))
        return root[0]


_SMALL = tuple(bytes([value]) for value in range(0x80))


def varint(value: int) -> bytes:
    """Unsigned LEB128."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """A signed 64-bit integer."""
    return varint((value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF)


def binary(value: bytes) -> bytes:
    size = len(value)
    return (_SMALL[size] if size < 0x80 else varint(size)) + value


def listed(item_kind: int, items: Sequence[bytes]) -> bytes:
    """A list of values that are encoded already."""
    count = len(items)
    head = bytes([count << 4 | item_kind]) if count < 15 else bytes([0xF0 | item_kind]) + varint(count)
    return head + b"".join(items)


def struct(fields: Iterable[tuple[int, int, bytes]], *, after: int = 0) -> bytes:
    """A struct of (field id, Thrift type, encoded value), ids rising; a boolean's type says its value, with no bytes.

    ``after``: the fields continue a struct whose last field has that id.
    """
    out = []
    last = after
    for field_id, kind, value in fields:
        delta = field_id - last
        out.append(bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + zigzag(field_id))
        out.append(value)
        last = field_id
    out.append(b"\0")
    return b"".join(out)


__all__ = [
    "BINARY",
    "BYTE",
    "FALSE",
    "I16",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "TRUE",
    "ThriftStruct",
    "ThriftTape",
    "binary",
    "listed",
    "struct",
    "varint",
    "zigzag",
]
