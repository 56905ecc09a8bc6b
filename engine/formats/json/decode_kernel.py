"""Runs a JSON program over a block of records: text to the columns of an arena, and how the text was spelled.

One compiled kernel serves every schema. The text leads: a member's name finds its operation. A record's trace is what
its form is found by: for each member its number, with whether it is null, and for each object's end the object's.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from engine.formats.columns.fill_kernels import (
    NEEDS_ROOM,
    NO_ROOM,
    close_list,
    copy_counts,
    fill_null,
    keep_record,
    next_element,
)
from engine.formats.columns.maps import take_back_list
from engine.formats.columns.operations import (
    ARRAY,
    FIRST_KEPT,
    IS_MAP,
    ISSUE_BITS,
    LEVEL,
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
from engine.formats.confluent_framing import FRAMED
from engine.formats.json.form_kernel import find_form
from engine.formats.json.operations import (
    BYTE_ORDER_MARK,
    ENDS_EARLY,
    F_ENTRY,
    F_PREVIOUS,
    F_STAMP,
    F_STEP,
    FINAL_NEWLINE,
    FIRST_SPELLING,
    FRAME_WIDTH,
    LONE_SURROGATE,
    M_STEP,
    MAX_TRACE,
    MEMBER_TWICE,
    MEMBER_WIDTH,
    MIXED_SPELLING,
    MORE_BEHIND,
    NO_FORM,
    NO_MEMBER,
    NOT_JSON,
    NULL_VALUE,
    O_INDEX,
    OBJECT_WIDTH,
    ODD_SPACE,
    R_CLOCK,
    R_MEMBERS,
    R_NO,
    R_STOP,
    R_TRACE,
    R_YES,
    SPACE_AFTER_COMMA,
    STOP_NO_FORM,
    STOP_NO_ROOM,
)
from engine.formats.json.skip_kernel import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    NULL,
    OPEN_ARRAY,
    OPEN_OBJECT,
    literal_at,
    skip_json,
    skip_space,
)
from engine.formats.json.string_kernels import BAD, QUOTE, note_no, note_yes
from engine.formats.json.value_kernel import pass_colon, pass_space, read_leaf, read_name, read_string, trace_event
from engine.kernels.inner import inner
from engine.kernels.memory import (
    addresses_of,
    load_i32,
    load_i64,
    load_u8,
    set_word,
    store_i64,
    store_u8,
    word,
)
from engine.kernels.types import Bytes, OutBytes, OutInts, OutWords, Words, tuple_of, writable

VALUE, MEMBER, AFTER = range(3)


class JsonTables(NamedTuple):
    """What only JSON's programs have: their tables (operations.py) and what the kernel notes while it reads."""

    objects: Words
    members: Words
    pool: Bytes
    names: Words
    forms: Words
    follow: OutWords  # by member, and after all members by object: the member whose name comes next, most likely
    stamps: OutWords  # by member: the opening of its object, as the clock counts them, that it was last seen in
    ranks: OutWords  # by object, of the form that is tried: the rank passed last, how many written nulls were seen
    report: OutWords
    trace: OutInts
    scratch: OutBytes
    skipped: OutBytes


_DECODE_BLOCK = types.int64(
    tuple_of(Block), tuple_of(Arena), tuple_of(JsonTables), writable(types.int32),
    types.int64, types.int64, types.boolean, types.boolean,
)  # fmt: skip


@inner(forceinline=True)
def worse(kept, issue, step):
    """The issue to tell of: the first, but what the columns lack before a mere spelling."""
    if issue != 0 and (kept == 0 or (kept & 0xFF >= FIRST_SPELLING and issue < FIRST_SPELLING)):
        return issue | (step << ISSUE_BITS)
    return kept


