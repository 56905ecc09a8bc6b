"""The words that the JSON program, its kernels and its forms share.

The arena's rows are those of the Avro program (``column_operations``): leaves LONG, DOUBLE, BOOLEAN and STRING, a list
or map from ARRAY to ARRAY_END, an object as a UNION that owns its validity, OPAQUE for what has no column. Beside them
stand the tables of this module.
"""

from __future__ import annotations

from engine.formats.columns.operations import KEY_TWICE, MAX_MAP_KEYS, TOO_LARGE

# Columns of the table of objects, one row an operation of the arena's program.
O_COUNT = 0  # its members
O_INDEX = 1  # the object's own number
O_TABLE = 2  # where its hash table of names begins
O_MASK = 3  # the hash table's size - 1
OBJECT_WIDTH = 4

# Columns of the table of members.
M_NAME = 0  # where its name begins in the pool
M_LENGTH = 1
M_STEP = 2  # the operation of its value
M_TRAITS = 3  # what a plain spelling of its name denies
M_OBJECT = 4
MEMBER_WIDTH = 5

# What a record's parse leaves, in words, beside the sizes of the tables.
R_YES = 0  # traits that its spelling has
R_NO = 1  # traits that its spelling has not
R_TRACE = 2  # events in the trace
R_FORM = 3  # the form tried first
R_STOP = 4  # why the kernel returned
R_CLOCK = 5  # objects opened so far
R_OBJECTS = 6  # of the program
R_MEMBERS = 7  # of the program
R_FORMS = 8  # that there are
REPORT_WIDTH = 9

# R_STOP
STOP_NO_ROOM, STOP_NO_FORM = 1, 2

# An open object or list on the stack.
F_STEP, F_ENTRY, F_PREVIOUS, F_STAMP = range(4)
FRAME_WIDTH = 4

# Longer traces have no form: their records keep their bytes.
MAX_TRACE = 1 << 17
# Member names with escapes are compared unescaped; a longer one is no member's.
MAX_NAME_BYTES = 1 << 12

# Traits of a spelling, bits. A record's text shows some (yes), denies some (no) and is silent about the others.
SPACE_AFTER_COMMA = 1 << 0
SPACE_AFTER_COLON = 1 << 1
FINAL_NEWLINE = 1 << 2
ASCII_ONLY = 1 << 3
ESCAPED_DELETE = 1 << 4
ESCAPED_SLASH = 1 << 5
ESCAPED_HTML = 1 << 6
ESCAPED_QUOTES = 1 << 7
ESCAPED_LINE_SEPARATORS = 1 << 8
LONG_CONTROLS = 1 << 9
UPPER_HEX = 1 << 10
POINT_ZERO = 1 << 11
EXPONENT_FROM_7 = 1 << 12
EXPONENT_FROM_16 = 1 << 13
EXPONENT_FROM_21 = 1 << 14
EXPONENT_AT_MINUS_4 = 1 << 15
EXPONENT_AT_MINUS_5 = 1 << 16
EXPONENT_FROM_MINUS_7 = 1 << 17
UPPER_EXPONENT = 1 << 18
EXPONENT_PLUS = 1 << 19
EXPONENT_TWO_DIGITS = 1 << 20
EXPONENT_POINT_ZERO = 1 << 21
EXPONENT_AT_MINUS_6 = 1 << 22
ESCAPED_PAIRS = 1 << 23

# Classes of a byte in a string, above the traits: what is UTF-8 of several bytes, what ends a plain run.
NOT_ASCII = 1 << 29
ENDS_RUN = 1 << 30
ALWAYS_ESCAPED = 1 << 31

# What can be wrong with a record, beside what any format may find (column_operations).
ENDS_EARLY = 1
NOT_JSON = 2
TOO_DEEP = 7
NOT_UTF8 = 9
MORE_BEHIND = 10
NO_COLUMN = 80
NO_MEMBER = 81
OTHER_TYPE = 82
NUMBER_RANGE = 83
NOT_INTEGER = 84
LONE_SURROGATE = 85
MEMBER_TWICE = 86
NULL_VALUE = 87
FIRST_SPELLING = 96
ODD_SPACE = 96
ODD_ESCAPE = 97
ODD_NUMBER = 98
BYTE_ORDER_MARK = 99
NO_FORM = 100
MIXED_SPELLING = 101

MAX_DEPTH = 1024

ISSUE_TEXT = {
    ENDS_EARLY: "the value ends inside",
    NOT_JSON: "the value is not JSON",
    TOO_DEEP: f"the value nests deeper than {MAX_DEPTH} levels",
    TOO_LARGE: "the value unfolds beyond the memory set for one block",
    NOT_UTF8: "a string is not UTF-8",
    MORE_BEHIND: "something follows the value",
    KEY_TWICE: f"a map has a key twice, or more than {MAX_MAP_KEYS} keys",
    NO_COLUMN: "no column holds the member",
    NO_MEMBER: "a member is none of the schema's",
    OTHER_TYPE: "the value is of another type than its column",
    NUMBER_RANGE: "a number passes the range of its column",
    NOT_INTEGER: "a number is not spelled as an integer",
    LONE_SURROGATE: "a string has half of a surrogate pair",
    MEMBER_TWICE: "an object has a member twice",
    NULL_VALUE: "the whole value is null",
    ODD_SPACE: "white space is where no form has it",
    ODD_ESCAPE: "a character is escaped as no form does",
    ODD_NUMBER: "a number is spelled as no form does",
    BYTE_ORDER_MARK: "the value begins with a byte order mark",
    NO_FORM: "the order of its members, or what is null and what is left out, fits no form",
    MIXED_SPELLING: "it spells the same thing in two ways",
}
"""The reason for each issue. From FIRST_SPELLING on the columns hold all of the value, and only its bytes differ."""
