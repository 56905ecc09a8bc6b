"""The words that the Protobuf program and its kernels share: operations, kinds of values, columns of rows, issues.

A program is a table of one row an operation, int64[m, ROW_WIDTH]. Its first nine columns are those that the arena and
the binding know (``column_operations``); VALID, VALUES, DATA and DATA_SIZE are set as the arena is laid out.
"""

from __future__ import annotations

from engine.formats.columns import operations as shared

OPERATION = shared.OPERATION
VALUES, VALID, DATA, DATA_SIZE = shared.VALUES, shared.VALID, shared.DATA, shared.DATA_SIZE
PARAMETER = shared.PARAMETER  # of an enum: where its table begins · of the end of a message: where its fields do
TARGET = shared.TARGET  # behind the operation and all that lies in it · of the end of a message: the message's row
LEVEL = shared.LEVEL  # of a list: the level of its elements · of the end of a message: how many fields it has
SLOT = shared.SLOT
NUMBER = 9  # the field's, PAST_ALL_NUMBERS at the end of a message
TAG = 10  # as the schema wants it written, -1 at the end of a message
TAG_BYTES = 11  # the tag as a varint, in the highest bytes of the word
TAG_LENGTH = 12
KIND = 13
PRESENCE = 14
ONEOF = 15  # the next operation of the same oneof, in a ring; -1 where there is none
STORE = 16  # how the column holds the value
CLOSING = 17  # of a message, or a list of them: the row of its end
FLAGS = 18
ROW_WIDTH = 19

PAST_ALL_NUMBERS = 1 << 40
MAX_MAP_KEYS = shared.MAX_MAP_KEYS

# Operations. None may have the number of column_operations.ARRAY or ARRAY_END: to the arena those are lists of its own.
LEAF, MESSAGE, LEAVES, MESSAGES, ELEMENT, NANOS, OPAQUE, END = range(8)

# Kinds of a leaf: how it is written.
INT32, INT64, UINT32, UINT64, SINT32, SINT64, BOOL, ENUM = range(8)
LAST_VARINT = ENUM
FIXED32, SFIXED32, FLOAT, FIXED64, SFIXED64, DOUBLE = range(8, 14)
LAST_NUMBER = DOUBLE
STRING, BYTES, TIMESTAMP, DURATION, EMPTY = range(14, 19)

# How a leaf's column holds it.
STORE_INT, STORE_LONG, STORE_DECIMAL, STORE_BOOLEAN, STORE_BYTES, STORE_DOUBLE_OF_FLOAT = range(6)

# PRESENCE: null where it is absent; zero where it is absent, and never written as zero; always written.
EXPLICIT, IMPLICIT, ALWAYS = range(3)

# FLAGS
IS_MAP = 1
CLOSED_ENUM = 2
HAS_NANOS = 4  # the row behind a timestamp is the column of what is below its microseconds
MAP_KEY = 8

# Wire types.
WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_32 = range(6)

# Groups that no field of the schema has nest as deep as protobuf's own readers let them.
MAX_GROUP_DEPTH = 100

# Words of an enum's table: how many numbers, the least one, whether there are no gaps between them, where their symbols
# begin in the pool, the number of an absent value; then the numbers, rising.
E_COUNT, E_LEAST, E_DENSE, E_POOL, E_DEFAULT, E_NUMBERS = range(6)

# The text of a number that an enum has no symbol for.
LONGEST_NUMBER_TEXT = 11

# What can be wrong with a record. Below FIRST_KEPT it has no typed columns; from there on only its bytes differ.
ENDS_EARLY, LONG_VARINT, BAD_TAG, GROUP_DEPTH, KEY_NOT_UTF8, TOO_LARGE = 1, 2, 3, 4, 5, shared.TOO_LARGE
FIRST_KEPT = shared.FIRST_KEPT
NOT_MINIMAL, UNKNOWN_FIELD, NO_COLUMN, OUT_OF_ORDER, DEFAULT_WRITTEN, NOT_AS_DECLARED, SEVERAL_CHUNKS = range(64, 71)
NOT_UTF8, NUMBER_RANGE, ONEOF_TWICE, MAP_ENTRY, KEY_TWICE, MAP_IN_PIECES, TIME_FORM, TIME_RANGE = range(71, 79)
BELOW_MICROSECOND, CLOSED_UNKNOWN, EMPTY_WITH_FIELDS = range(79, 82)

ISSUE_TEXT = {
    ENDS_EARLY: "the value ends inside",
    LONG_VARINT: "a number is longer than 10 bytes",
    BAD_TAG: "a tag has no field number or no wire type that exists",
    GROUP_DEPTH: f"groups nest deeper than {MAX_GROUP_DEPTH} levels",
    KEY_NOT_UTF8: "a map's key is not UTF-8",
    TOO_LARGE: "the value unfolds beyond the memory set for one block",
    NOT_MINIMAL: "a number is longer than it needs to be",
    UNKNOWN_FIELD: "a field is none of the schema's",
    NO_COLUMN: "no column holds the field",
    OUT_OF_ORDER: "fields come twice, or not in the order of their numbers",
    DEFAULT_WRITTEN: "a field is written although it has its default",
    NOT_AS_DECLARED: "a list is packed where the schema has it apart, or apart where the schema has it packed",
    SEVERAL_CHUNKS: "a packed list is empty or in several pieces",
    NOT_UTF8: "a string is not UTF-8",
    NUMBER_RANGE: "a number passes the range of its type",
    ONEOF_TWICE: "more than one field of a oneof is set",
    MAP_ENTRY: "a map's entry lacks its key or its value, or has them the wrong way round",
    KEY_TWICE: f"a map has a key twice, or more than {MAX_MAP_KEYS} keys",
    MAP_IN_PIECES: "a map's entries are not together",
    TIME_FORM: "a timestamp or duration is not in its normal form",
    TIME_RANGE: "a timestamp or duration passes the range of its column",
    BELOW_MICROSECOND: "a timestamp goes below the microsecond, and there is no column for that",
    CLOSED_UNKNOWN: "a closed enum has no symbol for a number",
    EMPTY_WITH_FIELDS: "a message without fields has some",
}
