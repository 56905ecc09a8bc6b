"""Runs a Protobuf program from its end to its beginning: Arrow columns to the writer's own bytes.

Columns reach the kernel as slots.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.columns.operations import SLOT_BYTES
from engine.formats.columns.slot_kernels import NO_ROOM, NULL_FOUND, find_list, is_null
from engine.formats.columns.tables import EncodeTables, Output
from engine.formats.protobuf.column_kernels import ROW_BYTES
from engine.formats.protobuf.operations import (
    ALWAYS,
    CLOSING,
    ELEMENT,
    END,
    KIND,
    LAST_NUMBER,
    LEAF,
    MESSAGE,
    MESSAGES,
    OPERATION,
    PRESENCE,
    TAG,
    TARGET,
    WIRE_BYTES,
)
from engine.formats.protobuf.write_kernels import ROOM, load_bits, put_bits, put_leaf, put_tag, put_varint
from engine.kernels.inner import inner
from engine.kernels.memory import addresses_of, copy, set_word, word
from engine.kernels.types import tuple_of

# Words of an open message: where it ends, the entry around it, the first element of its list.
FRAME_WORDS = 3

_ENCODE_ROWS = types.int64(tuple_of(EncodeTables), tuple_of(Output), types.int64)


@inner(forceinline=True)
def put_elements(base, at, floor, row, slot, entry):
    """A list of leaves, packed or each with its tag."""
    begin, end = find_list(slot, entry)
    if begin < 0:
        return begin
    inner, inner_slot, kind = row + ROW_BYTES, slot + SLOT_BYTES, word(row + ROW_BYTES, KIND)
    is_packed = word(row, TAG) & 7 == WIRE_BYTES and kind <= LAST_NUMBER
    until = at
    for back in range(end - begin):
        element = end - 1 - back
        if at - ROOM < floor:
            return np.int64(NO_ROOM)
        if not is_packed:
            at = put_leaf(base, at, floor, inner, inner_slot, element)
        elif is_null(inner_slot, element):
            return np.int64(NULL_FOUND)
        else:
            bits, problem = load_bits(inner, inner_slot, element)
            at = put_bits(base, at, kind, bits) if problem == 0 else problem
        if at < 0:
            return at
    if at - ROOM < floor:
        return np.int64(NO_ROOM)
    if is_packed and begin != end:
        at = put_tag(base, put_varint(base, at, until - at), row)
    return at


@inner
def encode_record(base, at, floor, entry, program, last, slots, stack, trouble):
    """One record's message, ending before ``at``: the position of its first byte, or a negative code."""
    step, depth = last - 1, np.int64(0)
    while step >= 0:
        row = program + ROW_BYTES * step
        slot = slots + SLOT_BYTES * step
        operation = word(row, OPERATION)
        following = step - 1
        if at - ROOM < floor:
            at = np.int64(NO_ROOM)
        elif operation == LEAF:
            at = put_leaf(base, at, floor, row, slot, entry)
        elif operation == ELEMENT:
            at = put_elements(base, at, floor, row - ROW_BYTES, slot - SLOT_BYTES, entry)
            following = step - 2
        elif operation == END:
            step = word(row, TARGET)
            row, slot = program + ROW_BYTES * step, slots + SLOT_BYTES * step
            begin, end = np.int64(0), np.int64(0)
            if word(row, OPERATION) == MESSAGES:
                begin, end = find_list(slot, entry)
            elif not is_null(slot, entry):
                begin, end = entry, entry + 1
            elif word(row, PRESENCE) == ALWAYS:
                begin = np.int64(NULL_FOUND)
            if begin < 0:
                at = begin
            elif begin == end:
                following = step - 1
            else:
                set_word(stack, depth, at)
                set_word(stack, depth + 1, entry)
                set_word(stack, depth + 2, begin)
                depth += FRAME_WORDS
                entry = end - 1
        elif operation in (MESSAGE, MESSAGES):
            at = put_tag(base, put_varint(base, at, word(stack, depth - 3) - at), row)
            if entry > word(stack, depth - 1):
                entry -= 1
                set_word(stack, depth - 3, at)
                following = word(row, CLOSING) - 1
            else:
                depth -= FRAME_WORDS
                entry = word(stack, depth + 1)
        if at < 0:
            set_word(trouble, 0, step)
            return at
        step = following
    return at


@njit(_ENCODE_ROWS, nogil=True, cache=True)
def encode_rows(encode_tables, output, first):
    """As Avro's kernel, but from the end of the buffer: ``ends`` are the rows' beginnings as distances from there."""
    rows, data, ends, trouble = output
    tables, prefix_size = addresses_of(encode_tables), encode_tables.prefix.shape[0]
    base, size, report = data.ctypes.data, data.shape[0], trouble.ctypes.data
    last = encode_tables.program.shape[0] * 8 // ROW_BYTES - 1
    for index in range(first, rows.shape[0]):
        at = encode_record(
            base, size - ends[index], np.int64(0), rows[index], tables.program, last, tables.slots, tables.stack, report
        )
        if at >= 0 and at - ROOM < prefix_size:
            at = np.int64(NO_ROOM)
        if at < 0:
            trouble[1] = at
            return index
        at -= prefix_size
        copy(base + at, tables.prefix, prefix_size)
        ends[index + 1] = size - at
    return rows.shape[0]
