"""Compiles a JSON Schema against a table's value columns into the flat program that the kernels run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.codec import Placement
from engine.formats.columns import operations as arena_op
from engine.formats.columns.program import ColumnCompiler, ColumnProgram, Layout
from engine.formats.json import operations as op
from engine.formats.json.mapping import VALUE_NAME, arrow_type, column_names
from engine.formats.json.schema import ListNode, MapNode, Node, ObjectNode, Opaque, Scalar, parse_schema
from engine.formats.json.string_kernels import CLASS
from engine.kernels.memory import SLACK

_WIDTH = {arena_op.LONG: 8, arena_op.DOUBLE: 8, arena_op.BOOLEAN: 1, arena_op.STRING: 4}
_OPERATION = {
    Scalar.LONG: arena_op.LONG,
    Scalar.DOUBLE: arena_op.DOUBLE,
    Scalar.BOOLEAN: arena_op.BOOLEAN,
    Scalar.STRING: arena_op.STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of an object: its name in the text, and the operation of its value."""

    name: str
    step: int
    has_column: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """One object of the schema: its path, which no other has, and its members, the first of which has the number
    ``first``."""

    path: str
    step: int
    first: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JsonProgram:
    """``arena``: operations and layouts of the columns; ``objects`` by their own number. The words of ``object_table``,
    ``member_table`` and ``names`` are as json_operations has them; ``pool`` holds the members' names."""

    arena: ColumnProgram
    objects: tuple[ObjectPlace, ...]
    member_count: int
    object_table: NDArray[np.int64]
    member_table: NDArray[np.int64]
    names: NDArray[np.int64]
    pool: NDArray[np.uint8]

    def object_at(self, step: int) -> ObjectPlace | None:
        return next((place for place in self.objects if place.step == step), None)


def compile_program(schema_text: str, placement: Placement, fields: Sequence[pa.Field]) -> JsonProgram:
    """Raises Invalid when the text is no schema."""
    compiler = _Compiler(placement)
    root = parse_schema(schema_text)
    columns = {field.name: field.type for field in fields}
    if isinstance(root, ObjectNode):
        step = compiler.add(arena_op.UNION, "", 0)
        compiler.members(root, columns, "", step, 0)
    else:
        name = placement.get(VALUE_NAME, VALUE_NAME)
        layout = compiler.value(root, columns.get(name), VALUE_NAME, 0)
        compiler.columns = {} if layout is None else {name: layout}
    compiler.add(arena_op.END, "", 0)
    return compiler.finish(fields)


