"""Whether the broker asks for copies of what is ready for it: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

LONGEST_COPY_WAIT_MS = 300_000
"""From here on an operator should look: ten times the pause that Kafka makes between two looks at a partition
(``remote.log.manager.task.interval.ms``, 30 s by default)."""


class NativePartition(Protocol):
    """What is looked at of a partition's status."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def copy_wait_ms(self) -> int: ...


def awaits_copy(
    *, native: bool, leads_here: bool, closed_end: int | None, committed_here: bool, safe_end: int | None
) -> bool:
    """Closed segments of this partition are in the table, and the broker has not asked for all of them.

    ``closed_end``: where the last closed segment that is in the table ends; ``safe_end``: where the last one does that
    was found safe when the broker asked this process, None before the first. What an earlier process committed the
    broker may have asked that one for: it counts only when this one has committed more (``committed_here``).
    """
    if not (native and leads_here and committed_here) or closed_end is None:
        return False
    return safe_end is None or safe_end < closed_end


def copy_wait_ms(*, waits_since_ms: int | None, last_asked_ms: int | None, now_ms: int) -> int:
    """How long the broker has asked for nothing while something waits for it; all times monotonic."""
    if waits_since_ms is None:
        return 0
    return max(0, now_ms - max(waits_since_ms, last_asked_ms or waits_since_ms))


def copy_problems(partitions: Iterable[NativePartition]) -> tuple[str, ...]:
    """One sentence a topic whose copies have waited too long."""
    late: dict[str, list[NativePartition]] = {}
    for partition in partitions:
        if partition.copy_wait_ms > LONGEST_COPY_WAIT_MS:
            late.setdefault(partition.topic, []).append(partition)
    return tuple(_problem(topic, found) for topic, found in sorted(late.items()))


def _problem(topic: str, late: Sequence[NativePartition]) -> str:
    numbers = ", ".join(str(one.partition) for one in late[:5]) + (", …" if len(late) > 5 else "")
    minutes = max(one.copy_wait_ms for one in late) // 60_000
    return (
        f"the broker has asked for no copy of {topic} for {minutes} min, though closed segments of partition {numbers}"
        " are in the table: it keeps them on its disk. Next: floeberg check says what native mode would not start for."
    )
