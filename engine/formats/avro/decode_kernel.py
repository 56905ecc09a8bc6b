"""Runs an Avro program over a block of records: bytes to the columns of an arena.

One compiled kernel serves every schema: the program is data. The arena is one buffer; where each column begins in it
stands in the program's rows.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from engine.formats.avro.leaf_kernels import BAD, read_leaf, read_number
from engine.formats.avro.operations import (
    ENDS_EARLY,
    LEFT_OVER,
    NEGATIVE_LENGTH,
    NO_BRANCH,
    NO_COLUMN,
    SEVERAL_BLOCKS,
)
from engine.formats.avro.skip_kernel import skip_value
from engine.formats.columns.fill_kernels import (
    NEEDS_ROOM,
    NO_ROOM,
    close_list,
    copy_counts,
    fill_null,
    keep_record,
    next_element,
)
from engine.formats.columns.operations import (
    ARRAY,
    ARRAY_END,
    END,
    FIRST_KEPT,
    ISSUE_BITS,
    LAST_LEAF,
    LEVEL,
    OPAQUE,
    OPERATION,
    PARAMETER,
    ROW_BYTES,
    ROW_WIDTH,
    TARGET,
    TOO_LARGE,
    UNION,
    VALID,
    VALUES,
)
from engine.formats.columns.tables import Arena, Block
from engine.formats.confluent_framing import FRAMED, HEADER_BYTES
from engine.kernels.inner import inner
from engine.kernels.memory import addresses_of, load_u8, set_word, store_i32, store_u8, word
from engine.kernels.types import Bytes, Ints, OutWords, Words, tuple_of

# Of an open list on the stack: its own entry, its level, the elements left in the block.
LIST_WORDS = 3


class SchemaTables(NamedTuple):
    """What only Avro's programs have, and the stack of open types for passing over values without a column."""

    skips: Words
    children: Words
    pool: Bytes
    pool_start: Ints
    skip_stack: OutWords


_DECODE_BLOCK = types.int64(tuple_of(Block), tuple_of(Arena), tuple_of(SchemaTables), types.boolean)


@inner(forceinline=True)
def read_block_header(base, at, end):
    """How many items a list's block has: (count, position or BAD, issue); a size in bytes is read and not used."""
    count, at, issue = read_number(base, at, end)
    if at >= 0 and count < 0:
        if count == np.int64(-(2**63)):
            return count, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
        count = -count
        size, at, _ = read_number(base, at, end)
        issue = np.int64(SEVERAL_BLOCKS)
        if at >= 0 and size < 0:
            return count, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
    if at < 0:
        issue = np.int64(ENDS_EARLY)
    return count, at, issue


@inner(forceinline=True)
def read_union(base, at, end, row, memory, entry):
    """A nullable union's branch, or the only one: (position or BAD, issue, whether the value is null)."""
    null_index = word(row, PARAMETER)
    branch, at, issue = read_number(base, at, end)
    if at < 0:
        return at, issue, False
    if null_index < 0:
        if branch != 0:
            return np.int64(BAD), np.int64(NO_BRANCH), False
        return at, issue, False
    if branch == null_index:
        return at, issue, True
    if branch != 1 - null_index:
        return np.int64(BAD), np.int64(NO_BRANCH), False
    store_u8(memory + word(row, VALID) + entry, np.uint8(1))
    return at, issue, False


@inner(forceinline=True)
def open_list(base, at, end, row, arena, entry):
    """A list's first block: (items in it, position or BAD, issue). An empty list is finished here."""
    left, at, issue = read_block_header(base, at, end)
    if at >= 0 and left == 0:
        store_i32(arena.memory + word(row, VALUES) + 4 * entry + 4, np.int32(word(arena.counts, word(row, LEVEL))))
    if word(row, VALID) >= 0:
        store_u8(arena.memory + word(row, VALID) + entry, np.uint8(1))
    return left, at, issue


@inner(forceinline=True)
def continue_list(base, at, end, left):
    """After an element: (items left, this one included, 0 at the list's end; position or BAD; issue)."""
    left -= 1
    issue = np.int64(0)
    if left == 0:
        left, at, issue = read_block_header(base, at, end)
        if at >= 0 and left != 0:
            issue = np.int64(SEVERAL_BLOCKS)
    return left, at, issue


