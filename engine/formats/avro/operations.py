"""What only Avro's program and kernels know: how they skip what has no column, and what can be wrong with a record.

Leaves have the codes of ``avro_mapping.Kind``, which are those of ``column_operations``.
"""

from __future__ import annotations

from engine.formats.columns.operations import KEY_TWICE, MAX_MAP_KEYS, TOO_LARGE

# Operations of the table that skips what has no column, int64[k, 3]: operation, parameter, parameter.
SKIP_NOTHING, SKIP_FIXED, SKIP_VARINT, SKIP_STRING, SKIP_RECORD, SKIP_UNION, SKIP_ARRAY, SKIP_MAP = range(8)

# How deep skipping descends: only recursive data gets this far.
MAX_SKIP_DEPTH = 1024

# What can be wrong with a record, beside what any format may find (column_operations).
ENDS_EARLY, INT_TOO_WIDE, NO_SYMBOL, NO_BRANCH, NEGATIVE_LENGTH, KEY_NOT_UTF8, TOO_DEEP = range(1, 8)
NOT_MINIMAL, SEVERAL_BLOCKS, NOT_BOOLEAN, NOT_UTF8, TIMESTAMP_RANGE, TIME_RANGE = range(64, 70)
DECIMAL_NOT_MINIMAL, DECIMAL_RANGE, UUID_FORM, LEFT_OVER, NO_COLUMN = range(70, 75)

ISSUE_TEXT = {
    ENDS_EARLY: "the value ends inside",
    INT_TOO_WIDE: "a number passes 32 bits",
    NO_SYMBOL: "an enum's index is out of its range",
    NO_BRANCH: "a union's branch is out of its range",
    NEGATIVE_LENGTH: "a length is negative",
    KEY_NOT_UTF8: "a map's key is not UTF-8",
    TOO_DEEP: f"the value nests deeper than {MAX_SKIP_DEPTH} levels",
    TOO_LARGE: "the value unfolds beyond the memory set for one block",
    NOT_MINIMAL: "a number is longer than it needs to be",
    SEVERAL_BLOCKS: "a list is written in several blocks or with its size",
    NOT_BOOLEAN: "a boolean is neither 0 nor 1",
    NOT_UTF8: "a string is not UTF-8",
    TIMESTAMP_RANGE: "a timestamp passes the range of microseconds",
    TIME_RANGE: "a time of day is not within a day",
    DECIMAL_NOT_MINIMAL: "a decimal is longer than it needs to be",
    DECIMAL_RANGE: "a decimal has more digits than its type",
    UUID_FORM: "a UUID is not in its canonical text form",
    LEFT_OVER: "bytes are left over behind the value",
    NO_COLUMN: "no column holds the field",
    KEY_TWICE: f"a map has a key twice, or more than {MAX_MAP_KEYS} keys",
}
