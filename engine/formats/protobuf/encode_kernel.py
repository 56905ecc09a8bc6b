"""Runs a Protobuf program from its end to its beginning: Arrow columns to the writer's own bytes.

Columns reach the kernel as the table of slots that ``avro_encode_kernel`` describes.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.columns.encoding import BAD_OFFSETS, NO_ROOM, NULL_FOUND
from engine.formats.columns.operations import S_CHILD_COUNT, S_OFFSETS, SLOT_WIDTH
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
from engine.formats.protobuf.write_kernels import ROOM, is_null, load_bits, put_bits, put_leaf, put_tag, put_varint
from engine.kernels.memory import load_i32, set_word, store_u8, word
from engine.kernels.types import read_only, writable

SLOT_BYTES = 8 * SLOT_WIDTH

# Words of an open message: where it ends, the entry around it, the first element of its list.
FRAME_WORDS = 3

_ENCODE_ROWS = types.int64(
    read_only(types.int64), types.int64, read_only(types.uint8),
    read_only(types.int64), read_only(types.int64),
    writable(types.int64), writable(types.uint8), writable(types.int64), writable(types.int64),
)  # fmt: skip


@njit(nogil=True, cache=True, forceinline=True)
def list_range(slot, entry):  # type: ignore[no-untyped-def]
    """A list's elements: (begin or a negative code, end)."""
    begin = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry))
    end = np.int64(load_i32(word(slot, S_OFFSETS) + 4 * entry + 4))
    if begin < 0 or end < begin or end > word(slot, S_CHILD_COUNT):
        return np.int64(BAD_OFFSETS), end
    if is_null(slot, entry):
        return np.int64(NULL_FOUND), end
    return begin, end


@njit(nogil=True, cache=True, forceinline=True)
def put_elements(base, at, floor, row, slot, entry):  # type: ignore[no-untyped-def]
    """A list of leaves, packed or each with its tag."""
    begin, end = list_range(slot, entry)
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


@njit(nogil=True, cache=True)
def encode_record(base, at, floor, entry, program, last, slots, stack, trouble):  # type: ignore[no-untyped-def]
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
                begin, end = list_range(slot, entry)
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
def encode_rows(rows, done, header, program, slots, stack, out, behind, trouble):  # type: ignore[no-untyped-def]
    """Encode ``rows`` before each other, the last one first; returns how many of them are done.

    ``behind`` int64[len(rows) + 1] gets each row's beginning as its distance from the end of ``out``: that of the row
    behind it comes in. ``header`` is what stands before each message. Fewer rows than asked: ``trouble`` holds the
    operation and the code, NO_ROOM for a full ``out``.
    """
    size = out.shape[0]
    base, steps, table = out.ctypes.data, program.ctypes.data, slots.ctypes.data
    frames, report = stack.ctypes.data, trouble.ctypes.data
    last = program.shape[0] * 8 // ROW_BYTES - 1
    for index in range(rows.shape[0] - 1 - done, -1, -1):
        at = encode_record(base, size - behind[index + 1], np.int64(0), rows[index], steps, last, table, frames, report)
        if at >= 0 and at - ROOM < header.shape[0]:
            at = np.int64(NO_ROOM)
        if at < 0:
            trouble[1] = at
            return rows.shape[0] - 1 - index
        at -= header.shape[0]
        for byte in range(header.shape[0]):
            store_u8(base + at + byte, header[byte])
        behind[index] = size - at
    return rows.shape[0]