@inner
def begin_element(arena, report, base, size, at, end, frame):
    """The next element of a list or map: (its value's operation, entry, position or negative, issue)."""
    step = word(frame, F_STEP)
    row = arena.program + ROW_BYTES * step
    entry = next_element(arena, word(row, LEVEL))
    if entry < 0:
        return step, entry, np.int64(NO_ROOM), np.int64(0)
    fill_null(arena, step + 1, word(row, TARGET) - 1, entry)
    if word(row, PARAMETER) != IS_MAP:
        return step + 1, entry, at, np.int64(0)
    if at >= end:
        return step, entry, np.int64(BAD), np.int64(ENDS_EARLY)
    if load_u8(base + at) != QUOTE:
        return step, entry, np.int64(BAD), np.int64(NOT_JSON)
    at, issue = read_string(base, size, at, end, row + ROW_BYTES, arena.memory, entry, report)
    if at < 0:
        return step, entry, at, issue
    if issue == LONE_SURROGATE:
        set_word(frame, F_PREVIOUS, np.int64(1))
    at, spaced = pass_colon(base, at, end, report)
    return step + 2, entry, at, issue if issue != 0 and at >= 0 else spaced


@inner
def end_container(arena, tables, frame):
    """At an object's or a list's closing bracket: the issue."""
    step, entry = word(frame, F_STEP), word(frame, F_ENTRY)
    row = arena.program + ROW_BYTES * step
    if word(row, OPERATION) == UNION:
        place = tables.objects + 8 * OBJECT_WIDTH * step
        trace_event(tables.report, tables.trace, -word(place, O_INDEX) - 1)
        return np.int64(0)
    last = word(row, TARGET) - 1
    free = frame + 8 * FRAME_WIDTH
    if word(row, PARAMETER) == IS_MAP and word(frame, F_PREVIOUS) == 1:
        begin = np.int64(load_i32(arena.memory + word(row, VALUES) + 4 * entry))
        take_back_list(arena, step, last + 1, begin, free)
        store_u8(arena.memory + word(row, VALID) + entry, np.uint8(0))
        return np.int64(0)
    return close_list(arena, last, arena.program + ROW_BYTES * last, entry, free, np.int64(0))


@inner
def open_container(arena, tables, base, at, end, step, entry, frame):
    """At the bracket of an object or list that has a column: (position behind it, whether it is empty, issue)."""
    row = arena.program + ROW_BYTES * step
    report = tables.report
    if word(row, VALID) >= 0:
        store_u8(arena.memory + word(row, VALID) + entry, np.uint8(1))
    set_word(frame, F_STEP, step)
    set_word(frame, F_ENTRY, entry)
    set_word(frame, F_PREVIOUS, np.int64(0))
    if word(row, OPERATION) == UNION:
        place = tables.objects + 8 * OBJECT_WIDTH * step
        set_word(frame, F_PREVIOUS, word(tables.report, R_MEMBERS) + word(place, O_INDEX))
        clock = word(report, R_CLOCK) + 1
        set_word(report, R_CLOCK, clock)
        set_word(frame, F_STAMP, clock)
    closing = CLOSE_ARRAY if load_u8(base + at) == OPEN_ARRAY else CLOSE_OBJECT
    at += 1
    issue = np.int64(0)
    if at < end and load_u8(base + at) <= 32:
        at = skip_space(base, at, end)
        issue = np.int64(ODD_SPACE)
    return at, at < end and load_u8(base + at) == closing, issue


@inner(forceinline=True)
def is_opened_by(row, byte):
    """Whether the byte is the bracket that this operation's values begin with."""
    operation = word(row, OPERATION)
    if operation == UNION or (operation == ARRAY and word(row, PARAMETER) == IS_MAP):
        return byte == OPEN_OBJECT
    return operation == ARRAY and byte == OPEN_ARRAY


