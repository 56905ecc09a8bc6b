"""Reads over a JSON value that has no column: it is checked to be JSON, and nothing is made of it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.json.number_kernels import end_of_number
from engine.formats.json.operations import (
    ENDS_EARLY,
    ENDS_RUN,
    MAX_DEPTH,
    NOT_ASCII,
    NOT_JSON,
    NOT_UTF8,
    TOO_DEEP,
)
from engine.formats.json.string_kernels import BACKSLASH, BAD, BYTE_OF, QUOTE, find_end, read_hex
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, load_u8, load_u64, store_u8
from engine.kernels.utf8 import is_utf8

COMMA, COLON = 44, 58
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = 123, 125, 91, 93

NO_LITERAL, NULL, FALSE, TRUE, NAN, INFINITY, MINUS_INFINITY = range(7)
NULL_WORD = int.from_bytes(b"null", "little")
TRUE_WORD = int.from_bytes(b"true", "little")
FALS_WORD = int.from_bytes(b"fals", "little")
INFINITY_WORD = np.uint64(int.from_bytes(b"Infinity", "little"))


@inner(forceinline=True)
def skip_space(base, at, end):
    while at < end and load_u8(base + at) in (32, 9, 10, 13):
        at += 1
    return at


@inner
def literal_at(base, at, end):
    """Which literal begins there, and its length, 0 for none.

    Beside JSON's own those of Python and JavaScript for the numbers that JSON has no name for.
    """
    left = end - at
    if left >= 4:
        first = load_i32(base + at)
        if first == NULL_WORD:
            return np.int64(NULL), np.int64(4)
        if first == TRUE_WORD:
            return np.int64(TRUE), np.int64(4)
        if left >= 5 and first == FALS_WORD and load_u8(base + at + 4) == 101:
            return np.int64(FALSE), np.int64(5)
        if left >= 8 and load_u64(base + at) == INFINITY_WORD:
            return np.int64(INFINITY), np.int64(8)
        if left >= 9 and load_u8(base + at) == 45 and load_u64(base + at + 1) == INFINITY_WORD:
            return np.int64(MINUS_INFINITY), np.int64(9)
    if left >= 3 and load_u8(base + at) == 78 and load_u8(base + at + 1) == 97 and load_u8(base + at + 2) == 78:
        return np.int64(NAN), np.int64(3)
    return np.int64(NO_LITERAL), np.int64(0)


@inner
def skip_string(base, at, end):
    """From the opening quote: (position behind the string or BAD, issue)."""
    begin = at + 1
    stop, classes = find_end(base, begin, end)
    if stop < 0:
        return stop, classes
    if classes & NOT_ASCII and not is_utf8(base + begin, base + stop):
        return np.int64(BAD), np.int64(NOT_UTF8)
    if classes & ENDS_RUN:
        at = begin
        while at < stop:
            if load_u8(base + at) == BACKSLASH:
                at += 1
                letter = load_u8(base + at)
                if letter == 117:
                    if read_hex(base, at + 1, stop)[0] < 0:
                        return np.int64(BAD), np.int64(NOT_JSON)
                elif BYTE_OF[letter] == 0:
                    return np.int64(BAD), np.int64(NOT_JSON)
            at += 1
    return stop + 1, np.int64(0)


@inner
def skip_scalar(base, at, end):
    """A literal or a number: (position behind it or BAD, issue)."""
    _, length = literal_at(base, at, end)
    if length > 0:
        return at + length, np.int64(0)
    stop, issue = end_of_number(base, at, end)
    return stop, issue if stop < 0 else np.int64(0)


@inner
def skip_json(base, at, end, stack):
    """From a value's first byte: (position behind it or BAD, issue). ``stack`` has MAX_DEPTH bytes."""
    depth = np.int64(0)
    begins = True
    while True:
        at = skip_space(base, at, end)
        if at >= end:
            return np.int64(BAD), np.int64(ENDS_EARLY)
        byte = load_u8(base + at)
        if not begins:
            if byte == COMMA:
                at = skip_space(base, at + 1, end)
            elif byte == (CLOSE_OBJECT if load_u8(stack + depth - 1) == OPEN_OBJECT else CLOSE_ARRAY):
                at += 1
                depth -= 1
                if depth == 0:
                    return at, np.int64(0)
                continue
            else:
                return np.int64(BAD), np.int64(NOT_JSON)
        if depth > 0 and load_u8(stack + depth - 1) == OPEN_OBJECT:
            if at >= end or load_u8(base + at) != QUOTE:
                return np.int64(BAD), np.int64(NOT_JSON if at < end else ENDS_EARLY)
            at, issue = skip_string(base, at, end)
            if at < 0:
                return at, issue
            at = skip_space(base, at, end)
            if at >= end or load_u8(base + at) != COLON:
                return np.int64(BAD), np.int64(NOT_JSON if at < end else ENDS_EARLY)
            at = skip_space(base, at + 1, end)
        if at >= end:
            return np.int64(BAD), np.int64(ENDS_EARLY)
        byte = load_u8(base + at)
        if byte in (OPEN_OBJECT, OPEN_ARRAY):
            if depth >= MAX_DEPTH:
                return np.int64(BAD), np.int64(TOO_DEEP)
            closing = CLOSE_OBJECT if byte == OPEN_OBJECT else CLOSE_ARRAY
            at = skip_space(base, at + 1, end)
            if at < end and load_u8(base + at) == closing:
                at += 1
            else:
                store_u8(stack + depth, byte)
                depth += 1
                begins = True
                continue
        elif byte == QUOTE:
            at, issue = skip_string(base, at, end)
            if at < 0:
                return at, issue
        else:
            at, issue = skip_scalar(base, at, end)
            if at < 0:
                return at, issue
        if depth == 0:
            return at, np.int64(0)
        begins = False
