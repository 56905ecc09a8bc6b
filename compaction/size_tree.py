"""Adjacent sizes as a tree: each node the largest of its span, its children the largest left and right of it.

A Cartesian tree (Vuillemin, 1980), built in one pass. The spans in which nothing is larger than one of their own are
its nodes: there are as many as sizes, so all runs that a merge could take are looked at in linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

NOTHING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTree:
    """By node, which is an index: ``left`` and ``right`` its children or NOTHING, ``start`` and ``end`` its span,
    ``total`` the bytes in that. ``order``: parents before their children, the root first."""

    left: Sequence[int]
    right: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    total: Sequence[int]
    order: Sequence[int]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> SizeTree:
        """``sizes``: at least one."""
        left, right, root = _children(sizes)
        start, end, order = [0] * len(sizes), [len(sizes)] * len(sizes), []
        waiting = [root]
        while waiting:
            node = waiting.pop()
            order.append(node)
            child = left[node]
            if child != NOTHING:
                start[child], end[child] = start[node], node
                waiting.append(child)
            child = right[node]
            if child != NOTHING:
                start[child], end[child] = node + 1, end[node]
                waiting.append(child)
        before = list(accumulate(sizes, initial=0))
        total = [before[last] - before[first] for first, last in zip(start, end, strict=True)]
        return cls(left=left, right=right, start=start, end=end, total=total, order=order)

    def files(self, node: int) -> int:
        return self.end[node] - self.start[node]


def _children(sizes: Sequence[int]) -> tuple[list[int], list[int], int]:
    left, right = [NOTHING] * len(sizes), [NOTHING] * len(sizes)
    falling: list[int] = []
    for index, size in enumerate(sizes):
        smaller = NOTHING
        while falling and sizes[falling[-1]] < size:
            smaller = falling.pop()
        left[index] = smaller
        if falling:
            right[falling[-1]] = index
        falling.append(index)
    return left, right, falling[0]
