"""One value of JSON text into the arena: a member's name, a string, a number, a literal.

Positions and addresses as in Avro's leaf_kernels: nothing at ``base + at`` is read before ``at`` was compared with
``end``, and what is written was given room. A reader returns the position behind what it read, BAD (the issue says
why) or NO_ROOM.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.fill_kernels import NO_ROOM
from engine.formats.columns.operations import (
    BOOLEAN,
    DATA,
    DATA_SIZE,
    DOUBLE,
    LONG,
    OPAQUE,
    OPERATION,
    STRING,
    VALID,
    VALUES,
)
from engine.formats.json.number_kernels import double_of, end_of_number, integer_of
from engine.formats.json.operations import (
    ENDS_EARLY,
    ENDS_RUN,
    LONE_SURROGATE,
    M_LENGTH,
    M_NAME,
    M_TRAITS,
    MAX_NAME_BYTES,
    MAX_TRACE,
    MEMBER_WIDTH,
    NO_COLUMN,
    NOT_INTEGER,
    NOT_JSON,
    NOT_UTF8,
    NUMBER_RANGE,
    O_COUNT,
    O_MASK,
    O_TABLE,
    ODD_NUMBER,
    ODD_SPACE,
    OTHER_TYPE,
    R_TRACE,
    SPACE_AFTER_COLON,
)
from engine.formats.json.skip_kernel import (
    COLON,
    FALSE,
    INFINITY,
    NAN,
    TRUE,
    literal_at,
    skip_json,
    skip_space,
)
from engine.formats.json.string_kernels import BAD, QUOTE, check_plain, find_end, note_no, note_yes, unescape
from engine.kernels.bits import bits_of_double
from engine.kernels.inner import inner
from engine.kernels.memory import (
    SLACK,
    copy_text,
    load_i32,
    load_i64,
    load_u8,
    set_word,
    store_i32,
    store_i64,
    store_u8,
    word,
)


@inner(forceinline=True)
def trace_event(report, trace, event):
    count = word(report, R_TRACE)
    if count < MAX_TRACE:
        store_i32(trace + 4 * count, np.int32(event))
        set_word(report, R_TRACE, count + 1)


@inner(forceinline=True)
def same_bytes(one, other, size):
    at = np.int64(0)
    while at + 8 <= size:
        if load_i64(one + at) != load_i64(other + at):
            return False
        at += 8
    while at < size:
        if load_u8(one + at) != load_u8(other + at):
            return False
        at += 1
    return True


@inner
def find_member(tables, place, name, size):
    """An object's member by its unescaped name: its number, or -1. ``place`` is the object's row."""
    if word(place, O_COUNT) == 0:
        return np.int64(-1)
    members, pool = tables.members, tables.pool
    names = tables.names + 8 * word(place, O_TABLE)
    hashed = np.uint64(0xCBF29CE484222325)  # FNV-1a
    for index in range(size):
        hashed = (hashed ^ np.uint64(load_u8(name + index))) * np.uint64(0x100000001B3)
    slot = np.int64(hashed & np.uint64(word(place, O_MASK)))
    while word(names, slot) >= 0:
        member = word(names, slot)
        fact = members + 8 * MEMBER_WIDTH * member
        if word(fact, M_LENGTH) == size and same_bytes(pool + word(fact, M_NAME), name, size):
            return member
        slot = (slot + 1) & word(place, O_MASK)
    return np.int64(-1)


@inner(forceinline=True)
def read_name(tables, base, at, end, place, previous):
    """From a name's opening quote: (member, -1 for an unknown one; position behind the name or BAD; issue)."""
    if at >= end:
        return np.int64(-1), np.int64(BAD), np.int64(ENDS_EARLY)
    if load_u8(base + at) != QUOTE:
        return np.int64(-1), np.int64(BAD), np.int64(NOT_JSON)
    at += 1
    report, follow = tables.report, tables.follow
    likely = word(follow, previous)
    if likely >= 0:
        fact = tables.members + 8 * MEMBER_WIDTH * likely
        size = word(fact, M_LENGTH)
        comparable = at + size < end and load_u8(base + at + size) == QUOTE and word(fact, M_TRAITS) & ENDS_RUN == 0
        if comparable and same_bytes(tables.pool + word(fact, M_NAME), base + at, size):
            note_no(report, word(fact, M_TRAITS))
            return likely, at + size + 1, np.int64(0)
    stop, classes = find_end(base, at, end)
    if stop < 0:
        return np.int64(-1), stop, classes
    if not check_plain(base, at, stop, classes, report):
        return np.int64(-1), np.int64(BAD), np.int64(NOT_UTF8)
    name, size, issue = base + at, stop - at, np.int64(0)
    if classes & ENDS_RUN:
        if size > MAX_NAME_BYTES:
            _, issue = skip_json(base, at - 1, end, tables.skipped)
            return np.int64(-1), stop + 1 if issue == 0 else np.int64(BAD), issue
        name = tables.scratch
        size, issue = unescape(base, at, stop, name, report)
        if size < 0:
            return np.int64(-1), np.int64(BAD), issue
    member = np.int64(-1) if issue == LONE_SURROGATE else find_member(tables, place, name, size)
    if member >= 0:
        set_word(follow, previous, member)
    return member, stop + 1, issue


