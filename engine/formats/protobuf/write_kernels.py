"""How one value of each leaf kind is written in Protobuf's wire format, from its end to its beginning.

Lengths stand before what they count: written backwards, each is known when its turn comes. A writer gets the position
behind its value and returns that of its first byte, or a negative code. It may write anywhere in the ROOM bytes below
that, which the caller has seen to be there; what is behind stays as it is.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.columns.operations import S_DATA, S_VALUE_BITS, S_VALUES, SLOT_WIDTH
from engine.formats.columns.slot_kernels import (
    NO_ROOM,
    NO_SYMBOL,
    NOT_REPRESENTABLE,
    NULL_FOUND,
    entry_of,
    find_text,
    is_null,
    is_set,
)
from engine.formats.protobuf.operations import (
    DURATION,
    ENUM,
    EXPLICIT,
    FIXED32,
    FLAGS,
    FLOAT,
    HAS_NANOS,
    IMPLICIT,
    INT32,
    KIND,
    LAST_NUMBER,
    LAST_VARINT,
    PRESENCE,
    ROW_WIDTH,
    SFIXED32,
    SINT32,
    SINT64,
    STORE,
    STORE_BOOLEAN,
    STORE_BYTES,
    STORE_DECIMAL,
    STORE_INT,
    STORE_LONG,
    TAG_BYTES,
    TAG_LENGTH,
    TIMESTAMP,
    UINT32,
)
from engine.formats.protobuf.time_kernels import MAX_DURATION_SECONDS, NANOS_A_SECOND, NANOS_TAG, SECONDS_TAG
from engine.kernels.floats import float_of_double
from engine.kernels.inner import inner
from engine.kernels.memory import (
    copy,
    load_i32,
    load_i64,
    load_u64,
    store_i32,
    store_i64,
    store_u8,
    store_u64,
    word,
)

# What one value may take beside the bytes of a string: a timestamp with its tag and length, or a short string's copy.
ROOM = 64
SHORT = 32


@inner(forceinline=True)
def put_varint(base, at, value):
    """An unsigned number that ends before ``at``."""
    left = np.uint64(value)
    if left < np.uint64(0x80):
        store_u8(base + at - 1, np.uint8(left))
        return at - 1
    size, rest = np.int64(1), left >> np.uint64(7)
    while rest != 0:
        size += 1
        rest >>= np.uint64(7)
    to = base + at - size
    while left >= np.uint64(0x80):
        store_u8(to, np.uint8(left | np.uint64(0x80)))
        to += 1
        left >>= np.uint64(7)
    store_u8(to, np.uint8(left))
    return at - size


@inner(forceinline=True)
def put_tag(base, at, row):
    store_u64(base + at - 8, np.uint64(word(row, TAG_BYTES)))
    return at - word(row, TAG_LENGTH)


@inner(forceinline=True)
def load_bits(row, slot, entry):
    """A number's bits out of its column, and whether its kind can have them: (bits, 0 or a negative code)."""
    kind, store, values = word(row, KIND), word(row, STORE), word(slot, S_VALUES)
    bits, fits = np.int64(0), True
    if kind == ENUM:
        entry = entry_of(slot, entry)
        if entry < 0:
            return bits, entry
        bits = load_i64(values + 8 * entry)
        return bits, np.int64(NO_SYMBOL) if bits >> 32 not in (0, -1) else np.int64(0)
    if store == STORE_LONG:
        bits = load_i64(values + 8 * entry)
        if kind in (UINT32, FIXED32):
            fits = bits >> 32 == 0
        elif kind in (INT32, SINT32, SFIXED32):
            fits = np.int64(np.int32(bits)) == bits
    elif store == STORE_INT:
        bits = np.int64(load_i32(values + 4 * entry))
    elif store == STORE_BOOLEAN:
        bits = np.int64(is_set(values, entry + word(slot, S_VALUE_BITS)))
    elif store == STORE_DECIMAL:
        bits = load_i64(values + 16 * entry)
        fits = load_i64(values + 16 * entry + 8) == 0
    else:
        bits, fits = float_of_double(load_i64(values + 8 * entry))
    return bits, np.int64(0) if fits else np.int64(NOT_REPRESENTABLE)


@inner(forceinline=True)
def put_bits(base, at, kind, bits):
    """A number's bits as its kind is written."""
    if kind <= LAST_VARINT:
        if kind in (SINT32, SINT64):
            # Zigzag: shifted by 63, a number is its sign in all bits.
            bits = (bits << 1) ^ (bits >> 63)
        return put_varint(base, at, bits)
    if kind <= FLOAT:
        store_i32(base + at - 4, np.int32(bits))
        return at - 4
    store_i64(base + at - 8, bits)
    return at - 8


