"""One order of an object's members out of what records show of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


def ordered(count: int, before: Iterable[tuple[int, int]]) -> tuple[int, ...] | None:
    """The members in an order that has each pair in its order, else the schema's; None where there is none."""
    waits_for = [0] * count
    behind: list[list[int]] = [[] for _ in range(count)]
    for first, second in before:
        behind[first].append(second)
        waits_for[second] += 1
    ready = [index for index in range(count) if waits_for[index] == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for follower in behind[index]:
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                heapq.heappush(ready, follower)
    return tuple(order) if len(order) == count else None
