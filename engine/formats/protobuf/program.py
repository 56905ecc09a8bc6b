"""Compiles a message's fields against a table's value columns into the flat program that the kernels run both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.codec import Placement
from engine.formats.columns.program import ColumnCompiler, ColumnProgram, Layout
from engine.formats.evolution.promotion import holds
from engine.formats.protobuf import operations as op
from engine.formats.protobuf.mapping import (
    NANOS_SUFFIX,
    EnumTable,
    FieldNode,
    Leaf,
    ListNode,
    MapNode,
    MessageNode,
    Node,
    Opaque,
    arrow_type,
)

_OFFSETS_WIDTH = 4
_NO_COLUMN = "the table has no column for it"
_WIRE = {
    **dict.fromkeys(range(op.LAST_VARINT + 1), op.WIRE_VARINT),
    **dict.fromkeys((op.FIXED32, op.SFIXED32, op.FLOAT), op.WIRE_32),
    **dict.fromkeys((op.FIXED64, op.SFIXED64, op.DOUBLE), op.WIRE_64),
}
_WIDTH = {
    op.STORE_INT: 4,
    op.STORE_LONG: 8,
    op.STORE_DECIMAL: 16,
    op.STORE_BOOLEAN: 1,
    op.STORE_BYTES: 4,
    op.STORE_DOUBLE_OF_FLOAT: 8,
}
# These can meet a value that the column can't hold, which is then null although the field has no presence.
_MAY_FAIL = frozenset({op.STRING, op.ENUM, op.TIMESTAMP, op.DURATION})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program(ColumnProgram):
    """``fields``: the operations of each message's fields, by number; ``enums`` the words of the enums' tables.
    ``symbols`` are the ``EnumTable`` of an operation.
    """

    fields: NDArray[np.int64]
    enums: NDArray[np.int64]


def compile_program(message: MessageNode, fields: Sequence[pa.Field], placement: Placement) -> Program:
    """A field that has no column, or one that can't hold it, is kept in the bytes of the records that use it."""
    compiler = _Compiler(placement)
    made = compiler.fields(message, {field.name: field.type for field in fields}, "", 0)
    return compiler.finish([made.get(field.name) for field in fields])