@inner(forceinline=True)
def begin_member(tables, base, at, end, frame):
    """A member of an object up to its value: (operation of the value, or -1 where the value was read over; position
    or BAD; issue)."""
    report = tables.report
    place = tables.objects + 8 * OBJECT_WIDTH * word(frame, F_STEP)
    member, at, issue = read_name(tables, base, at, end, place, word(frame, F_PREVIOUS))
    if at < 0:
        return np.int64(-1), at, issue
    at, spaced = pass_colon(base, at, end, report)
    if at < 0:
        return np.int64(-1), at, spaced
    if issue == 0:
        issue = spaced
    if member >= 0:
        stamp = tables.stamps + 8 * member
        if load_i64(stamp) != word(frame, F_STAMP):
            store_i64(stamp, word(frame, F_STAMP))
            set_word(frame, F_PREVIOUS, member)
            is_null = at < end and load_u8(base + at) == 110
            trace_event(report, tables.trace, member << 1 | np.int64(is_null))
            return word(tables.members + 8 * MEMBER_WIDTH * member, M_STEP), at, issue
    at, wrong = skip_json(base, at, end, tables.skipped)
    if at < 0:
        return np.int64(-1), at, wrong
    return np.int64(-1), at, np.int64(MEMBER_TWICE if member >= 0 else NO_MEMBER)


@inner
def begin_record(base, at, end):
    """(position of the value's first byte, issue)."""
    issue = np.int64(0)
    if (
        end - at >= 3
        and load_u8(base + at) == 0xEF
        and load_u8(base + at + 1) == 0xBB
        and load_u8(base + at + 2) == 0xBF
    ):
        at += 3
        issue = np.int64(BYTE_ORDER_MARK)
    if at < end and load_u8(base + at) <= 32:
        at = skip_space(base, at, end)
        issue = np.int64(ODD_SPACE)
    return at, issue


@inner
def end_record(base, at, end, report):
    """Behind the whole value: the issue."""
    if at == end:
        note_no(report, np.int64(FINAL_NEWLINE))
        return np.int64(0)
    if end - at == 1 and load_u8(base + at) == 10:
        note_yes(report, np.int64(FINAL_NEWLINE))
        return np.int64(0)
    return np.int64(ODD_SPACE if skip_space(base, at, end) == end else MORE_BEHIND)


@inner
def decode_record(arena, tables, base, size, at, end, record):
    """One record's columns: what is wrong with it, 0 for nothing, NEEDS_ROOM where the arena is full."""
    step, entry, depth = np.int64(0), np.int64(record), np.int64(0)
    phase = VALUE
    at, issue = begin_record(base, at, end)
    kept = worse(np.int64(0), issue, np.int64(0))
    while True:
        frame = arena.stack + 8 * FRAME_WIDTH * (depth - 1)
        issue = np.int64(0)
        if phase == AFTER:
            if depth == 0:
                break
            step, entry = word(frame, F_STEP), word(frame, F_ENTRY)
            if at < end and load_u8(base + at) <= 32:
                at = skip_space(base, at, end)
                kept = worse(kept, np.int64(ODD_SPACE), step)
        if at >= end:
            return np.int64(ENDS_EARLY) | (step << ISSUE_BITS)
        row = arena.program + ROW_BYTES * step
        byte = load_u8(base + at)
        if phase == AFTER:
            if byte == COMMA:
                at, issue = pass_space(base, at + 1, end, SPACE_AFTER_COMMA, tables.report)
                phase = MEMBER
            elif is_opened_by(row, byte - 2):
                issue = end_container(arena, tables, frame)
                depth -= 1
                at += 1
            else:
                at, issue = np.int64(BAD), np.int64(NOT_JSON)
        elif phase == MEMBER:
            inner = step
            if word(row, OPERATION) == UNION:
                inner, at, issue = begin_member(tables, base, at, end, frame)
            else:
                inner, entry, at, issue = begin_element(arena, tables.report, base, size, at, end, frame)
            kept = worse(
                kept, issue if at >= 0 else np.int64(0), inner if inner >= 0 and issue < FIRST_SPELLING else step
            )
            phase = AFTER if inner < 0 else VALUE
            step = inner if inner >= 0 and at >= 0 else step
            issue = issue if at < 0 else np.int64(0)
        elif byte == 110 and literal_at(base, at, end)[0] == NULL:
            at += 4
            phase = AFTER
            if depth == 0 and word(row, OPERATION) == UNION:
                issue = np.int64(NULL_VALUE)
        elif is_opened_by(row, byte):
            at, is_empty, issue = open_container(arena, tables, base, at, end, step, entry, frame + 8 * FRAME_WIDTH)
            depth += 1
            phase = AFTER if is_empty else MEMBER
        else:
            at, issue = read_leaf(tables, base, size, at, end, row, arena.memory, entry)
            phase = AFTER
        if at < 0:
            return np.int64(NEEDS_ROOM) if at == NO_ROOM else issue | (step << ISSUE_BITS)
        kept = worse(kept, issue, step)
    issue = end_record(base, at, end, tables.report)
    if issue == MORE_BEHIND:
        return issue
    return worse(kept, issue, np.int64(0))


