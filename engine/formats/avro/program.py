"""Compiles an Avro schema against a table's value columns into the flat program that the kernels run both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.avro.mapping import (
    FieldNode,
    Kind,
    Leaf,
    ListNode,
    MapNode,
    Node,
    Nothing,
    Opaque,
    RecordNode,
    UnionNode,
    arrow_type,
    map_schema,
    opaque,
)
from engine.formats.avro.schema import AvroType, parse_schema
from engine.formats.avro.skip import SkipTable
from engine.formats.codec import Placement
from engine.formats.columns import operations as op
from engine.formats.columns.program import ColumnCompiler, ColumnProgram, Layout
from engine.formats.evolution.promotion import holds
from engine.formats.evolution.type_words import type_text

# Bytes an entry of the values takes; strings and lists have 32-bit offsets.
_WIDTH = {
    Kind.LONG: 8,
    Kind.INT: 4,
    Kind.DOUBLE: 8,
    Kind.FLOAT: 4,
    Kind.BOOLEAN: 1,
    Kind.STRING: 4,
    Kind.BYTES: 4,
    Kind.ENUM: 4,
    Kind.TIMESTAMP_MILLIS: 8,
    Kind.TIME_MILLIS: 8,
    Kind.TIME_MICROS: 8,
    Kind.DECIMAL_BYTES: 16,
    Kind.DECIMAL_FIXED: 16,
    Kind.UUID_TEXT: 16,
}
_OFFSETS_WIDTH = 4
_STRINGS = frozenset({Kind.STRING, Kind.BYTES, Kind.ENUM})
# Columns that were promoted: the kernels know an int in a long's column, and a float in a double's, by PARAMETER.
_WIDER = {Kind.INT: Kind.LONG, Kind.FLOAT: Kind.DOUBLE}
# These can meet a value that the column can't hold, which is then null although the schema has no null.
_MAY_FAIL = frozenset(
    {
        Kind.BOOLEAN,
        Kind.STRING,
        Kind.TIMESTAMP_MILLIS,
        Kind.TIME_MILLIS,
        Kind.TIME_MICROS,
        Kind.DECIMAL_BYTES,
        Kind.DECIMAL_FIXED,
        Kind.UUID_TEXT,
    }
)


PROGRAMS_KEPT = 256
"""Compiled programs: every block of every file of a table needs the same few."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program(ColumnProgram):
    """``skips`` and ``skip_children``: the tables by which values without a column are passed over."""

    skips: NDArray[np.int64]
    skip_children: NDArray[np.int64]


def compile_program(schema_text: str, fields: tuple[pa.Field, ...], placement: Placement) -> Program:
    """Raises Invalid when the text is no schema. A field that its column can't hold is one without a column."""
    return _compiled(schema_text, fields, tuple(sorted(placement.items())))


@lru_cache(maxsize=PROGRAMS_KEPT)
def _compiled(schema_text: str, fields: tuple[pa.Field, ...], placed: tuple[tuple[str, str], ...]) -> Program:
    compiler = _Compiler(dict(placed))
    compiler.record(map_schema(parse_schema(schema_text)), {field.name: field.type for field in fields}, "", 0)
    compiler.add(op.END, "", 0)
    return compiler.finish(fields)


_Made: TypeAlias = Mapping[str, Layout]


