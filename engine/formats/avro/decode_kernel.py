"""Runs an Avro program over a block of records: bytes to the columns of an arena.

One compiled kernel serves every schema: the program is data. The arena is one buffer; where each column begins in it
stands in the program's rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.avro.leaf_kernels import BAD, read_leaf, read_number
from engine.formats.avro.operations import (
    ENDS_EARLY,
    LEFT_OVER,
    MAX_SKIP_DEPTH,
    NEGATIVE_LENGTH,
    NO_BRANCH,
    NO_COLUMN,
    SEVERAL_BLOCKS,
)
from engine.formats.avro.skip_kernel import skip_value
from engine.formats.columns.fill_kernels import NO_ROOM, close_list, fill_null, next_element
from engine.formats.columns.operations import (
    ARRAY,
    ARRAY_END,
    END,
    FIRST_KEPT,
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
from engine.formats.columns.program import ISSUE_BITS
from engine.formats.confluent_framing import FRAMED, HEADER_BYTES
from engine.kernels.memory import load_u8, set_word, store_i32, store_u8, word
from engine.kernels.types import read_only, strided, writable

# An issue that means: make room, begin again.
NEEDS_ROOM = -1

_DECODE_BLOCK = types.int64(
    read_only(types.uint8), strided(types.int64), strided(types.int32), read_only(types.uint8),
    read_only(types.int64), read_only(types.int64), read_only(types.int64), read_only(types.uint8),
    read_only(types.int32), writable(types.uint8), writable(types.int64), writable(types.int64),
    read_only(types.int64), writable(types.int64), writable(types.int32), types.boolean, writable(types.int64),
)  # fmt: skip


@njit(nogil=True, cache=True, forceinline=True)
def read_block_header(base, at, end):  # type: ignore[no-untyped-def]
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


@njit(nogil=True, cache=True, forceinline=True)
def read_union(base, at, end, row, arena, entry):  # type: ignore[no-untyped-def]
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
    store_u8(arena + word(row, VALID) + entry, np.uint8(1))
    return at, issue, False


@njit(nogil=True, cache=True, forceinline=True)
def open_list(base, at, end, row, arena, entry, counts):  # type: ignore[no-untyped-def]
    """A list's first block: (items in it, position or BAD, issue). An empty list is finished here."""
    left, at, issue = read_block_header(base, at, end)
    if at >= 0 and left == 0:
        store_i32(arena + word(row, VALUES) + 4 * entry + 4, np.int32(word(counts, word(row, LEVEL))))
    if word(row, VALID) >= 0:
        store_u8(arena + word(row, VALID) + entry, np.uint8(1))
    return left, at, issue


@njit(nogil=True, cache=True, forceinline=True)
def continue_list(base, at, end, left):  # type: ignore[no-untyped-def]
    """Behind an element: (items left, this one included, 0 at the list's end; position or BAD; issue)."""
    left -= 1
    issue = np.int64(0)
    if left == 0:
        left, at, issue = read_block_header(base, at, end)
        if at >= 0 and left != 0:
            issue = np.int64(SEVERAL_BLOCKS)
    return left, at, issue