@inner
def judge(tables, issue):
    """(issue, form) of a record that was read: one that nothing keeps from being exact must have a form."""
    report = tables.report
    if issue != 0:
        return issue, np.int64(-1)
    if word(report, R_YES) & word(report, R_NO):
        return np.int64(MIXED_SPELLING), np.int64(-1)
    if word(report, R_TRACE) >= MAX_TRACE:
        return np.int64(NO_FORM), np.int64(-1)
    form = find_form(tables)
    return np.int64(NO_FORM) if form < 0 else np.int64(0), form


@njit(_DECODE_BLOCK, nogil=True, cache=True)
def decode_block(block, arena_tables, json_tables, forms, first, without_form, may_grow, may_learn):
    """Decode the rows from ``first`` on whose state is FRAMED, null the others; returns where it stopped, or n.

    R_STOP of the report says why it stopped: there was no room, or (with ``may_learn``) no form for a row, whose trace
    and traits are there to look at; the row ``without_form`` was looked at already. Without ``may_grow`` a row that
    finds no room is TOO_LARGE. ``forms`` int32[n] gets each row's form, -1 for none.
    """
    data, start, length, state, issues = block
    arena, tables = addresses_of(arena_tables), addresses_of(json_tables)
    level_count, last = arena_tables.counts.shape[0], arena_tables.program.shape[0] // ROW_WIDTH - 1
    copy_counts(arena.saved, arena.counts, level_count)
    base, size, report = data.ctypes.data, data.shape[0], tables.report
    for record in range(first, start.shape[0]):
        issue = np.int64(0)
        form = np.int64(-1)
        fill_null(arena, np.int64(0), last, np.int64(record))
        if state[record] == FRAMED:
            end = start[record] + np.int64(length[record])
            set_word(report, R_YES, np.int64(0))
            set_word(report, R_NO, np.int64(0))
            set_word(report, R_TRACE, np.int64(0))
            issue = np.int64(ENDS_EARLY)
            if 0 <= start[record] <= end <= size:
                issue = decode_record(arena, tables, base, size, start[record], end, record)
            if issue == NEEDS_ROOM:
                if may_grow:
                    set_word(report, R_STOP, np.int64(STOP_NO_ROOM))
                    return record
                issue = np.int64(TOO_LARGE)
            issue, form = judge(tables, issue)
            learnable = may_learn and record != without_form and word(report, R_TRACE) < MAX_TRACE
            if issue == NO_FORM and learnable:
                copy_counts(arena.counts, arena.saved, level_count)
                set_word(report, R_STOP, np.int64(STOP_NO_FORM))
                return record
        issues[record] = issue
        forms[record] = form
        is_good = state[record] == FRAMED and (issue == 0 or (issue & 0xFF) >= FIRST_KEPT)
        if not keep_record(arena, level_count, is_good):
            fill_null(arena, np.int64(0), last, np.int64(record))
    return start.shape[0]
