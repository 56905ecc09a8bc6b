"""Page headers and page locations in Thrift's compact protocol, all of a column chunk at once.

Source: the Parquet format's parquet.thrift (PageHeader, OffsetIndex) and the Thrift compact protocol specification. A
field's header byte is the distance to the field before it, and the type: 5 an int of 32 bits, 6 of 64, 12 a struct.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernel_types import read_only, writable
from engine.table.page_bit_packing import put_varint, put_zigzag

LARGEST_HEADER = 48
LARGEST_LOCATION = 32
"""Bytes that one page takes at most: all its numbers at their longest."""

DICTIONARY_PAGE = -1
"""Stands where a data page has its encoding."""

_NEXT_I32 = 0x15
_NEXT_I64 = 0x16
_DATA_PAGE_HEADER = 0x1C
_DICTIONARY_PAGE_HEADER = 0x3C
_LIST_IN_FIELD_1 = 0x19
_STRUCT = 12
_STOP = 0
_RLE = 3

_COLUMN = read_only(types.int64)
_HEADERS = types.void(_COLUMN, _COLUMN, _COLUMN, _COLUMN, _COLUMN, writable(types.uint8), writable(types.int64))


@njit(nogil=True)
def _put_field(out, at, kind, value):
    out[at] = kind
    return put_zigzag(out, at + 1, np.int64(value))


@njit(_HEADERS, nogil=True, cache=True)
def page_headers(size, stored_size, crc32, value_count, encoding, out, header_at):
    """PageHeader of each page: ``header_at`` int64[pages + 1]. Levels, where a page has them, are RLE."""
    at = np.int64(0)
    for page in range(size.shape[0]):
        header_at[page] = at
        is_dictionary = encoding[page] == DICTIONARY_PAGE
        at = _put_field(out, at, _NEXT_I32, 2 if is_dictionary else 0)
        at = _put_field(out, at, _NEXT_I32, size[page])
        at = _put_field(out, at, _NEXT_I32, stored_size[page])
        at = _put_field(out, at, _NEXT_I32, np.int32(crc32[page]))
        out[at] = _DICTIONARY_PAGE_HEADER if is_dictionary else _DATA_PAGE_HEADER
        at = _put_field(out, at + 1, _NEXT_I32, value_count[page])
        at = _put_field(out, at, _NEXT_I32, 0 if is_dictionary else encoding[page])
        if not is_dictionary:
            at = _put_field(out, at, _NEXT_I32, _RLE)
            at = _put_field(out, at, _NEXT_I32, _RLE)
        out[at], out[at + 1] = _STOP, _STOP
        at += 2
    header_at[size.shape[0]] = at


@njit(types.int64(_COLUMN, _COLUMN, types.int64, writable(types.uint8)), nogil=True, cache=True)
def offset_index(position, size, page_rows, out):
    """OffsetIndex of pages of ``page_rows`` rows each; how many bytes it takes."""
    count = position.shape[0]
    out[0] = _LIST_IN_FIELD_1
    at = np.int64(2)
    if count < 15:
        out[1] = np.uint8(count << 4 | _STRUCT)
    else:
        out[1] = 0xF0 | _STRUCT
        at = put_varint(out, at, count)
    for page in range(count):
        at = _put_field(out, at, _NEXT_I64, position[page])
        at = _put_field(out, at, _NEXT_I32, size[page])
        at = _put_field(out, at, _NEXT_I64, page * page_rows)
        out[at] = _STOP
        at += 1
    out[at] = _STOP
    return at + 1
