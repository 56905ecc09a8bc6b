"""Runs an Avro program over a block of records: bytes to the columns of an arena.

One compiled kernel serves every schema: the program is data. The arena is one buffer, seen as bytes, 32-bit and
64-bit words; where each column begins in it stands in the program's rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.avro_leaf_kernels import BAD, NO_ROOM, null_leaf, read_leaf, read_number
from engine.formats.avro_operations import (
    ARRAY,
    ARRAY_END,
    END,
    ENDS_EARLY,
    FIRST_KEPT,
    LAST_LEAF,
    LEFT_OVER,
    LEVEL,
    MAX_SKIP_DEPTH,
    NEGATIVE_LENGTH,
    NO_BRANCH,
    NO_COLUMN,
    OPAQUE,
    OPERATION,
    PARAMETER,
    SEVERAL_BLOCKS,
    TARGET,
    TOO_LARGE,
    UNION,
    VALID,
    VALUES,
)
from engine.formats.avro_skip_kernel import skip_value
from engine.kernel_types import read_only, strided, writable

HEADER_BYTES = 5
FRAMED = 0

# A record's issue has its operation's row beside it: code | row << ISSUE_BITS. This one means: make room, begin again.
ISSUE_BITS = 8
NEEDS_ROOM = -1

_DECODE_BLOCK = types.int64(
    read_only(types.uint8), strided(types.int64), strided(types.int32), read_only(types.uint8),
    types.Array(types.int64, 2, "C", readonly=True), types.Array(types.int64, 2, "C", readonly=True),
    read_only(types.int64), read_only(types.uint8), read_only(types.int32),
    writable(types.uint8), writable(types.int32), writable(types.int64),
    writable(types.int64), read_only(types.int64), writable(types.int64), types.boolean, writable(types.int64),
)  # fmt: skip


@njit(nogil=True, cache=True)
def fill_null(program, first, last, arena, arena32, arena64, entry):  # type: ignore[no-untyped-def]
    """Null for the operations ``first <= at < last``, which all lie on one level."""
    at = first
    while at < last:
        row = program[at]
        operation = row[OPERATION]
        if operation <= LAST_LEAF:
            null_leaf(row, arena, arena32, arena64, entry)
        elif operation == ARRAY:
            slot = (row[VALUES] >> 2) + entry
            arena32[slot + 1] = arena32[slot]
            if row[VALID] >= 0:
                arena[row[VALID] + entry] = 0
            at = row[TARGET]
            continue
        elif operation == UNION and row[VALID] >= 0:
            arena[row[VALID] + entry] = 0
        at += 1


@njit(nogil=True, cache=True)
def read_block_header(data, at, end):  # type: ignore[no-untyped-def]
    """How many items a list's block has: (count, position or BAD, issue); a size in bytes is read and not used."""
    count, at, issue = read_number(data, at, end)
    if at >= 0 and count < 0:
        if count == np.int64(-(2**63)):
            return count, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
        count = -count
        size, at, _ = read_number(data, at, end)
        issue = np.int64(SEVERAL_BLOCKS)
        if at >= 0 and size < 0:
            return count, np.int64(BAD), np.int64(NEGATIVE_LENGTH)
    if at < 0:
        issue = np.int64(ENDS_EARLY)
    return count, at, issue


@njit(nogil=True, cache=True)
def next_element(level, counts, capacity):  # type: ignore[no-untyped-def]
    """The next free entry of a level, or NO_ROOM."""
    entry = counts[level]
    if entry >= capacity[level]:
        return np.int64(NO_ROOM)
    counts[level] = entry + 1
    return entry


@njit(nogil=True, cache=True)
def read_union(data, at, end, row, arena, entry):  # type: ignore[no-untyped-def]
    """A nullable union's branch, or the only one: (position or BAD, issue, whether the value is null)."""
    null_index = row[PARAMETER]
    branch, at, issue = read_number(data, at, end)
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
    arena[row[VALID] + entry] = 1
    return at, issue, False


@njit(nogil=True, cache=True)
def open_list(data, at, end, row, arena, arena32, entry, counts):  # type: ignore[no-untyped-def]
    """A list's first block: (items in it, position or BAD, issue). An empty list is finished here."""
    left, at, issue = read_block_header(data, at, end)
    if at >= 0 and left == 0:
        arena32[(row[VALUES] >> 2) + entry + 1] = np.int32(counts[row[LEVEL]])
    if row[VALID] >= 0:
        arena[row[VALID] + entry] = 1
    return left, at, issue


