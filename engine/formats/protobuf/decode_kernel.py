"""Runs a Protobuf program over a block of records: bytes to the columns of an arena.

A message's fields are expected in the order of their numbers: a step goes through its operations and makes null, or
zero, what is absent. A field that comes late is looked up; what its entry held is then written over, added to, or
merged, as Protobuf's specification has it ("Last One Wins"), and the record keeps its bytes.

``arena`` and ``tables`` are ``Arena`` and ``MessageTables`` by their addresses.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from engine.formats.columns.fill_kernels import NEEDS_ROOM, copy_counts, keep_record
from engine.formats.columns.operations import ISSUE_BITS
from engine.formats.columns.tables import Arena, Block
from engine.formats.confluent_framing import FRAMED
from engine.formats.protobuf.column_kernels import ROW_BYTES, absent_leaf, set_valid
from engine.formats.protobuf.leaf_kernels import read_leaf
from engine.formats.protobuf.list_kernels import end_list, null_rows, settle_oneof, take_back
from engine.formats.protobuf.operations import (
    ALWAYS,
    BAD_TAG,
    CLOSING,
    ENDS_EARLY,
    FIRST_KEPT,
    FLAGS,
    IS_MAP,
    KIND,
    LAST_NUMBER,
    LEAF,
    LEAVES,
    LEVEL,
    MAP_ENTRY,
    MAP_IN_PIECES,
    MESSAGE,
    MESSAGES,
    NO_COLUMN,
    NOT_AS_DECLARED,
    NUMBER,
    ONEOF,
    OPAQUE,
    OPERATION,
    OUT_OF_ORDER,
    PARAMETER,
    PAST_ALL_NUMBERS,
    PRESENCE,
    ROW_WIDTH,
    SEVERAL_CHUNKS,
    TAG,
    TARGET,
    TOO_LARGE,
    UNKNOWN_FIELD,
    VALID,
    VALUES,
    WIRE_32,
    WIRE_64,
    WIRE_BYTES,
    WIRE_VARINT,
)
from engine.formats.protobuf.wire_kernels import NO_ROOM, read_length, read_varint, skip_field
from engine.kernels.inner import inner
from engine.kernels.memory import addresses_of, load_i32, load_u8, set_word, store_i32, store_u8, word
from engine.kernels.types import Bytes, Ints, Words, read_only, tuple_of

# Words of an open message: the operation to go on with, where the message around ends, its entry, the row of its end.
FRAME_WORDS = 4


class MessageTables(NamedTuple):
    """What only Protobuf's programs have: the operations of fields by number, the enums and their symbols."""

    fields: Words
    enums: Words
    pool: Bytes
    pool_start: Ints


_DECODE_BLOCK = types.int64(
    tuple_of(Block), tuple_of(Arena), tuple_of(MessageTables), read_only(types.int32), types.boolean
)


@inner
def find_field(program, fields, closing, number):
    """The operation of a field of the message that ends at ``closing``, or -1."""
    row = program + ROW_BYTES * closing
    table = fields + 8 * word(row, PARAMETER)
    low, high = np.int64(0), word(row, LEVEL)
    while low < high:
        middle = (low + high) >> 1
        step = word(table, middle)
        found = word(program + ROW_BYTES * step, NUMBER)
        if found == number:
            return step
        if found < number:
            low = middle + 1
        else:
            high = middle
    return np.int64(-1)


@inner
def pass_field(arena, tables, step, entry, free):
    """The field ``step`` is over: a list ends, any other was absent. (NO_ROOM or not negative, issue.)"""
    row = arena.program + ROW_BYTES * step
    operation = word(row, OPERATION)
    if operation == LEAF:
        return absent_leaf(row, arena.memory, entry, tables)
    if operation in (LEAVES, MESSAGES):
        return np.int64(0), end_list(arena, step, entry, free)
    if operation == MESSAGE:
        null_rows(arena, step, word(row, TARGET), entry)
        return np.int64(0), np.int64(MAP_ENTRY) if word(row, PRESENCE) == ALWAYS else np.int64(0)
    return np.int64(0), np.int64(0)


@inner(forceinline=True)
def next_element(arena, row, entry):
    """A new element of the list's entry, which is the last one of its level: its own entry, or NO_ROOM."""
    level = word(row, LEVEL)
    element = word(arena.counts, level)
    if element >= word(arena.capacity, level):
        return np.int64(NO_ROOM)
    set_word(arena.counts, level, element + 1)
    store_i32(arena.memory + word(row, VALUES) + 4 * entry + 4, np.int32(element + 1))
    return element


