"""The words that the Avro program and its kernels share: operations, the columns of their tables, issues.

A program is a table of one row an operation, int64[m, ROW_WIDTH]. Leaves have the codes of ``avro_mapping.Kind``; the
others follow here. Plain integers, since kernels read them as compile-time constants.
"""

from __future__ import annotations

LONG, INT, DOUBLE, FLOAT, BOOLEAN, STRING, BYTES, ENUM, FIXED = range(9)
TIMESTAMP_MILLIS, TIME_MILLIS, TIME_MICROS, DECIMAL_BYTES, DECIMAL_FIXED, UUID_TEXT = range(9, 15)
LAST_LEAF = UUID_TEXT
UNION, ARRAY, ARRAY_END, OPAQUE, END = range(15, 20)

# Columns of a program's row.
OPERATION = 0
VALUES = 1  # decode: where the column's values, or its offsets, begin in the arena, in bytes
VALID = 2  # decode: where its validity bytes begin, -1 where it can't be null on its own
DATA = 3  # decode: where the bytes of its strings begin
DATA_SIZE = 4  # decode: how many bytes there is room for
PARAMETER = 5  # null branch's index · symbols of an enum · bytes in the schema's type · an opaque type's constant
TARGET = 6  # where to go on after a null, or after an empty list · first element's operation · digits of a decimal
LEVEL = 7  # of a list: the level of its elements
SLOT = 8  # encode: the row of the slot table
ROW_WIDTH = 9

# A long with this parameter is an int in a column that was promoted, a double with it a float.
NARROW = 4
# A string operation with this parameter is a map's key, which can't be null.
MAP_KEY = 1
# The end of a list with this parameter is a map's end; some readers refuse a whole table for one map with a key twice.
IS_MAP = 1
MAX_MAP_KEYS = 65536

# Columns of a slot's row (encode): addresses, and the sizes that every access is checked against.
S_VALUES = 0
S_OFFSETS = 1
S_DATA = 2
S_DATA_SIZE = 3
S_VALIDITY = 4  # 0 where nothing is null
S_BIT_OFFSET = 5
S_INDICES = 6  # int32 indices of a dictionary-encoded string column, 0 for a plain one
S_ENTRY_COUNT = 7  # entries behind offsets: of the dictionary where there is one
S_CHILD_COUNT = 8  # of a list: elements behind it
S_VALUE_BITS = 9  # of a boolean: bit offset of its values
SLOT_WIDTH = 10

# Operations of the table that skips what has no column, int64[k, 3]: operation, parameter, parameter.
SKIP_NOTHING, SKIP_FIXED, SKIP_VARINT, SKIP_STRING, SKIP_RECORD, SKIP_UNION, SKIP_ARRAY, SKIP_MAP = range(8)

# How deep skipping descends: only recursive data gets this far.
MAX_SKIP_DEPTH = 1024

# What can be wrong with a record. Below FIRST_KEPT it has no typed columns; from there on only its bytes differ.
ENDS_EARLY, INT_TOO_WIDE, NO_SYMBOL, NO_BRANCH, NEGATIVE_LENGTH, KEY_NOT_UTF8, TOO_DEEP, TOO_LARGE = range(1, 9)
FIRST_KEPT = 64
NOT_MINIMAL, SEVERAL_BLOCKS, NOT_BOOLEAN, NOT_UTF8, TIMESTAMP_RANGE, TIME_RANGE = range(64, 70)
DECIMAL_NOT_MINIMAL, DECIMAL_RANGE, UUID_FORM, LEFT_OVER, NO_COLUMN, KEY_TWICE = range(70, 76)

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
