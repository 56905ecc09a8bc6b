"""What the CSV kernels find in a line, as numbers, and what they mean to people."""

from __future__ import annotations

OPEN_QUOTE = 1
SEVERAL_LINES = 2
OUTSIDE = 3
FIRST_KEPT = 8
"""Codes from here on leave the line's other columns as they are; below, the whole line can't be read."""
FIELD_COUNT = 8
LINE_END = 9
QUOTING = 10
BEHIND_QUOTE = 11
NOT_UTF8 = 12
NOT_OF_TYPE = 13
SPELLING = 14

CODE_BITS = 5
"""An issue is a code, and above it the column's number, or for FIELD_COUNT how many fields there are."""
MOST_COUNTED = 1 << 16
"""A hostile line's fields are not counted beyond it: every number is a reason of its own."""

TEXT = {
    OPEN_QUOTE: "a quoted field does not end",
    SEVERAL_LINES: "it is more than one line",
    OUTSIDE: "it lies outside of its block",
    LINE_END: "it does not end as lines of the topic do",
    QUOTING: "quotes stand where the topic has none, or are missing where it has some",
    BEHIND_QUOTE: "text stands behind a quoted field",
    NOT_UTF8: "a string is not UTF-8",
    NOT_OF_TYPE: "the text is none of the column's type",
    SPELLING: "the value is spelled in another way than it would be written",
}

ESCAPED = 1
"""A field's flag: quotes are doubled in it."""