@njit(nogil=True, cache=True)
def continue_list(data, at, end, left):  # type: ignore[no-untyped-def]
    """Behind an element: (items left, this one included, 0 at the list's end; position or BAD; issue)."""
    left -= 1
    issue = np.int64(0)
    if left == 0:
        left, at, issue = read_block_header(data, at, end)
        if at >= 0 and left != 0:
            issue = np.int64(SEVERAL_BLOCKS)
    return left, at, issue


@njit(nogil=True, cache=True)
def decode_record(  # type: ignore[no-untyped-def]
    data, at, end, record, program, skips, children, pool, pool_start,
    arena, arena32, arena64, counts, capacity, lists, skip_stack,
):  # fmt: skip
    """One record's columns: what is wrong with it, 0 for nothing, NEEDS_ROOM where the arena is full.

    ``lists`` holds three words an open list: its own entry, its own level, the elements left in the block.
    """
    step, entry, level, depth = np.int64(0), np.int64(record), np.int64(0), np.int64(0)
    kept = np.int64(0)
    base, arena_base = data.ctypes.data, arena.ctypes.data
    while True:
        row = program[step]
        operation = row[OPERATION]
        following = step + 1
        issue = np.int64(0)
        if operation <= LAST_LEAF:
            at, issue = read_leaf(
                data, base, at, end, row, pool, pool_start, arena_base, arena, arena32, arena64, entry
            )  # fmt: skip
        elif operation == UNION:
            at, issue, is_null = read_union(data, at, end, row, arena, entry)
            if is_null:
                following = row[TARGET]
                fill_null(program, step, following, arena, arena32, arena64, entry)
        elif operation == ARRAY:
            left, at, issue = open_list(data, at, end, row, arena, arena32, entry, counts)
            if left == 0:
                following = row[TARGET]
            elif at >= 0:
                lists[depth], lists[depth + 1], lists[depth + 2] = entry, level, left
                depth += 3
                level = row[LEVEL]
                entry = next_element(level, counts, capacity)
                at = entry if entry < 0 else at
        elif operation == ARRAY_END:
            left, at, issue = continue_list(data, at, end, lists[depth - 1])
            if left != 0 and at >= 0:
                lists[depth - 1] = left
                following = row[TARGET]
                entry = next_element(level, counts, capacity)
                at = entry if entry < 0 else at
            elif at >= 0:
                depth -= 3
                entry, level = lists[depth], lists[depth + 1]
                arena32[(row[VALUES] >> 2) + entry + 1] = np.int32(counts[row[LEVEL]])
        elif operation == OPAQUE:
            if at < end and np.int64(data[at]) == row[PARAMETER]:
                at += 1
            else:
                at, issue = skip_value(data, at, end, skips, children, row[TARGET], skip_stack)
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
    arena, arena32, arena64, counts, capacity, lists, may_grow, issues,
):  # fmt: skip
    """Decode the rows whose ``state`` is FRAMED, null the others; returns the row that found no room, or n.

    ``start`` int64[n] and ``length`` int32[n] lie within ``data`` (checked again); ``counts`` int64[levels] comes in
    and goes out as the entries of each level; ``issues`` int64[n] gets each row's issue. Without ``may_grow`` a row
    that finds no room is TOO_LARGE, and the others go on.
    """
    saved = counts.copy()
    skip_stack = np.empty(2 * MAX_SKIP_DEPTH, np.int64)
    last = program.shape[0] - 1
    for record in range(start.shape[0]):
        issue = np.int64(0)
        good = state[record] == FRAMED
        if good:
            end = start[record] + np.int64(length[record])
            if start[record] < 0 or length[record] < HEADER_BYTES or end > data.shape[0]:
                issue = np.int64(ENDS_EARLY)
            else:
                issue = decode_record(
                    data, start[record] + HEADER_BYTES, end, record, program, skips, children, pool, pool_start,
                    arena, arena32, arena64, counts, capacity, lists, skip_stack,
                )  # fmt: skip
            if issue == NEEDS_ROOM:
                if may_grow:
                    return record
                issue = np.int64(TOO_LARGE)
            good = issue == 0 or (issue & 0xFF) >= FIRST_KEPT
        issues[record] = issue
        if good:
            for level in range(counts.shape[0]):
                saved[level] = counts[level]
        else:
            for level in range(1, counts.shape[0]):
                counts[level] = saved[level]
            fill_null(program, 0, last, arena, arena32, arena64, np.int64(record))
    return start.shape[0]
