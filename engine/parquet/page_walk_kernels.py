"""The kernel that walks a column chunk from page header to page header.

Source: the Parquet format's parquet.thrift, PageHeader.
"""

# Numba types kernels by their explicit signatures; arrays inside them have no Python type.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.kernels.types import read_only
from engine.parquet.thrift_kernels import STRUCT, tokenize

START, BODY, TYPE, UNCOMPRESSED_BYTES, STORED_BYTES, HAS_CHECKSUM, VALUES, ENCODING = range(8)
"""Columns of ``walk_pages``'s table: ``START`` and ``BODY`` are bytes of the chunk; -1 is what a header lacks."""

COLUMNS = 8

DAMAGED = -1
TABLE_FULL = -2

_TAPE = 256
"""Values of one header: about 20 with statistics in it."""

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8
"""Fields of PageHeader that describe a page of their kind."""


@njit(types.int64(read_only(types.uint8), types.Array(types.int64, 2, "C")), nogil=True, cache=True)
def walk_pages(data, pages):
    """Fill a row of ``pages`` int64[n, COLUMNS] for each page of the chunk ``data``; how many there are.

    DAMAGED when the chunk is not made of whole pages, TABLE_FULL when it has more than n.
    """
    field = np.empty(_TAPE, np.int32)
    kind = np.empty(_TAPE, np.uint8)
    value, start = np.empty(_TAPE, np.int64), np.empty(_TAPE, np.int64)
    end, after = np.empty(_TAPE, np.int64), np.empty(_TAPE, np.int64)
    at = np.int64(0)
    count = np.int64(0)
    while at < data.shape[0]:
        if count == pages.shape[0]:
            return np.int64(TABLE_FULL)
        if tokenize(data, at, field, kind, value, start, end, after) < 0:
            return np.int64(DAMAGED)
        page = pages[count]
        page[:] = -1
        page[START], page[BODY], page[HAS_CHECKSUM] = at, end[0], 0
        child, last = np.int64(1), after[0]
        while child < last:
            number = field[child]
            if number == 1:
                page[TYPE] = value[child]
            elif number == 2:
                page[UNCOMPRESSED_BYTES] = value[child]
            elif number == 3:
                page[STORED_BYTES] = value[child]
            elif number == 4:
                page[HAS_CHECKSUM] = 1
            elif number in (_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2) and kind[child] == STRUCT:
                inner, inner_last = child + 1, after[child]
                while inner < inner_last:
                    if field[inner] == 1:
                        page[VALUES] = value[inner]
                    elif field[inner] == (4 if number == _DATA_PAGE_V2 else 2):
                        page[ENCODING] = value[inner]
                    inner = after[inner]
            child = after[child]
        if page[STORED_BYTES] < 0 or page[STORED_BYTES] > data.shape[0] - end[0]:
            return np.int64(DAMAGED)
        at = end[0] + page[STORED_BYTES]
        count += 1
    return count