@inner
def read_string(base, size, at, end, row, memory, entry, report):
    """From the opening quote, into offsets and data: (position behind the string or negative, issue)."""
    at += 1
    stop, classes = find_end(base, at, end)
    if stop < 0:
        return stop, classes
    if not check_plain(base, at, stop, classes, report):
        return np.int64(BAD), np.int64(NOT_UTF8)
    slot = memory + word(row, VALUES) + 4 * entry
    begin = np.int64(load_i32(slot))
    length = stop - at
    if begin + length + SLACK > word(row, DATA_SIZE):
        return np.int64(NO_ROOM), np.int64(0)
    issue = np.int64(0)
    to = memory + word(row, DATA) + begin
    if classes & ENDS_RUN:
        length, issue = unescape(base, at, stop, to, report)
        if length < 0:
            return np.int64(BAD), issue
    else:
        copy_text(to, base + at, length, size - at)
    if issue != LONE_SURROGATE:
        store_i32(slot + 4, np.int32(begin + length))
        if word(row, VALID) >= 0:
            store_u8(memory + word(row, VALID) + entry, np.uint8(1))
    return stop + 1, issue


@inner
def read_number(base, at, end, row, memory, entry, report, scratch):
    """A number into a column of integers or doubles: (position behind it or BAD, issue)."""
    stop, integer = end_of_number(base, at, end)
    if stop < 0:
        return stop, integer
    slot = memory + word(row, VALUES) + 8 * entry
    issue = np.int64(0)
    if word(row, OPERATION) == DOUBLE:
        value, issue = double_of(base, at, stop, report, scratch)
        store_i64(slot, np.int64(bits_of_double(value)))
        is_there = issue != NUMBER_RANGE
    else:
        number, is_there = integer_of(base, at, stop)
        if integer == 0:
            issue = np.int64(NOT_INTEGER)
            is_there = False
        elif not is_there:
            issue = np.int64(NUMBER_RANGE)
        elif number == 0 and stop - at > 1:
            issue = np.int64(ODD_NUMBER)
        store_i64(slot, number if is_there else np.int64(0))
    if is_there:
        store_u8(memory + word(row, VALID) + entry, np.uint8(1))
    return stop, issue


@inner
def read_other(tables, base, at, end, row, memory, entry):
    """A literal, or what the column does not take: (position behind it or BAD, issue)."""
    operation = word(row, OPERATION)
    literal, size = literal_at(base, at, end)
    if operation == BOOLEAN and literal in (TRUE, FALSE):
        store_u8(memory + word(row, VALUES) + entry, np.uint8(literal == TRUE))
        store_u8(memory + word(row, VALID) + entry, np.uint8(1))
        return at + size, np.int64(0)
    if operation == DOUBLE and literal >= NAN:
        value = np.nan if literal == NAN else np.inf if literal == INFINITY else -np.inf
        store_i64(memory + word(row, VALUES) + 8 * entry, np.int64(bits_of_double(value)))
        store_u8(memory + word(row, VALID) + entry, np.uint8(1))
        return at + size, np.int64(0)
    at, issue = skip_json(base, at, end, tables.skipped)
    if at >= 0:
        issue = np.int64(NO_COLUMN if operation == OPAQUE else OTHER_TYPE)
    return at, issue


@inner(forceinline=True)
def read_leaf(tables, base, size, at, end, row, memory, entry):
    """A value that is neither null nor taken apart into others: (position behind it or negative, issue)."""
    byte = load_u8(base + at)
    operation = word(row, OPERATION)
    report = tables.report
    if operation == STRING and byte == QUOTE:
        return read_string(base, size, at, end, row, memory, entry, report)
    is_number = 48 <= byte <= 57 or (byte == 45 and (at + 1 >= end or load_u8(base + at + 1) != 73))
    if is_number and operation in (LONG, DOUBLE):
        return read_number(base, at, end, row, memory, entry, report, tables.scratch)
    return read_other(tables, base, at, end, row, memory, entry)


@inner(forceinline=True)
def pass_space(base, at, end, trait, report):
    """Behind a comma or colon: (position of what follows, issue); one space there is a trait."""
    if at < end and load_u8(base + at) > 32:
        note_no(report, np.int64(trait))
        return at, np.int64(0)
    if at + 1 < end and load_u8(base + at) == 32 and load_u8(base + at + 1) > 32:
        note_yes(report, np.int64(trait))
        return at + 1, np.int64(0)
    return skip_space(base, at, end), np.int64(ODD_SPACE)


@inner
def pass_colon(base, at, end, report):
    """Behind a name: (position of the value or BAD, issue)."""
    issue = np.int64(0)
    if at < end and load_u8(base + at) <= 32:
        at = skip_space(base, at, end)
        issue = np.int64(ODD_SPACE)
    if at >= end:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    if load_u8(base + at) != COLON:
        return np.int64(BAD), np.int64(NOT_JSON)
    at, spaced = pass_space(base, at + 1, end, SPACE_AFTER_COLON, report)
    return at, issue | spaced