class _Compiler(ColumnCompiler):
    def __init__(self, placement: Placement) -> None:
        super().__init__(placement, arena_op.ROW_WIDTH)
        self.objects: list[ObjectPlace] = []
        self.member_count = 0
        self.columns: dict[str, Layout] = {}

    def members(
        self, node: ObjectNode, columns: Mapping[str, pa.DataType], path: str, step: int, level: int
    ) -> dict[str, Layout]:
        names = column_names([name for name, _ in node.members], is_top=not path)
        place, first = len(self.objects), self.member_count
        self.member_count += len(node.members)
        self.objects.append(ObjectPlace(path=path, step=step, first=first, members=()))
        made: dict[str, Layout] = {}
        members = []
        for name, child in node.members:
            inner = f"{path}.{names[name]}" if path else names[name]
            column = self.placement.get(inner, names[name])
            begin = len(self.rows)
            layout = self.value(child, columns.get(column), inner, level)
            if layout is not None:
                made[column] = layout
            members.append(Member(name=name, step=begin, has_column=layout is not None))
        self.objects[place] = ObjectPlace(path=path, step=step, first=first, members=tuple(members))
        if not path:
            self.columns = made
        return made

    def value(self, node: Node, column: pa.DataType | None, path: str, level: int) -> Layout | None:
        wanted = arrow_type(node)
        if isinstance(node, Opaque) or wanted is None:
            return self._opaque(path, level, node.why if isinstance(node, Opaque) else "nothing in it has a column")
        if column is None:
            return self._opaque(path, level, "the table has no column for it")
        self.enter()
        layout = self._typed(node, column, path, level)
        self.depth -= 1
        if layout is None:
            return self._opaque(path, level, f"the schema has {wanted}, the table has {column}")
        return layout

    def _typed(self, node: Node, column: pa.DataType, path: str, level: int) -> Layout | None:
        if isinstance(node, Scalar):
            return self._leaf(node, column, path, level)
        if isinstance(node, ObjectNode):
            if not pa.types.is_struct(column):
                return None
            step = self.add(arena_op.UNION, path, level, valid=len(self.rows))
            made = self.members(node, {child.name: child.type for child in column}, path, step, level)
            children = tuple(made.get(child.name) for child in column)
            return Layout(type=column, path=path, step=-1, union=step, valid=step, children=children)
        if isinstance(node, MapNode):
            fits = pa.types.is_map(column) and column.key_type == pa.string()
        else:
            fits = pa.types.is_list(column)
        if not fits or isinstance(node, Opaque):
            return None
        return self._list(node, column, path, level)

    def _opaque(self, path: str, level: int, why: str) -> Layout | None:
        self.whys[self.add(arena_op.OPAQUE, path, level)] = why
        return None

    def _leaf(self, node: Scalar, column: pa.DataType, path: str, level: int) -> Layout | None:
        wider = node is Scalar.LONG and column == pa.float64()
        if arrow_type(node) != column and not wider:
            return None
        operation = _OPERATION[Scalar.DOUBLE if wider else node]
        is_text = operation == arena_op.STRING
        step = self.add(operation, path, level, width=_WIDTH[operation], valid=len(self.rows), data=is_text)
        return Layout(type=column, path=path, step=step, union=-1, valid=step)

    def _list(self, node: ListNode | MapNode, column: pa.DataType, path: str, level: int) -> Layout:
        step = self.add(arena_op.ARRAY, path, level, width=4, valid=len(self.rows))
        inner_level = self.level_count
        self.level_count += 1
        children: list[Layout | None] = []
        if isinstance(node, MapNode):
            key = self.add(arena_op.STRING, f"{path}{{key}}", inner_level, width=4, data=True)
            self.rows[key][arena_op.PARAMETER] = arena_op.MAP_KEY
            children.append(Layout(type=column.key_type, path=f"{path}{{key}}", step=key, union=-1, valid=-1))
            child = self.value(node.values, column.item_type, f"{path}{{}}", inner_level)
        else:
            child = self.value(node.items, column.value_type, f"{path}[]", inner_level)
        children.append(child)
        last = self.add(arena_op.ARRAY_END, path, level)
        kind = arena_op.IS_MAP if isinstance(node, MapNode) else 0
        self.has_maps |= kind == arena_op.IS_MAP
        for row, target in ((self.rows[step], last + 1), (self.rows[last], step + 1)):
            row[arena_op.PARAMETER], row[arena_op.LEVEL], row[arena_op.TARGET] = kind, inner_level, target
        self.rows[last][arena_op.SLOT], self.rows[last][arena_op.VALID] = step, step
        return Layout(type=column, path=path, step=step, union=-1, valid=step, children=tuple(children))

    def finish(self, fields: Sequence[pa.Field]) -> JsonProgram:
        pool = bytearray()
        object_table = np.zeros((len(self.rows), op.OBJECT_WIDTH), np.int64)
        member_table = np.zeros((max(1, self.member_count), op.MEMBER_WIDTH), np.int64)
        names: list[int] = []
        for index, place in enumerate(self.objects):
            slots = _hash_slots(place)
            object_table[place.step] = (len(place.members), index, len(names), len(slots) - 1)
            names.extend(slots)
            for number, member in enumerate(place.members):
                text = member.name.encode(errors="surrogatepass")
                member_table[place.first + number] = (len(pool), len(text), member.step, _traits(text), index)
                pool += text
        return JsonProgram(
            arena=ColumnProgram(**self.program_fields(self.columns.get(field.name) for field in fields)),
            objects=tuple(self.objects),
            member_count=self.member_count,
            object_table=object_table.ravel(),
            member_table=member_table.ravel(),
            names=np.array(names or [-1], np.int64),
            pool=np.frombuffer(bytes(pool) + bytes(SLACK), np.uint8),
        )


def _hash_slots(place: ObjectPlace) -> list[int]:
    """An open hash table of the members' numbers by the FNV-1a hash of their names, -1 where it is free."""
    size = 4
    while size < 2 * len(place.members):
        size *= 2
    slots = [-1] * size
    for number, member in enumerate(place.members):
        hashed = 0xCBF29CE484222325
        for byte in member.name.encode(errors="surrogatepass"):
            hashed = (hashed ^ byte) * 0x100000001B3 & (2**64 - 1)
        slot = hashed & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = place.first + number
    return slots


def _traits(name: bytes) -> int:
    """What a plain spelling of a member's name denies; ENDS_RUN where there is none."""
    traits = 0
    for byte in name:
        traits |= int(CLASS[byte])
    separators = (b"\xe2\x80\xa8", b"\xe2\x80\xa9")
    if not any(separator in name for separator in separators):
        traits &= ~op.ESCAPED_LINE_SEPARATORS
    return traits & ~(op.ALWAYS_ESCAPED | op.NOT_ASCII)
