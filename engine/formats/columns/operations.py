"""The words that programs of columns and their kernels share, whichever format they decode: operations and tables.

A program is a table of one row an operation, int64[m, ROW_WIDTH]; a format may have more columns and operations of its
own. Plain integers, since kernels read them as compile-time constants.
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
ROW_BYTES = 8 * ROW_WIDTH

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
S_ENTRY_COUNT = 7  # entries of its offsets: of the dictionary where there is one
S_CHILD_COUNT = 8  # of a list: elements there are
S_VALUE_BITS = 9  # of a boolean: bit offset of its values
SLOT_WIDTH = 10
SLOT_BYTES = 8 * SLOT_WIDTH

# A record's issue has its operation's row beside it: code | row << ISSUE_BITS.
ISSUE_BITS = 8

# What any format may find wrong with a record; the other codes are the format's own. Below FIRST_KEPT a record has no
# typed columns; from there on only its bytes differ.
TOO_LARGE = 8
FIRST_KEPT = 64
KEY_TWICE = 75