@njit(nogil=True, cache=True)
def decode_record(  # type: ignore[no-untyped-def]
    base, size, at, end, record, program, skips, children, pool, pool_start,
    arena, counts, capacity, lists, skip_stack, map_table,
):  # fmt: skip
    """One record's columns: what is wrong with it, 0 for nothing, NEEDS_ROOM where the arena is full.

    All tables are addresses, for the reason that avro_leaf_kernels gives. The program's targets and levels, made by
    the compiler of this very table, are trusted. ``lists`` holds three words an open list (its own entry, its level,
    the elements left in the block), for as many as the program nests, and one more.
    """
    step, entry, level, depth = np.int64(0), np.int64(record), np.int64(0), np.int64(0)
    kept = np.int64(0)
    while True:
        row = program + ROW_BYTES * step
        operation = word(row, OPERATION)
        following = step + 1
        issue = np.int64(0)
        if operation <= LAST_LEAF:
            at, issue = read_leaf(base, size, at, end, row, pool, pool_start, arena, entry)
        elif operation == UNION:
            at, issue, is_null = read_union(base, at, end, row, arena, entry)
            if is_null:
                following = word(row, TARGET)
                fill_null(program, step, following, arena, entry)
        elif operation == ARRAY:
            left, at, issue = open_list(base, at, end, row, arena, entry, counts)
            if left == 0:
                following = word(row, TARGET)
            elif at >= 0:
                set_word(lists, depth, entry)
                set_word(lists, depth + 1, level)
                set_word(lists, depth + 2, left)
                depth += 3
                level = word(row, LEVEL)
                entry = next_element(level, counts, capacity)
                at = entry if entry < 0 else at
        elif operation == ARRAY_END:
            left, at, issue = continue_list(base, at, end, word(lists, depth - 1))
            if left != 0 and at >= 0:
                set_word(lists, depth - 1, left)
                following = word(row, TARGET)
                entry = next_element(level, counts, capacity)
                at = entry if entry < 0 else at
            elif at >= 0:
                depth -= 3
                entry, level = word(lists, depth), word(lists, depth + 1)
                issue = close_list(program, step, row, arena, entry, counts, lists + 8 * depth, map_table, issue)
        elif operation == OPAQUE:
            if at < end and np.int64(load_u8(base + at)) == word(row, PARAMETER):
                at += 1
            else:
                at, issue = skip_value(base, at, end, skips, children, word(row, TARGET), skip_stack)
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
def decode_block(  # type: ignore[no-untyped-def]
    data, start, length, state, program, skips, children, pool, pool_start,
    arena, counts, saved, capacity, lists, map_table, may_grow, issues,
):  # fmt: skip
    """Decode the rows whose ``state`` is FRAMED, null the others; returns the row that found no room, or n.

    ``start`` int64[n] and ``length`` int32[n] lie within ``data`` (checked again); ``counts`` int64[levels] comes in
    and goes out as the entries of each level, ``saved`` goes out as those of whole records: behind them nothing is
    written when a row finds no room in the middle. ``issues`` int64[n] gets each row's issue. Without ``may_grow`` a
    row that finds no room is TOO_LARGE, and the others go on.
    """
    saved[:] = counts
    skip_stack = np.empty(2 * MAX_SKIP_DEPTH, np.int64)
    last = program.shape[0] // ROW_WIDTH - 1
    base, steps, memory = data.ctypes.data, program.ctypes.data, arena.ctypes.data
    for record in range(start.shape[0]):
        issue = np.int64(0)
        good = state[record] == FRAMED
        if good:
            end = start[record] + np.int64(length[record])
            if start[record] < 0 or length[record] < HEADER_BYTES or end > data.shape[0]:
                issue = np.int64(ENDS_EARLY) | (last << ISSUE_BITS)
            else:
                issue = decode_record(
                    base, data.shape[0], start[record] + HEADER_BYTES, end, record, steps, skips.ctypes.data,
                    children.ctypes.data, pool.ctypes.data, pool_start.ctypes.data, memory, counts.ctypes.data,
                    capacity.ctypes.data, lists.ctypes.data, skip_stack.ctypes.data, map_table.ctypes.data,
                )  # fmt: skip
            if issue == NEEDS_ROOM:
                if may_grow:
                    return record
                issue = np.int64(TOO_LARGE) | (last << ISSUE_BITS)
            good = issue == 0 or (issue & 0xFF) >= FIRST_KEPT
        issues[record] = issue
        if good:
            for level in range(counts.shape[0]):
                saved[level] = counts[level]
        else:
            for level in range(1, counts.shape[0]):
                counts[level] = saved[level]
            fill_null(steps, 0, last, memory, np.int64(record))
    return start.shape[0]
