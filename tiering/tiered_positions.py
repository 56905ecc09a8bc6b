"""Where in their segments the ledgers end, looked up once a commit in Kafka's own index; and how much follows."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bounded_cache import BoundedCache
from engine.kafka_log.offset_index import position_before
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog

_REMEMBERED = 20_000
"""Partitions; each takes about 300 bytes."""


@dataclass(frozen=True, slots=True)
class _Found:
    base_offset: int
    tiered_end: int
    position: int


def active_bytes(log: PartitionLog) -> int:
    """The active segment's size now, as far as it can be asked for."""
    try:
        return log.segments[-1].log_path.stat().st_size if log.segments else 0
    except OSError:
        return 0


class TieredPositions:
    """For the loop's thread."""

    def __init__(self) -> None:
        self._found: BoundedCache[TopicIdPartition, _Found] = BoundedCache(capacity=_REMEMBERED)

    def of(self, partition: TopicIdPartition, log: PartitionLog | None, tiered_end: int | None) -> int:
        """``PartitionState.tiered_position``. An answer stays until ledger or segment are others: a position that was
        right once stays right."""
        segment = None if log is None or tiered_end is None else log.segment_with(tiered_end)
        if segment is None or tiered_end is None or tiered_end == segment.base_offset:
            return 0
        found = self._found.get(partition)
        if found is None or (found.base_offset, found.tiered_end) != (segment.base_offset, tiered_end):
            found = _Found(segment.base_offset, tiered_end, position_before(segment, tiered_end))
            self._found.put(partition, found)
        return found.position
