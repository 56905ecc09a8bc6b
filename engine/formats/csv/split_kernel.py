"""The kernel that cuts CSV lines (RFC 4180) into fields, and sees where a line is not as the dialect would write it."""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.csv import operations as op
from engine.formats.csv.dialect import CsvLineEnd
from engine.kernels.types import read_only, strided, writable

_QUOTE, _LF, _CR = 0x22, 0x0A, 0x0D
_END_NONE, _END_LF, _END_CRLF = int(CsvLineEnd.NONE), int(CsvLineEnd.LF), int(CsvLineEnd.CRLF)

_SPLIT = types.void(
    read_only(types.uint8),
    strided(types.int64),
    strided(types.int32),
    types.int64,
    types.boolean,
    read_only(types.uint8),
    types.int64,
    writable(types.int64),
    writable(types.int32),
    writable(types.uint8),
    writable(types.int32),
)


@njit(nogil=True, cache=True)
def _line_without_end(data, start, end, line_end):
    """(where the line's text ends, whether the line ends as it should)."""
    has_lf = end > start and data[end - 1] == _LF
    has_crlf = has_lf and end - start > 1 and data[end - 2] == _CR
    found = _END_CRLF if has_crlf else _END_LF if has_lf else _END_NONE
    return end - found, found == line_end


@njit(nogil=True, cache=True)
def _quoted(data, at, end, delimiter):
    """A quoted field whose text begins at ``at``: (where the text ends or -1, whether quotes are doubled in it,
    whether it had to be quoted)."""
    escaped = False
    needed = False
    begin = at
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            if at + 1 < end and data[at + 1] == _QUOTE:
                escaped = True
                at += 2
                continue
            return at, escaped, needed or escaped or at == begin
        if byte in (delimiter, _LF, _CR):
            needed = True
        at += 1
    return np.int64(-1), escaped, needed


@njit(nogil=True, cache=True)
def _plain(data, at, end, delimiter):
    """A field without quotes: (where it ends, whether a quote is in it, whether a line ends in it)."""
    has_quote = False
    has_line_end = False
    while at < end:
        byte = data[at]
        if byte == delimiter:
            break
        if byte <= _QUOTE:
            has_quote |= byte == _QUOTE
            has_line_end |= byte in (_LF, _CR)
        at += 1
    return at, has_quote, has_line_end


@njit(nogil=True, cache=True)
def _field(data, at, end, delimiter, has_quotes, always):
    """(where the field ends, where its text begins, the text's length or -1 for null, its flags, what is wrong)."""
    if has_quotes and at < end and data[at] == _QUOTE:
        begin = at + 1
        stop, escaped, needed = _quoted(data, begin, end, delimiter)
        if stop < 0:
            return at, begin, np.int64(-1), np.uint8(0), op.OPEN_QUOTE
        flags = np.uint8(op.ESCAPED if escaped else 0)
        at = stop + 1
        if at == end or data[at] == delimiter:
            return at, begin, stop - begin, flags, 0 if needed or always else op.QUOTING
        at, has_quote, has_line_end = _plain(data, at, end, delimiter)
        return at, begin, np.int64(-1), flags, op.SEVERAL_LINES if has_line_end else op.BEHIND_QUOTE
    begin = at
    at, has_quote, has_line_end = _plain(data, at, end, delimiter)
    if has_line_end:
        return at, begin, np.int64(-1), np.uint8(0), op.SEVERAL_LINES
    if at == begin:
        return at, begin, np.int64(-1), np.uint8(0), 0
    return at, begin, at - begin, np.uint8(0), op.QUOTING if (has_quote and has_quotes) or always else 0


@njit(_SPLIT, nogil=True, cache=True)
def split_lines(
    data, start, length, delimiter, has_quotes, is_quoted, line_end, field_start, field_length, field_flags, issue
):
    """Fields by column: field ``column * n + row``; a length of -1 is a null one. ``issue`` int32[n], 0 without.

    ``is_quoted`` uint8[columns]: where texts that need no quotes have some.
    """
    count = start.shape[0]
    columns = is_quoted.shape[0]
    for row in range(count):
        issue[row] = 0
        for column in range(columns):
            field_length[column * count + row] = -1
        if length[row] < 0:
            continue
        at = start[row]
        end = at + np.int64(length[row])
        if at < 0 or end > data.shape[0]:
            issue[row] = op.OUTSIDE
            continue
        end, ends_well = _line_without_end(data, at, end, line_end)
        found = np.int32(0) if ends_well else np.int32(op.LINE_END)
        column = 0
        while True:
            always = column < columns and is_quoted[column] != 0
            at, begin, size, flags, problem = _field(data, at, end, delimiter, has_quotes, always)
            if problem != 0 and problem < op.FIRST_KEPT:
                found = np.int32(problem)
                break
            if column < columns:
                if found == 0 and problem != 0:
                    found = np.int32(problem | (column << op.CODE_BITS))
                field_start[column * count + row] = begin
                field_length[column * count + row] = size
                field_flags[column * count + row] = flags
            column += 1
            if at >= end:
                break
            at += 1
        if found != 0 and found & ((1 << op.CODE_BITS) - 1) < op.FIRST_KEPT:
            for column in range(columns):
                field_length[column * count + row] = -1
        elif column != columns:
            found = np.int32(op.FIELD_COUNT | (min(column, op.MOST_COUNTED) << op.CODE_BITS))
        issue[row] = found
