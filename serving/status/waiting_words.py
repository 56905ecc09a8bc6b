"""What a partition waits for, in words that are true when they are read."""

from __future__ import annotations

from serving.status.page import duration_text, size_text
from topics.partition_status import PartitionStatus


def waiting_words(partition: PartitionStatus, *, now_ms: int) -> str | None:
    """As the last cycle found it; of a segment that is still open how full it is, and when Kafka closes it."""
    if not partition.open_bytes or partition.waiting is None:
        return partition.waiting
    limit = "" if partition.open_limit_bytes is None else f" of {size_text(partition.open_limit_bytes)}"
    words = f"open segment {size_text(partition.open_bytes)}{limit}"
    if partition.closes_at_ms is None:
        return f"{words}, waits for its end"
    if partition.closes_at_ms <= now_ms:
        return f"{words}, closes with the next record"
    return f"{words}, closes in {duration_text(partition.closes_at_ms - now_ms)}"
