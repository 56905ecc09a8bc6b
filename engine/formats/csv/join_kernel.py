"""The kernel that joins the texts of a row's fields to a CSV line, quoted and ended as the dialect wants."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.csv.dialect import CsvLineEnd
from engine.kernels.memory import SHORT, copy_short, load_u8
from engine.kernels.types import read_only, writable

_QUOTE, _LF, _CR = 0x22, 0x0A, 0x0D
_END_NONE, _END_CRLF = int(CsvLineEnd.NONE), int(CsvLineEnd.CRLF)

JOIN_SLACK = SHORT
"""Bytes behind the last line that a copy may touch."""

_JOIN = types.int64(
    read_only(types.int64),
    read_only(types.int64),
    read_only(types.uint8),
    read_only(types.uint8),
    read_only(types.int64),
    read_only(types.int32),
    types.int64,
    types.boolean,
    types.int64,
    read_only(types.uint8),
    writable(types.uint8),
    writable(types.int64),
)


@njit(nogil=True, cache=True)
def _needs_quotes(address, size, delimiter):
    if size == 0:
        return True
    for index in range(size):
        byte = load_u8(address + index)
        if byte in (delimiter, _QUOTE, _LF, _CR):
            return True
    return False


@njit(nogil=True, cache=True)
def _is_plain(address, size, delimiter):
    """Whether a text can stand without quoting, where quotes are letters like others."""
    for index in range(size):
        byte = load_u8(address + index)
        if byte in (delimiter, _LF, _CR):
            return False
    return size > 0


@njit(_JOIN, nogil=True, cache=True)
def join_lines(address, room, is_text, is_quoted, start, length, delimiter, has_quotes, line_end, wanted, out, ends):
    """Write the lines of the wanted rows: the first row that no line can say, or -1.

    Column ``c`` has its texts at ``address[c]``, in ``room[c]`` bytes; field ``c * n + row`` of ``start`` and
    ``length``, which lie in that room. ``is_text`` where quotes may be needed, ``is_quoted`` where
    they always stand. ``ends[row + 1]`` is where a row ends.
    """
    count = wanted.shape[0]
    to = out.ctypes.data
    at = np.int64(0)
    ends[0] = 0
    for row in range(count):
        if not wanted[row]:
            ends[row + 1] = at
            continue
        for column in range(address.shape[0]):
            if column > 0:
                out[at] = delimiter
                at += 1
            size = np.int64(length[column * count + row])
            if size < 0:
                continue
            begin = start[column * count + row]
            source = address[column] + begin
            needs = is_text[column] and _needs_quotes(source, size, delimiter)
            if needs and not has_quotes and not _is_plain(source, size, delimiter):
                return np.int64(row)
            if not has_quotes or not (needs or is_quoted[column]):
                copy_short(to + at, source, size, room[column] - begin)
                at += size
                continue
            out[at] = _QUOTE
            at += 1
            if needs:
                for index in range(size):
                    byte = load_u8(source + index)
                    out[at] = byte
                    at += 1
                    if byte == _QUOTE:
                        out[at] = _QUOTE
                        at += 1
            else:
                copy_short(to + at, source, size, room[column] - begin)
                at += size
            out[at] = _QUOTE
            at += 1
        if line_end != _END_NONE:
            if line_end == _END_CRLF:
                out[at] = _CR
                at += 1
            out[at] = _LF
            at += 1
        ends[row + 1] = at
    return np.int64(-1)