@inner(forceinline=True)
def read_elements(base, size, at, end, tag, row, arena, tables, entry, free):
    """One element of a list of leaves, or as many as are packed: (position, BAD or NO_ROOM; issue)."""
    issue = np.int64(0)
    until = at + 1
    set_valid(row, arena.memory, entry, 1)
    if tag & 7 == WIRE_BYTES and word(row + ROW_BYTES, KIND) <= LAST_NUMBER:
        length, at, issue = read_length(base, at, end)
        if at < 0:
            return at, issue
        until = at + length
        end = until
        begin = np.int64(load_i32(arena.memory + word(row, VALUES) + 4 * entry))
        if length == 0 or word(arena.counts, word(row, LEVEL)) != begin:
            issue = np.int64(SEVERAL_CHUNKS)
    while at < until:
        element = next_element(arena, row, entry)
        if element < 0:
            return element, issue
        at, found = read_leaf(base, size, at, end, row + ROW_BYTES, arena.memory, element, False, tables, free)
        if at < 0:
            return at, found
        issue = found if issue == 0 else issue
    return at, issue


@inner(forceinline=True)
def accepts(row, tag):
    """What a field makes of a tag with its number: 0 nothing, 1 its value, 2 a list's elements in the other way."""
    if word(row, TAG) == tag or word(row, OPERATION) == OPAQUE:
        return 1
    if word(row, OPERATION) != LEAVES or word(row + ROW_BYTES, KIND) > LAST_NUMBER:
        return 0
    # A tag is a field's number, and its wire type in the lowest three bits.
    wire = tag & 7
    if wire == WIRE_BYTES:
        return 2
    kind = word(row + ROW_BYTES, KIND)
    wanted = WIRE_VARINT if kind <= 7 else WIRE_32 if kind <= 10 else WIRE_64
    return 2 if wire == wanted else 0


@inner
def pass_until(arena, tables, step, number, entry, free, kept):
    """Pass the fields below a number: (the first one that is not, or NO_ROOM; the record's issue)."""
    row = arena.program + ROW_BYTES * step
    while word(row, NUMBER) < number:
        room, issue = pass_field(arena, tables, step, entry, free)
        if room < 0:
            return np.int64(NO_ROOM), kept
        if issue != 0 and kept == 0:
            kept = issue | (step << ISSUE_BITS)
        step = word(row, TARGET)
        row = arena.program + ROW_BYTES * step
    return step, kept


@inner
def look_up(program, fields, closing, step, tag):
    """The field of a tag that is not the one of ``step``, up to which all are passed: (its operation, or -1; issue)."""
    number = tag >> 3
    if word(program + ROW_BYTES * step, NUMBER) != number:
        step = find_field(program, fields, closing, number)
    how = accepts(program + ROW_BYTES * step, tag) if step >= 0 else 0
    if how == 0:
        return np.int64(-1), np.int64(UNKNOWN_FIELD)
    return step, np.int64(NOT_AS_DECLARED) if how == 2 else np.int64(0)


@inner
def pass_value(base, at, end, tag, arena, step, entry, free):
    """What no column holds, or more of a map that has ended, which is then null: (position or BAD; issue)."""
    at, issue = skip_field(base, at, end, tag, free)
    if at < 0 or step < 0:
        return at, issue if at < 0 else np.int64(UNKNOWN_FIELD)
    row = arena.program + ROW_BYTES * step
    if word(row, OPERATION) == OPAQUE:
        return at, np.int64(NO_COLUMN)
    take_back(arena, step, word(row, TARGET), entry, free)
    return at, np.int64(MAP_IN_PIECES)


@inner(forceinline=True)
def open_message(arena, row, used, is_late, entry):
    """A message begins: (its entry, or NO_ROOM; its first operation)."""
    if word(row, OPERATION) == MESSAGES:
        return next_element(arena, row, entry), used + 1
    valid = arena.memory + word(row, VALID) + entry
    # A second time: what is in it now is merged into what was, and nothing is absent for it.
    first = word(row, CLOSING) if is_late and load_u8(valid) != 0 else used + 1
    store_u8(valid, np.uint8(1))
    return entry, first


