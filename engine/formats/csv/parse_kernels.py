"""The kernels that read the fields of one CSV column, a row after the other."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.csv import operations as op
from engine.formats.csv.dialect import CsvKind
from engine.formats.csv.format_kernels import DOUBLE_ROOM
from engine.formats.csv.number_kernels import BAD, EXACT, read_boolean, read_decimal, read_double, read_whole_number
from engine.formats.csv.time_kernels import read_date, read_time
from engine.kernels.bits import bits_of_double
from engine.kernels.memory import copy_text
from engine.kernels.types import read_only, writable
from engine.kernels.utf8 import is_utf8

_QUOTE, _SPACE = 0x22, 0x20

_STRING, _INT, _LONG, _DOUBLE = int(CsvKind.STRING), int(CsvKind.INT), int(CsvKind.LONG), int(CsvKind.DOUBLE)
_BOOLEAN, _DECIMAL, _DATE = int(CsvKind.BOOLEAN), int(CsvKind.DECIMAL), int(CsvKind.DATE)
_TIMESTAMPTZ = int(CsvKind.TIMESTAMPTZ)

_TAKE = types.int64(
    read_only(types.uint8),
    read_only(types.int64),
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    writable(types.int32),
    writable(types.uint8),
    writable(types.uint8),
    writable(types.int32),
)


@njit(_TAKE, nogil=True, cache=True)
def take_texts(data, start, length, flags, column, offsets, out, valid, issue):
    """Copy a string column's fields behind each other, doubled quotes made single: how many bytes. ``out`` has SLACK
    bytes behind the sum of the lengths; ``start`` and ``length`` lie in ``data``."""
    base = data.ctypes.data
    to = out.ctypes.data
    used = np.int64(0)
    for row in range(start.shape[0]):
        offsets[row] = used
        size = np.int64(length[row])
        valid[row] = size >= 0
        if size < 0:
            continue
        begin = start[row]
        if flags[row] & op.ESCAPED:
            at = begin
            written = used
            while at < begin + size:
                out[written] = data[at]
                written += 1
                at += 2 if data[at] == _QUOTE else 1
            size = written - used
            not_ascii = True
        else:
            not_ascii = copy_text(to + used, base + begin, size, data.shape[0] - begin)
        if not_ascii and not is_utf8(to + used, to + used + size):
            valid[row] = 0
            if issue[row] == 0:
                issue[row] = np.int32(op.NOT_UTF8 | (column << op.CODE_BITS))
            continue
        used += size
    offsets[start.shape[0]] = used
    return used


_READ = types.void(
    types.int64,
    types.int64,
    types.int64,
    types.int64,
    read_only(types.uint8),
    read_only(types.int64),
    read_only(types.int32),
    read_only(types.uint8),
    types.int64,
    writable(types.uint64),
    writable(types.uint64),
    writable(types.uint8),
    writable(types.int32),
)


@njit(_READ, nogil=True, cache=True)
def read_fields(kind, digits, fraction, separator, data, start, length, flags, column, low, high, valid, issue):
    """Read a column that is no string: each value's bits to ``low``, a decimal's upper ones to ``high``."""
    scratch = np.empty(DOUBLE_ROOM, np.uint8)
    for row in range(start.shape[0]):
        valid[row] = 0
        low[row] = 0
        high[row] = 0
        size = np.int64(length[row])
        if size < 0:
            continue
        at = start[row]
        end = at + size
        trimmed = False
        while at < end and data[at] == _SPACE:
            at += 1
            trimmed = True
        while end > at and data[end - 1] == _SPACE:
            end -= 1
            trimmed = True
        state = BAD
        if at < end and not flags[row] & op.ESCAPED:
            if kind in (_INT, _LONG):
                state, number = read_whole_number(data, at, end)
                if kind == _INT and (number > 2**31 - 1 or number < -(2**31)):
                    state = BAD
                low[row] = np.uint64(number)
            elif kind == _DECIMAL:
                state, low[row], high[row] = read_decimal(data, at, end, digits, fraction)
            elif kind == _DOUBLE:
                state, value = read_double(data, at, end, scratch)
                low[row] = bits_of_double(value)
            elif kind == _BOOLEAN:
                state, number = read_boolean(data, at, end)
                low[row] = np.uint64(number)
            elif kind == _DATE:
                is_date, number = read_date(data, at, end)
                state = EXACT if is_date and end - at == 10 else BAD
                low[row] = np.uint64(number)
            else:
                state, number = read_time(data, at, end, separator, fraction, kind == _TIMESTAMPTZ)
                low[row] = np.uint64(number)
        valid[row] = state != BAD
        if (state != EXACT or trimmed) and issue[row] == 0:
            code = op.NOT_OF_TYPE if state == BAD else op.SPELLING
            issue[row] = np.int32(code | (column << op.CODE_BITS))
