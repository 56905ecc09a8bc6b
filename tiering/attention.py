"""Which partitions the next cycle looks at: those that were woken, and those whose time has come."""

from __future__ import annotations

import heapq

from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionState
from tiering.planner import Waiting, WaitingReason

_NOTHING_TO_DO = frozenset(
    {
        Waiting.NOTHING_NEW,
        Waiting.NOTHING_CLOSED,
        Waiting.FRESHNESS,
        Waiting.FORMAT,
        Waiting.LEADER_ELSEWHERE,
        Waiting.UNKNOWN_TOPIC,
    }
)
"""Reasons that only something new ends: a record, a segment, another leader, a time that is known."""


class Attention:
    """For the loop's thread. What a cycle takes is taken again by the next one, unless ``rest`` was called for it: a
    cycle that breaks off loses nothing."""

    def __init__(self) -> None:
        self._awake: set[TopicIdPartition] = set()
        self._due_ms: dict[TopicIdPartition, int] = {}
        self._queue: list[tuple[int, TopicIdPartition]] = []

    def wake(self, who: TopicIdPartition) -> None:
        """Attend a partition in the next cycle that takes."""
        self._awake.add(who)

    def wake_at(self, who: TopicIdPartition, due_ms: int) -> None:
        """Attend it at ``due_ms`` (monotonic), or earlier where that was asked for."""
        known_ms = self._due_ms.get(who)
        if known_ms is None or due_ms < known_ms:
            self._due_ms[who] = due_ms
            heapq.heappush(self._queue, (due_ms, who))

    def take(self, now_ms: int) -> list[TopicIdPartition]:
        """What is to be attended now, in order."""
        while self._queue and self._queue[0][0] <= now_ms:
            due_ms, who = heapq.heappop(self._queue)
            if self._due_ms.get(who) == due_ms:
                del self._due_ms[who]
                self._awake.add(who)
        return sorted(self._awake)

    def rest(self, who: TopicIdPartition) -> None:
        """It was attended, and nothing is left to do."""
        self._awake.discard(who)

    def forget(self, who: TopicIdPartition) -> None:
        """A partition that is gone."""
        self._awake.discard(who)
        self._due_ms.pop(who, None)


def may_rest(state: PartitionState, waiting: WaitingReason | None, *, has_problem: bool) -> bool:
    """Whether a partition for which nothing was planned need not be attended again before something changes.

    ``waiting``: what the plan said of it.
    """
    return (
        state.failure is None
        and not has_problem
        and not state.spooled
        and waiting is not None
        and waiting.kind in _NOTHING_TO_DO
    )