@inner(forceinline=True)
def put_string(base, at, floor, row, slot, entry):
    """A string with its length and tag; nothing for an empty one that needs none."""
    begin, length = find_text(slot, entry)
    if begin < 0:
        return begin
    if length == 0 and word(row, PRESENCE) == IMPLICIT:
        return at
    if at - length - ROOM < floor:
        return np.int64(NO_ROOM)
    source = word(slot, S_DATA) + begin
    if length <= SHORT and begin + length >= SHORT:
        for word_at in range(8, SHORT + 1, 8):
            store_u64(base + at - word_at, load_u64(source + length - word_at))
    else:
        copy(base + at - length, source, length)
    return put_tag(base, put_varint(base, at - length, length), row)


@inner
def put_moment(base, at, row, seconds, nanos):
    """A Timestamp or a Duration with its length and tag."""
    end = at
    if nanos != 0:
        at = put_varint(base, at, nanos)
        at -= 1
        store_u8(base + at, np.uint8(NANOS_TAG))
    if seconds != 0:
        at = put_varint(base, at, seconds)
        at -= 1
        store_u8(base + at, np.uint8(SECONDS_TAG))
    return put_tag(base, put_varint(base, at, end - at), row)


@inner
def put_timestamp(base, at, row, slot, entry):
    micros = load_i64(word(slot, S_VALUES) + 8 * entry)
    below = np.int64(0)
    if word(row, FLAGS) & HAS_NANOS:
        behind = slot + 8 * SLOT_WIDTH
        if not is_null(behind, entry):
            below, problem = load_bits(row + 8 * ROW_WIDTH, behind, entry)
            if problem < 0 or below <= 0 or below > 999:
                return np.int64(NOT_REPRESENTABLE)
    seconds = micros // 1_000_000
    return put_moment(base, at, row, seconds, (micros - seconds * 1_000_000) * 1000 + below)


@inner
def put_duration(base, at, row, slot, entry):
    """128 bits of nanoseconds as seconds and nanoseconds of one sign."""
    low = np.uint64(load_i64(word(slot, S_VALUES) + 16 * entry))
    high = np.uint64(load_i64(word(slot, S_VALUES) + 16 * entry + 8))
    is_negative = high >> np.uint64(63) != 0
    if is_negative:
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    # Long division in base 2**32: the divisor has fewer than 32 bits, so each step's remainder leaves room for a digit.
    divisor = np.uint64(NANOS_A_SECOND)
    if high >= divisor:
        return np.int64(NOT_REPRESENTABLE)
    upper = (high << np.uint64(32)) | (low >> np.uint64(32))
    lower = ((upper % divisor) << np.uint64(32)) | (low & np.uint64(0xFFFFFFFF))
    upper //= divisor
    if upper >> np.uint64(31) != 0:
        return np.int64(NOT_REPRESENTABLE)
    seconds = np.int64((upper << np.uint64(32)) | (lower // divisor))
    if seconds > MAX_DURATION_SECONDS:
        return np.int64(NOT_REPRESENTABLE)
    nanos = np.int64(lower % divisor)
    return put_moment(base, at, row, -seconds if is_negative else seconds, -nanos if is_negative else nanos)


@inner(forceinline=True)
def put_leaf(base, at, floor, row, slot, entry):
    """One field with its tag; nothing where it is absent, or has a default that is not written."""
    if is_null(slot, entry):
        return at if word(row, PRESENCE) == EXPLICIT else np.int64(NULL_FOUND)
    kind = word(row, KIND)
    if kind <= LAST_NUMBER:
        bits, problem = load_bits(row, slot, entry)
        if problem < 0:
            return problem
        if bits == 0 and word(row, PRESENCE) == IMPLICIT:
            return at
        return put_tag(base, put_bits(base, at, kind, bits), row)
    if word(row, STORE) == STORE_BYTES:
        return put_string(base, at, floor, row, slot, entry)
    if kind == TIMESTAMP:
        return put_timestamp(base, at, row, slot, entry)
    if kind == DURATION:
        return put_duration(base, at, row, slot, entry)
    # A message without fields: only its being there can be told.
    if not is_set(word(slot, S_VALUES), entry + word(slot, S_VALUE_BITS)):
        return np.int64(NOT_REPRESENTABLE)
    store_u8(base + at - 1, np.uint8(0))
    return put_tag(base, at - 1, row)