@inner
def decode_record(base, size, at, end, record, last, arena, tables):
    """One record's columns: what is wrong with it, 0 for nothing, NEEDS_ROOM where the arena is full.

    The program's targets and levels, made by the compiler of this very table, are trusted. The stack holds FRAME_WORDS
    an open message, for as many as the program nests, and room after them for ``take_back`` and ``skip_field``.
    ``last`` is the row of the record's own end.
    """
    program, stack = arena.program, arena.stack
    step, entry, limit, closing, depth = np.int64(0), np.int64(record), end, np.int64(last), np.int64(0)
    kept = np.int64(0)
    while True:
        free = stack + 8 * (depth + FRAME_WORDS)
        tag, issue = np.int64(PAST_ALL_NUMBERS << 3), np.int64(0)
        if at < limit:
            tag, at, issue = read_varint(base, at, limit)
            if at < 0 or tag < 8 or tag > 0xFFFFFFFF:
                return (issue if at < 0 else np.int64(BAD_TAG)) | (closing << ISSUE_BITS)
        if tag != word(program + ROW_BYTES * step, TAG):
            step, kept = pass_until(arena, tables, step, tag >> 3, entry, free, kept)
            if step < 0:
                return np.int64(NEEDS_ROOM)
        if tag == PAST_ALL_NUMBERS << 3:
            if depth == 0:
                return kept
            depth -= FRAME_WORDS
            step, limit = word(stack, depth), word(stack, depth + 1)
            entry, closing = word(stack, depth + 2), word(stack, depth + 3)
            continue
        used = step
        if tag != word(program + ROW_BYTES * step, TAG):
            used, issue = look_up(program, tables.fields, closing, step, tag)
        row = program + ROW_BYTES * used
        is_late = used < step
        operation = word(row, OPERATION) if used >= 0 else np.int64(OPAQUE)
        found = np.int64(0)
        if used >= 0 and word(row, ONEOF) >= 0:
            found = settle_oneof(arena, used, step, entry, free)
        issue = np.int64(OUT_OF_ORDER) if is_late and used >= 0 else issue if issue != 0 else found
        if operation == LEAF:
            at, found = read_leaf(base, size, at, limit, row, arena.memory, entry, is_late, tables, free)
            step = step if is_late else word(row, TARGET)
        elif operation == LEAVES:
            at, found = read_elements(base, size, at, limit, tag, row, arena, tables, entry, free)
        elif operation == OPAQUE or (is_late and word(row, FLAGS) & IS_MAP):
            at, found = pass_value(base, at, limit, tag, arena, used, entry, free)
        else:
            length, at, found = read_length(base, at, limit)
            if at >= 0:
                inside, first = open_message(arena, row, used, is_late, entry)
                set_word(stack, depth, word(row, TARGET) if operation == MESSAGE and not is_late else step)
                set_word(stack, depth + 1, limit)
                set_word(stack, depth + 2, entry)
                set_word(stack, depth + 3, closing)
                depth += FRAME_WORDS
                step, limit, entry, closing = first, at + length, inside, word(row, CLOSING)
                at = inside if inside < 0 else at
        used = used if used >= 0 else closing
        if at < 0:
            return np.int64(NEEDS_ROOM) if at == NO_ROOM else found | (used << ISSUE_BITS)
        issue = found if issue == 0 else issue
        if issue != 0 and kept == 0:
            kept = issue | (used << ISSUE_BITS)


@njit(_DECODE_BLOCK, nogil=True, cache=True)
def decode_block(block, arena_tables, message_tables, header, may_grow):
    """Decode the rows whose state is FRAMED, null the others; returns the row that found no room, or n.

    A row's message begins ``header`` int32[n] bytes after its start. Without ``may_grow`` a row that finds no room is
    TOO_LARGE, and the others go on.
    """
    data, start, length, state, issues = block
    arena, tables = addresses_of(arena_tables), addresses_of(message_tables)
    level_count, last = arena_tables.counts.shape[0], arena_tables.program.shape[0] // ROW_WIDTH - 1
    copy_counts(arena.saved, arena.counts, level_count)
    base, size = data.ctypes.data, data.shape[0]
    for record in range(start.shape[0]):
        issue = np.int64(0)
        if state[record] == FRAMED:
            at, end = start[record] + np.int64(header[record]), start[record] + np.int64(length[record])
            issue = np.int64(ENDS_EARLY) | (last << ISSUE_BITS)
            if 0 <= start[record] <= at <= end <= size:
                issue = decode_record(base, size, at, end, record, last, arena, tables)
            if issue == NEEDS_ROOM:
                if may_grow:
                    return record
                issue = np.int64(TOO_LARGE) | (last << ISSUE_BITS)
        issues[record] = issue
        is_good = state[record] == FRAMED and (issue == 0 or (issue & 0xFF) >= FIRST_KEPT)
        if not keep_record(arena, level_count, is_good):
            null_rows(arena, 0, last, np.int64(record))
    return start.shape[0]