class _Compiler(ColumnCompiler):
    def __init__(self, placement: Placement) -> None:
        super().__init__(placement, op.ROW_WIDTH)
        self._fields: list[int] = []
        self._enums: list[int] = []
        self._enum_at: dict[EnumTable, int] = {}

    def _add(self, operation: int, path: str, level: int, *, valid: int = -1, store: int | None = None) -> int:
        """``add``, with what a column of the kind ``store`` needs."""
        width = 0 if store is None else _WIDTH[store]
        step = self.add(operation, path, level, width=width, valid=valid, data=store == op.STORE_BYTES)
        row = self.rows[step]
        row[op.TARGET], row[op.TAG], row[op.ONEOF] = step + 1, -1, -1
        if store is not None:
            row[op.STORE] = store
        return step

    def fields(
        self, message: MessageNode, columns: Mapping[str, pa.DataType], path: str, level: int
    ) -> dict[str, Layout]:
        """The operations of a message's fields and of its end; the layout of each column they fill."""
        self.enter()
        made: dict[str, Layout] = {}
        steps: list[int] = []
        oneofs: dict[str, list[int]] = {}
        for field in message.fields:
            steps.append(len(self.rows))
            if field.oneof is not None:
                oneofs.setdefault(field.oneof, []).append(len(self.rows))
            self._field(field, columns, f"{path}.{field.name}" if path else field.name, level, made)
        self._end(steps, path, level)
        for ring in oneofs.values():
            if len(ring) > 1:
                for step, following in zip(ring, [*ring[1:], ring[0]], strict=True):
                    self.rows[step][op.ONEOF] = following
        self.depth -= 1
        return made

    def _end(self, steps: Sequence[int], path: str, level: int) -> None:
        row = self.rows[self._add(op.END, path, level)]
        row[op.NUMBER], row[op.PARAMETER], row[op.LEVEL] = op.PAST_ALL_NUMBERS, len(self._fields), len(steps)
        self._fields.extend(steps)

    def _field(
        self, field: FieldNode, columns: Mapping[str, pa.DataType], path: str, level: int, made: dict[str, Layout]
    ) -> None:
        wanted = arrow_type(field.node)
        name = self.placement.get(path, field.name)
        column = columns.get(name)
        step = len(self.rows)
        if isinstance(field.node, Opaque) or wanted is None:
            self._opaque(field.node.why if isinstance(field.node, Opaque) else _NO_COLUMN, path, level)
        elif column is None or not holds(column, wanted):
            why = _NO_COLUMN if column is None else f"the schema has {wanted}, the table has {column}"
            self._opaque(why, path, level)
        else:
            presence = op.EXPLICIT if field.has_presence else op.IMPLICIT
            made[name] = self._value(field.node, column, path, level, presence)
            self._nanos(field, columns, path, level, step, made)
        self._number(step, field.number, field.node)

    def _opaque(self, why: str, path: str, level: int) -> None:
        self.whys[self._add(op.OPAQUE, path, level)] = why

    def _nanos(
        self,
        field: FieldNode,
        columns: Mapping[str, pa.DataType],
        path: str,
        level: int,
        step: int,
        made: dict[str, Layout],
    ) -> None:
        """The row behind a timestamp, where the table has a column for what is below its microseconds."""
        path += NANOS_SUFFIX
        name = self.placement.get(path, field.name + NANOS_SUFFIX)
        column = columns.get(name)
        if not field.has_nanos or column is None or not holds(column, pa.int32()):
            return
        nanos = self._add(op.NANOS, path, level, valid=len(self.rows), store=_store(op.INT32, column))
        self.rows[step][op.FLAGS] |= op.HAS_NANOS
        self.rows[step][op.TARGET] = nanos + 1
        made[name] = Layout(type=column, path=path, step=nanos, union=-1, valid=nanos)

    def _number(self, step: int, number: int, node: Node) -> None:
        row = self.rows[step]
        row[op.NUMBER] = number
        wire = op.WIRE_BYTES
        if isinstance(node, Leaf):
            wire = _WIRE.get(node.kind, op.WIRE_BYTES)
        elif isinstance(node, ListNode) and not node.is_packed and isinstance(node.items, Leaf):
            wire = _WIRE.get(node.items.kind, op.WIRE_BYTES)
        if row[op.OPERATION] == op.OPAQUE:
            # Whatever its wire type, it is passed over: no tag is the one that is expected.
            return
        row[op.TAG] = tag = number << 3 | wire
        text = bytearray()
        while tag >= 0x80:
            text.append(tag & 0x7F | 0x80)
            tag >>= 7
        text.append(tag)
        row[op.TAG_BYTES] = int.from_bytes(bytes(8 - len(text)) + text, "little", signed=True)
        row[op.TAG_LENGTH] = len(text)
        if row[op.OPERATION] == op.LEAVES:
            self.rows[step + 1][op.TAG_BYTES : op.TAG_LENGTH + 1] = row[op.TAG_BYTES : op.TAG_LENGTH + 1]

    def _value(self, node: Node, column: pa.DataType, path: str, level: int, presence: int) -> Layout:
        if isinstance(node, Leaf):
            return self._leaf(node, column, path, level, presence)
        if isinstance(node, MessageNode):
            return self._message(node, column, path, level)
        assert isinstance(node, ListNode | MapNode), "what has no column is not compiled with one"
        return self._list(node, column, path, level, -1)

    def _leaf(
        self, node: Leaf, column: pa.DataType, path: str, level: int, presence: int, operation: int = op.LEAF
    ) -> Layout:
        step = len(self.rows)
        can_be_null = presence == op.EXPLICIT or node.kind in _MAY_FAIL
        self._add(operation, path, level, valid=step if can_be_null else -1, store=_store(node.kind, column))
        row = self.rows[step]
        row[op.KIND], row[op.PRESENCE] = node.kind, presence
        if node.enum is not None:
            row[op.PARAMETER] = self._enum(node.enum)
            row[op.FLAGS] |= op.CLOSED_ENUM if node.enum.is_closed else 0
            self.symbols[step] = node.enum
        return Layout(type=column, path=path, step=step, union=-1, valid=row[op.VALID])

    def _enum(self, enum: EnumTable) -> int:
        """Where the words of an enum's table begin, made where there are none yet."""
        if enum not in self._enum_at:
            numbers = enum.numbers
            is_dense = numbers[-1] - numbers[0] + 1 == len(numbers)
            self._enum_at[enum] = len(self._enums)
            self._enums += [len(numbers), numbers[0], int(is_dense), len(self.pool), enum.default, *numbers]
            self.pool += [symbol.encode() for symbol in enum.symbols]
        return self._enum_at[enum]

    def _message(self, node: MessageNode, column: pa.DataType, path: str, level: int) -> Layout:
        step = self._add(op.MESSAGE, path, level, valid=len(self.rows))
        layout = self._inside(node, column, path, level, step)
        self._close(step)
        return layout

    def _inside(self, node: MessageNode, column: pa.DataType, path: str, level: int, owner: int) -> Layout:
        """The fields of a message whose validity the operation ``owner`` has, -1 where it is never null."""
        if not node.is_transparent:
            made = self.fields(node, {child.name: child.type for child in column}, path, level)
            children = tuple(made.get(child.name) for child in column)
            return Layout(type=column, path=path, step=-1, union=owner, valid=owner, children=children)
        self.enter()
        field = node.fields[0]
        first = len(self.rows)
        if isinstance(field.node, ListNode):
            layout = self._list(field.node, column, path, level, owner)
        else:
            assert isinstance(field.node, Leaf), "a wrapper holds a scalar"
            inner = self._leaf(field.node, column, path, level, op.IMPLICIT)
            if owner >= 0:
                self.has_valid[inner.step] = False
                self.rows[inner.step][op.VALID] = owner
            valid = owner if owner >= 0 else inner.valid
            layout = Layout(type=column, path=path, step=inner.step, union=owner, valid=valid)
        self._number(first, field.number, field.node)
        self._end([first], path, level)
        self.depth -= 1
        return layout

    def _close(self, step: int) -> None:
        """Behind the end of a message: what leads into it and out of it."""
        row = self.rows[step]
        row[op.CLOSING], row[op.TARGET] = len(self.rows) - 1, len(self.rows)
        self.rows[-1][op.TARGET] = step

    def _list(self, node: ListNode | MapNode, column: pa.DataType, path: str, level: int, owner: int) -> Layout:
        is_map = isinstance(node, MapNode)
        items = None if isinstance(node, MapNode) else node.items
        valid = len(self.rows) if is_map else owner
        operation = op.LEAVES if isinstance(items, Leaf) else op.MESSAGES
        step = self._add(operation, path, level, valid=valid)
        self.width[step] = _OFFSETS_WIDTH
        inner = self.level_count
        self.level_count += 1
        self.rows[step][op.LEVEL] = inner
        children: tuple[Layout | None, ...]
        if isinstance(node, MapNode):
            self.has_maps = True
            self.rows[step][op.FLAGS] |= op.IS_MAP
            children = self._entries(node, column, path, inner)
        elif isinstance(node.items, Leaf):
            children = (self._leaf(node.items, column.value_type, f"{path}[]", inner, op.ALWAYS, op.ELEMENT),)
        else:
            assert isinstance(node.items, MessageNode), "lists of lists do not exist"
            children = (self._inside(node.items, column.value_type, f"{path}[]", inner, -1),)
        if operation == op.MESSAGES:
            self._close(step)
        else:
            self.rows[step][op.TARGET] = len(self.rows)
        return Layout(type=column, path=path, step=step, union=owner, valid=valid, children=children)

    def _entries(self, node: MapNode, column: pa.DataType, path: str, level: int) -> tuple[Layout, Layout]:
        self.enter()
        first = len(self.rows)
        key = self._leaf(node.keys, column.key_type, f"{path}{{key}}", level, op.ALWAYS)
        self.rows[first][op.FLAGS] |= op.MAP_KEY
        self.rows[first][op.VALID] = -1
        self.has_valid[first] = False
        self._number(first, 1, node.keys)
        second = len(self.rows)
        value = self._value(node.values, column.item_type, f"{path}{{}}", level, op.ALWAYS)
        self.rows[second][op.PRESENCE] = op.ALWAYS
        self._number(second, 2, node.values)
        self._end([first, second], path, level)
        self.depth -= 1
        return Layout(type=column.key_type, path=key.path, step=first, union=-1, valid=-1), value

    def finish(self, layouts: Sequence[Layout | None]) -> Program:
        return Program(
            **self.program_fields(layouts),
            fields=np.array(self._fields or [0], np.int64),
            enums=np.array(self._enums or [0], np.int64),
        )


def _store(kind: int, column: pa.DataType) -> int:
    """How a column, which can hold the kind, does."""
    if kind in (op.STRING, op.BYTES, op.ENUM):
        return op.STORE_BYTES
    if pa.types.is_boolean(column):
        return op.STORE_BOOLEAN
    if pa.types.is_decimal(column):
        return op.STORE_DECIMAL
    if pa.types.is_float64(column) and kind == op.FLOAT:
        return op.STORE_DOUBLE_OF_FLOAT
    return op.STORE_INT if column in (pa.int32(), pa.float32()) else op.STORE_LONG
