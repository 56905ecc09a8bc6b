"""Finds where an Avro value ends without reading it: for fields that no column can hold, recursive ones included."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.avro.leaf_kernels import BAD, read_length, read_number
from engine.formats.avro.operations import (
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
from engine.kernels.inner import inner
from engine.kernels.memory import set_word, word


@inner
def skip_leaf(base, at, end, operation, size):
    """After a value without parts: (position or BAD, issue)."""
    if operation == SKIP_VARINT:
        _, at, issue = read_number(base, at, end)
        return at, issue
    if operation == SKIP_STRING:
        size, at, issue = read_length(base, at, end)
        if at < 0:
            return at, issue
    if size > end - at:
        return np.int64(BAD), np.int64(ENDS_EARLY)
    return at + size, np.int64(0)


@inner
def next_item(base, at, end, is_map, has_bytes, left):
    """Before a list's next item: (items left after it, -1 at the list's end; position or BAD; issue).

    A block that tells its size is passed over whole; items without bytes are not counted through; a map's key is
    passed here.
    """
    left -= 1
    issue = np.int64(0)
    while left < 0:
        count, at, issue = read_number(base, at, end)
        if at < 0:
            return left, at, issue
        if count == 0:
            return np.int64(-1), at, np.int64(0)
        if count < 0:
            size, at, issue = read_length(base, at, end)
            if at < 0:
                return left, at, issue
            at += size
        elif has_bytes:
            left = count - 1
    if is_map:
        at, issue = skip_leaf(base, at, end, SKIP_STRING, 0)
    return left, at, issue


@inner
def skip_value(base, at, end, tables, root):
    """The position after a value of any Avro type: (position or BAD, issue).

    Of the ``SchemaTables`` by their addresses, ``skips`` int64[k, 3] and ``children`` int64[] are the types, and
    ``skip_stack`` has two words an open type (it, how many of its parts are left), at most MAX_SKIP_DEPTH of them.
    """
    skips, children, stack = tables.skips, tables.children, tables.skip_stack
    depth = 0
    set_word(stack, 0, root)
    set_word(stack, 1, -1)
    issue = np.int64(0)
    while depth >= 0:
        node = word(stack, 2 * depth)
        left = word(stack, 2 * depth + 1)
        operation = word(skips, 3 * node + 0)
        child = np.int64(-1)
        if operation == SKIP_RECORD:
            left += 1
            if left < word(skips, 3 * node + 2):
                child = word(children, word(skips, 3 * node + 1) + left)
        elif operation in (SKIP_ARRAY, SKIP_MAP):
            is_map = operation == SKIP_MAP
            left, at, issue = next_item(base, at, end, is_map, is_map or word(skips, 3 * node + 2) == 0, left)
            if left >= 0:
                child = word(skips, 3 * node + 1)
        elif operation == SKIP_UNION:
            branch, at, issue = read_number(base, at, end)
            if at >= 0 and (branch < 0 or branch >= word(skips, 3 * node + 2)):
                return np.int64(BAD), np.int64(NO_BRANCH)
            if at >= 0:
                set_word(stack, 2 * depth, word(children, word(skips, 3 * node + 1) + branch))
                set_word(stack, 2 * depth + 1, -1)
                continue
        elif operation != SKIP_NOTHING:
            at, issue = skip_leaf(base, at, end, operation, word(skips, 3 * node + 1))
        if at < 0:
            return at, issue
        if child < 0:
            depth -= 1
            continue
        set_word(stack, 2 * depth + 1, left)
        depth += 1
        if depth >= MAX_SKIP_DEPTH:
            return np.int64(BAD), np.int64(TOO_DEEP)
        set_word(stack, 2 * depth, child)
        set_word(stack, 2 * depth + 1, -1)
    return at, np.int64(0)