@inner
def decode_record(base, size, at, end, record, arena, schema):
    """One record's columns: what is wrong with it, 0 for nothing, NEEDS_ROOM where the arena is full.

    The program's targets and levels, made by the compiler of this very table, are trusted. The stack holds LIST_WORDS
    an open list, for as many as the program nests, and one more.
    """
    step, entry, level = np.int64(0), np.int64(record), np.int64(0)
    top = arena.stack
    kept = np.int64(0)
    while True:
        row = arena.program + ROW_BYTES * step
        operation = word(row, OPERATION)
        following = step + 1
        issue = np.int64(0)
        if operation <= LAST_LEAF:
            at, issue = read_leaf(base, size, at, end, row, schema.pool, schema.pool_start, arena.memory, entry)
        elif operation == UNION:
            at, issue, is_null = read_union(base, at, end, row, arena.memory, entry)
            if is_null:
                following = word(row, TARGET)
                fill_null(arena, step, following, entry)
        elif operation == ARRAY:
            left, at, issue = open_list(base, at, end, row, arena, entry)
            if left == 0:
                following = word(row, TARGET)
            elif at >= 0:
                set_word(top, 0, entry)
                set_word(top, 1, level)
                set_word(top, 2, left)
                top += 8 * LIST_WORDS
                level = word(row, LEVEL)
                entry = next_element(arena, level)
                at = entry if entry < 0 else at
        elif operation == ARRAY_END:
            left, at, issue = continue_list(base, at, end, word(top, -1))
            if left != 0 and at >= 0:
                set_word(top, -1, left)
                following = word(row, TARGET)
                entry = next_element(arena, level)
                at = entry if entry < 0 else at
            elif at >= 0:
                top -= 8 * LIST_WORDS
                entry, level = word(top, 0), word(top, 1)
                issue = close_list(arena, step, row, entry, top, issue)
        elif operation == OPAQUE:
            if at < end and np.int64(load_u8(base + at)) == word(row, PARAMETER):
                at += 1
            else:
                at, issue = skip_value(base, at, end, schema, word(row, TARGET))
                issue = issue if at < 0 else np.int64(NO_COLUMN)
        else:
            issue = np.int64(LEFT_OVER) if at != end else np.int64(0)
        if at < 0:
            return np.int64(NEEDS_ROOM) if at == NO_ROOM else issue | (step << ISSUE_BITS)
        if issue != 0 and kept == 0:
            kept = issue | (step << ISSUE_BITS)
        if operation == END:
            return kept
        step = following


@njit(_DECODE_BLOCK, nogil=True, cache=True)
def decode_block(block, arena_tables, schema_tables, may_grow):
    """Decode the rows whose state is FRAMED, null the others; returns the row that found no room, or n.

    Without ``may_grow`` a row that finds no room is TOO_LARGE, and the others go on.
    """
    data, start, length, state, issues = block
    arena, schema = addresses_of(arena_tables), addresses_of(schema_tables)
    level_count, last = arena_tables.counts.shape[0], arena_tables.program.shape[0] // ROW_WIDTH - 1
    copy_counts(arena.saved, arena.counts, level_count)
    base, size = data.ctypes.data, data.shape[0]
    for record in range(start.shape[0]):
        issue = np.int64(0)
        if state[record] == FRAMED:
            at, end = start[record] + HEADER_BYTES, start[record] + np.int64(length[record])
            issue = np.int64(ENDS_EARLY) | (last << ISSUE_BITS)
            if start[record] >= 0 and at <= end <= size:
                issue = decode_record(base, size, at, end, record, arena, schema)
            if issue == NEEDS_ROOM:
                if may_grow:
                    return record
                issue = np.int64(TOO_LARGE) | (last << ISSUE_BITS)
        issues[record] = issue
        is_good = state[record] == FRAMED and (issue == 0 or (issue & 0xFF) >= FIRST_KEPT)
        if not keep_record(arena, level_count, is_good):
            fill_null(arena, 0, last, np.int64(record))
    return start.shape[0]