class _Compiler(ColumnCompiler):
    def __init__(self, placement: Placement) -> None:
        super().__init__(placement, op.ROW_WIDTH)
        self.skips = SkipTable()
        self.columns: _Made = {}

    def record(self, node: RecordNode, columns: Mapping[str, pa.DataType], path: str, level: int) -> _Made:
        made = {}
        for field in node.fields:
            inner_path = f"{path}.{field.name}" if path else field.name
            column = self.placement.get(inner_path, field.name)
            layout = self._field(field, columns.get(column), inner_path, level)
            if layout is not None:
                made[column] = layout
        if not path:
            self.columns = made
        return made

    def _field(self, field: FieldNode, column: pa.DataType | None, path: str, level: int) -> Layout | None:
        wanted = arrow_type(field.node)
        if wanted is not None and column is None:
            self.value(opaque(field.avro, "the table has no column for it"), None, path, level, -1)
            return None
        if wanted is not None and not holds(column, wanted):
            why = f"the schema has {type_text(wanted)}, the table has {type_text(column)}"
            self.value(opaque(field.avro, why), None, path, level, -1)
            return None
        return self.value(field.node, column, path, level, -1)

    def value(self, node: Node, column: pa.DataType | None, path: str, level: int, union: int) -> Layout | None:
        if isinstance(node, Nothing):
            return None
        if isinstance(node, Opaque):
            self._opaque(node.avro, node.constant, node.why, path, level)
            return None
        if isinstance(node, RecordNode):
            return self._struct(node, column, path, level, union)
        if isinstance(node, UnionNode):
            return self._union(node, column, path, level)
        assert column is not None, "a type with a column is compiled with one"
        if isinstance(node, Leaf):
            return self._leaf(node, column, path, level, union)
        return self._list(node, column, path, level, union)

    def _opaque(self, avro: AvroType, constant: int, why: str, path: str, level: int) -> None:
        step = self.add(op.OPAQUE, path, level)
        self.rows[step][op.PARAMETER] = constant
        self.rows[step][op.TARGET] = self.skips.add(avro)
        self.whys[step] = why

    def _struct(self, node: RecordNode, column: pa.DataType | None, path: str, level: int, union: int) -> Layout | None:
        if column is None:
            self.record(node, {}, path, level)
            return None
        assert pa.types.is_struct(column), "a field was compared with its column"
        made = self.record(node, {child.name: child.type for child in column}, path, level)
        children = tuple(made.get(child.name) for child in column)
        return Layout(type=column, path=path, step=-1, union=union, valid=union, children=children)

    def _union(self, node: UnionNode, column: pa.DataType | None, path: str, level: int) -> Layout | None:
        nullable = node.null_index >= 0
        step = self.add(op.UNION, path, level, valid=len(self.rows) if nullable else -1)
        self.rows[step][op.PARAMETER] = node.null_index
        layout = self.value(node.inner, column, path, level, step if nullable else -1)
        self.rows[step][op.TARGET] = len(self.rows)
        return layout

    def _leaf(self, node: Leaf, column: pa.DataType, path: str, level: int, union: int) -> Layout:
        valid = union
        if valid < 0 and node.kind in _MAY_FAIL:
            valid = len(self.rows)
        own_width = node.size if node.kind is Kind.FIXED else _WIDTH[node.kind]
        kind = node.kind if node.type == column else _WIDER.get(node.kind, node.kind)
        width = own_width if kind is node.kind else _WIDTH[kind]
        step = self.add(kind, path, level, width=width, valid=valid, data=kind in _STRINGS)
        row = self.rows[step]
        row[op.TARGET] = node.precision
        # Fixed-width leaves carry their width in the schema, so that one comparison guards them all.
        row[op.PARAMETER] = node.size if kind is Kind.DECIMAL_FIXED else 0 if kind in _STRINGS else own_width
        if node.kind is Kind.ENUM:
            row[op.PARAMETER], row[op.TARGET] = len(node.symbols), len(self.pool)
            self.pool.extend(symbol.encode() for symbol in node.symbols)
            self.symbols[step] = node.symbols
        return Layout(type=column, path=path, step=step, union=union, valid=valid)

    def _list(self, node: ListNode | MapNode, column: pa.DataType, path: str, level: int, union: int) -> Layout:
        is_map = isinstance(node, MapNode)
        valid = len(self.rows) if is_map and union < 0 else union
        step = self.add(op.ARRAY, path, level, width=_OFFSETS_WIDTH, valid=valid)
        inner_level = self.level_count
        self.level_count += 1
        self.enter()
        first = len(self.rows)
        children: list[Layout | None] = []
        if isinstance(node, MapNode):
            children.append(self._key(column.key_type, f"{path}{{key}}", inner_level))
            children.append(self.value(node.values, column.item_type, f"{path}{{}}", inner_level, -1))
        else:
            children.append(self.value(node.items, column.value_type, f"{path}[]", inner_level, -1))
        self.depth -= 1
        last = self.add(op.ARRAY_END, path, level, valid=valid)
        self.rows[last][op.PARAMETER] = op.IS_MAP if is_map else 0
        self.has_maps |= is_map
        self.rows[step][op.TARGET], self.rows[step][op.LEVEL] = last + 1, inner_level
        self.rows[last][op.TARGET], self.rows[last][op.LEVEL] = first, inner_level
        self.rows[last][op.SLOT] = step
        return Layout(type=column, path=path, step=step, union=union, valid=valid, children=tuple(children))

    def _key(self, column: pa.DataType, path: str, level: int) -> Layout:
        step = self.add(op.STRING, path, level, width=_WIDTH[Kind.STRING], data=True)
        self.rows[step][op.PARAMETER] = op.MAP_KEY
        return Layout(type=column, path=path, step=step, union=-1, valid=-1)

    def finish(self, fields: Sequence[pa.Field]) -> Program:
        skips, skip_children = self.skips.tables()
        columns = self.program_fields(self.columns.get(field.name) for field in fields)
        return Program(**columns, skips=skips, skip_children=skip_children)
