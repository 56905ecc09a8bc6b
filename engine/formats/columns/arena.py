"""The memory that a format's decode kernel fills, and the Arrow columns made of it.

One buffer a program, used again for every block: fresh memory costs as much in page faults as the decoding itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.arrow_columns import struct_of
from engine.formats.codec import Verdict
from engine.formats.columns import operations as op
from engine.formats.columns.maps import TABLE_ENTRIES
from engine.formats.columns.program import ColumnProgram, Layout
from engine.formats.columns.tables import Arena, Block
from engine.formats.confluent_framing import FRAMED, NULL_VALUE
from engine.formats.writer_schemas import Findings, distinct
from engine.kernels.memory import SLACK
from engine.kernels.types import frozen
from engine.records.records import ByteSpans

ALIGNMENT = 64

# A null record of many columns costs one byte in Avro and all its columns' widths in Arrow: what one block may unfold
# to is bounded, and the records beyond it keep their bytes only.
UNFOLDED_BASE_BYTES = 256 << 20
UNFOLDED_TIMES = 64
MAX_ENTRIES = 2**31 - 2  # Arrow's 32-bit offsets
# Every refused record costs another run over the block; after these, any record that finds no room is refused at once.
MAX_REFUSED = 8

SAMPLED_SHARE = 64
SAMPLE_ROOM = 1.25
"""One row in so many of an arena's first block is run beforehand, to see what its lists and strings take, and how much
more than that is set aside: a block that finds no room is run again from its first row."""

Words = NDArray[np.int64]


class ColumnArena(ABC):
    """Decodes blocks of one program; the columns of a block are valid until the next one.

    ``issue_text`` by its code is what can be wrong with a record, ``no_column`` the issue that the program says more
    of; from ``first_without_place`` on, an issue is not of one column.
    """

    issue_text: ClassVar[Mapping[int, str]]
    no_column: ClassVar[int]
    first_without_place: ClassVar[int] = 1 << op.ISSUE_BITS

    def __init__(self, program: ColumnProgram, *, stack_words: int) -> None:
        """``stack_words``: what the kernel's open lists and objects take."""
        self._program = program
        self._rows = program.rows.copy()
        self._capacity = np.zeros(program.level_count, np.int64)
        self._data_size = np.zeros(len(program.rows), np.int64)
        self._buffer = np.empty(0, np.uint8)
        self._counts = np.zeros(program.level_count, np.int64)
        self._whole = np.zeros(program.level_count, np.int64)
        self._stack = np.empty(stack_words, np.int64)
        self._map_table = np.empty(TABLE_ENTRIES if program.has_maps else 1, np.int32)
        self._good = np.empty(0, np.bool_)
        self._longest_symbol = int(np.diff(program.pool_start).max(initial=1))
        self._offset_rows = program.has_data.copy()
        self._offset_rows[_lists_of(program.layouts)] = True

    def decode(self, values: ByteSpans, state: NDArray[np.uint8]) -> Words:
        """Fill the columns from the rows that are FRAMED; the issue of each row, int64[n], as the kernel packs it."""
        row_count = len(values)
        issues = np.empty(row_count, np.int64)
        total_bytes = values.size_bytes
        capacity, data_size = self._capacity.copy(), self._data_size.copy()
        capacity[0] = max(capacity[0], row_count)
        if not self._buffer.size:
            capacity[1:] = row_count
            data_size[self._program.has_data] = 4096 + 2 * total_bytes // max(1, int(self._program.has_data.sum()))
        limit = UNFOLDED_BASE_BYTES + UNFOLDED_TIMES * total_bytes
        is_first = not self._buffer.size
        self._lay_out(capacity, data_size)
        if is_first:
            self._sample(values, state, limit)
        state = state.copy()
        attempt = 0
        refused: list[int] = []
        while (stop := self._run(values, state, issues, len(refused) < MAX_REFUSED)) < row_count:
            attempt += 1
            if not self._make_room(stop, row_count, int(values.length[stop]), attempt, limit):
                refused.append(stop)
                state[stop] = NULL_VALUE
        issues[refused] = op.TOO_LARGE | (len(self._rows) - 1) << op.ISSUE_BITS
        self._good = (state == FRAMED) & ((issues == 0) | ((issues & 0xFF) >= op.FIRST_KEPT))
        return issues

    def note_issues(self, issues: Words, rows: NDArray[np.intp], schema_id: int, findings: Findings) -> None:
        """What ``decode`` found wrong with a block's ``rows``."""
        for issue in distinct(issues[issues != 0]) if issues.any() else ():
            code, step = issue & 0xFF, issue >> op.ISSUE_BITS
            text = f"schema {schema_id}: {self.issue_text[code]}"
            if code == self.no_column and step in self._program.whys:
                text += f" ({self._program.whys[step]})"
            if self._program.paths[step] and code < self.first_without_place:
                text += f", at {self._program.paths[step]}"
            verdict = Verdict.KEEP_RAW if code >= op.FIRST_KEPT else Verdict.UNDECODABLE
            findings.note(rows[issues == issue], verdict, text)

    def _sample(self, values: ByteSpans, state: NDArray[np.uint8], limit: int) -> None:
        """Lay out for a whole block by what its first rows take, where that is more than was guessed."""
        count = len(values) // SAMPLED_SHARE
        first = values.select(slice(count))
        if not count or self._run(first, state[:count], np.empty(count, np.int64), True) < count:
            return
        self._lay_out_within(limit, *self._extrapolate(count, SAMPLE_ROOM * len(values) / count, 0))

    def _make_room(self, stop: int, row_count: int, length: int, attempt: int, limit: int) -> bool:
        """Lay out again for a block that stopped at a row: for all of it, or for that row only; False: for neither."""
        for times in (2.0**attempt * row_count / (stop + 1), 1.0):
            if self._lay_out_within(limit, *self._extrapolate(stop, times, length)):
                return True
        return False

    def _lay_out_within(self, limit: int, capacity: Words, data_size: Words) -> bool:
        """Lay out again unless that takes more than ``limit`` bytes, or more entries than offsets can count."""
        longest = max(int(capacity.max(initial=0)), int(data_size.max(initial=0)))
        if longest >= MAX_ENTRIES or self._size_of(capacity, data_size) > limit:
            return False
        self._lay_out(capacity, data_size)
        return True

    def _run(self, values: ByteSpans, state: NDArray[np.uint8], issues: Words, may_grow: bool) -> int:
        """Run the kernel over the rows that are FRAMED: the row that found no room, or how many there are."""
        self._buffer.view(np.int32)[self._rows[self._offset_rows, op.VALUES] >> 2] = 0
        self._counts[:] = 0
        block = Block(frozen(values.data), frozen(values.start), frozen(values.length), frozen(state), issues)
        arena = Arena(
            program=self._rows.reshape(-1),
            memory=self._buffer,
            counts=self._counts,
            saved=self._whole,
            capacity=self._capacity,
            stack=self._stack,
            map_table=self._map_table,
        )
        return self._decode(block, arena, may_grow)

    @abstractmethod
    def _decode(self, block: Block, arena: Arena, may_grow: bool) -> int:
        """Run the format's kernel, as ``_run`` does, over an arena without entries whose offsets begin at zero."""

    def _extrapolate(self, stop: int, times: float, length: int) -> tuple[Words, Words]:
        """Capacities of ``times`` what the rows before ``stop`` took, and enough for ``stop`` itself."""
        program = self._program
        capacity, data_size = self._capacity.copy(), self._data_size.copy()
        capacity[1:] = np.maximum(capacity[1:], (self._counts[1:] * times).astype(np.int64) + length + 1)
        steps = np.flatnonzero(program.has_data)
        # The row that stopped may have taken entries whose offsets it did not come to write.
        entries = np.where(program.level[steps] == 0, stop, self._whole[program.level[steps]])
        used = self._buffer.view(np.int32)[(self._rows[steps, op.VALUES] >> 2) + entries].astype(np.int64)
        need = (used * times).astype(np.int64) + length * self._longest_symbol + 2 * SLACK
        data_size[steps] = np.maximum(data_size[steps], need)
        return capacity, data_size

    def _areas(self, capacity: Words, data_size: Words) -> tuple[Words, Words, Words]:
        """Bytes of each operation's values, validity and data, rounded to the alignment."""
        program = self._program
        entries = capacity[program.level]
        values = np.where(program.width > 0, (entries + 1) * program.width, 0)
        areas = (values, np.where(program.has_valid, entries, 0), np.where(program.has_data, data_size, 0))
        values, valid, data = ((area + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT for area in areas)
        return values, valid, data

    def _size_of(self, capacity: Words, data_size: Words) -> int:
        return int(sum(int(area.sum()) for area in self._areas(capacity, data_size)))

    def _lay_out(self, capacity: Words, data_size: Words) -> None:
        """Give every area its place; the buffer is replaced only when it is too small."""
        if self._buffer.size and (capacity == self._capacity).all() and (data_size == self._data_size).all():
            return
        values, valid, data = self._areas(capacity, data_size)
        ends = np.cumsum(np.stack([values, valid, data], axis=1).ravel())
        starts = np.concatenate([[0], ends[:-1]]).reshape(-1, 3)
        program, rows = self._program, self._rows
        rows[:, op.VALUES], rows[:, op.DATA], rows[:, op.DATA_SIZE] = starts[:, 0], starts[:, 2], data
        owner = program.rows[:, op.VALID]
        rows[:, op.VALID] = np.where(owner >= 0, starts[owner, 1], -1)
        size = int(ends[-1]) + ALIGNMENT
        if size > self._buffer.size:
            self._buffer = np.empty(size // 8 * 8 + 8, np.uint8)
        self._capacity, self._data_size = capacity, data_size

    def columns(self, fields: Sequence[pa.Field]) -> pa.StructArray:
        """The block's columns as the table's fields; what the schema lacks is null."""
        count = len(self._good)
        memory = pa.py_buffer(self._buffer)
        good = None if self._good.all() else _bitmap(self._good)
        made = [
            self._column(layout, field.type, count, memory, good)
            for layout, field in zip(self._program.layouts, fields, strict=True)
        ]
        return struct_of(made, fields, count)

    def _column(
        self, layout: Layout | None, kind: pa.DataType, count: int, memory: pa.Buffer, parent: pa.Buffer | None
    ) -> pa.Array:
        """``parent`` is the validity of a column that has none of its own: that of the rows, at the top."""
        if layout is None:
            return pa.nulls(count, kind)
        validity = parent
        if layout.valid >= 0:
            begin = int(self._rows[layout.valid, op.VALID])
            valid = self._buffer[begin : begin + count]
            validity = None if valid.all() else _bitmap(valid)
        if pa.types.is_struct(kind):
            pairs = zip(layout.children, kind, strict=True)
            children = [self._column(child, field.type, count, memory, None) for child, field in pairs]
            return pa.Array.from_buffers(kind, count, [validity], children=children)
        step = layout.step
        begin = int(self._rows[step, op.VALUES])
        width = int(self._program.width[step])
        if not layout.children:
            return self._leaf(step, kind, count, memory, validity)
        offsets = memory.slice(begin, (count + 1) * width)
        level = int(self._rows[step, op.LEVEL])
        entries = int(self._counts[level])
        if pa.types.is_map(kind):
            pair = [kind.key_field, kind.item_field]
            parts = zip(layout.children, pair, strict=True)
            inner = [self._column(child, field.type, entries, memory, None) for child, field in parts]
            child = struct_of(inner, pair, entries)
        else:
            child = self._column(layout.children[0], kind.value_type, entries, memory, None)
        return pa.Array.from_buffers(kind, count, [validity, offsets], children=[child])

    def _leaf(
        self, step: int, kind: pa.DataType, count: int, memory: pa.Buffer, validity: pa.Buffer | None
    ) -> pa.Array:
        begin = int(self._rows[step, op.VALUES])
        width = int(self._program.width[step])
        if self._program.has_data[step]:
            offsets = memory.slice(begin, (count + 1) * width)
            used = int(self._buffer.view(np.int32)[(begin >> 2) + count])
            data = memory.slice(int(self._rows[step, op.DATA]), used)
            return pa.Array.from_buffers(kind, count, [validity, offsets, data])
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, count, [validity, _bitmap(self._buffer[begin : begin + count])])
        values = memory.slice(begin, count * width)
        if isinstance(kind, pa.UuidType):
            storage = pa.Array.from_buffers(kind.storage_type, count, [validity, values])
            return pa.ExtensionArray.from_storage(kind, storage)
        return pa.Array.from_buffers(kind, count, [validity, values])


class ArrayArena(ColumnArena):
    """Of programs that end lists and maps with ARRAY_END, which needs where their offsets are: Avro's, JSON's."""

    def _lay_out(self, capacity: Words, data_size: Words) -> None:
        super()._lay_out(capacity, data_size)
        rows = self._rows
        ends_of_lists = rows[:, op.OPERATION] == op.ARRAY_END
        rows[ends_of_lists, op.VALUES] = rows[rows[ends_of_lists, op.SLOT], op.VALUES]


def _lists_of(layouts: Sequence[Layout | None]) -> list[int]:
    """The operations that hold the offsets of lists and maps, at any depth."""
    found: list[int] = []
    for layout in layouts:
        if layout is not None:
            found += [layout.step] * (bool(layout.children) and layout.step >= 0)
            found += _lists_of(layout.children)
    return found


def _bitmap(flags: NDArray[np.bool_] | NDArray[np.uint8]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
