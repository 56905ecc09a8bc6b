"""Finds where an Avro value ends without reading it: for fields that no column can hold, recursive ones included."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.formats.avro_leaf_kernels import BAD, read_length, read_number
from engine.formats.avro_operations import (
    ENDS_EARLY,
    MAX_SKIP_DEPTH,
    NO_BRANCH,
    SKIP_ARRAY,
    SKIP_MAP,
    SKIP_NOTHING,
    SKIP_RECORD,
    SKIP_STRING,
    SKIP_UNION,
    SKIP_VARINT,
    TOO_DEEP,
)


@njit(nogil=True, cache=True)
def skip_leaf(data, at, end, operation, size):  # type: ignore[no-untyped-def]
    """Behind a value without parts: (position or BAD, issue)."""
    if operation == SKIP_VARINT:
        _, at, issue = read_number(data, at, end)
        return at, issue
    if operation == SKIP_STRING:
        size, at, issue = read_length(data, at, end)
        if at < 0:
            return at, issue
    if size > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    return at + size, np.int64(0)


@njit(nogil=True, cache=True)
def next_item(data, at, end, is_map, has_bytes, left):  # type: ignore[no-untyped-def]
    """Before a list's next item: (items left behind it, -1 at the list's end; position or BAD; issue).

    A block that tells its size is passed over whole; items without bytes are not counted through; a map's key is
    passed here.
    """
    left -= 1
    issue = np.int64(0)
    while left < 0:
        count, at, issue = read_number(data, at, end)
        if at < 0:
            return left, at, issue
        if count == 0:
            return np.int64(-1), at, np.int64(0)
        if count < 0:
            size, at, issue = read_length(data, at, end)
            if at < 0:
                return left, at, issue
            at += size
        elif has_bytes:
            left = count - 1
    if is_map:
        at, issue = skip_leaf(data, at, end, SKIP_STRING, 0)
    return left, at, issue


@njit(nogil=True, cache=True)
def skip_value(data, at, end, skips, children, root, stack):  # type: ignore[no-untyped-def]
    """The position behind a value of any Avro type: (position or BAD, issue).

    ``skips`` int64[k, 3], ``children`` int64[]: the table of types; ``stack`` holds two words an open type.
    """
    depth = 0
    stack[0] = root
    stack[1] = -1
    issue = np.int64(0)
    while depth >= 0:
        node = stack[2 * depth]
        left = stack[2 * depth + 1]
        operation = skips[node, 0]
        child = np.int64(-1)
        if operation == SKIP_RECORD:
            left += 1
            if left < skips[node, 2]:
                child = children[skips[node, 1] + left]
        elif operation in (SKIP_ARRAY, SKIP_MAP):
            is_map = operation == SKIP_MAP
            left, at, issue = next_item(data, at, end, is_map, is_map or skips[node, 2] == 0, left)
            if left >= 0:
                child = skips[node, 1]
        elif operation == SKIP_UNION:
            branch, at, issue = read_number(data, at, end)
            if at >= 0 and (branch < 0 or branch >= skips[node, 2]):
                return np.int64(BAD), np.int64(NO_BRANCH)
            if at >= 0:
                stack[2 * depth] = children[skips[node, 1] + branch]
                stack[2 * depth + 1] = -1
                continue
        elif operation != SKIP_NOTHING:
            at, issue = skip_leaf(data, at, end, operation, skips[node, 1])
        if at < 0:
            return at, issue
        if child < 0:
            depth -= 1
            continue
        stack[2 * depth + 1] = left
        depth += 1
        if depth >= MAX_SKIP_DEPTH:
            return np.int64(BAD), np.int64(TOO_DEEP)
        stack[2 * depth] = child
        stack[2 * depth + 1] = -1
    return at, np.int64(0)
