"""What metrics say of topics, and of the partitions that have series of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, NamedTuple, Self

from serving.status.copy_wait import LONGEST_COPY_WAIT_MS
from serving.status.exposition import Exposition, labels_text
from topics.partition_status import PartitionStatus
from topics.topic_totals import TopicTotals

MOST_PARTITIONS: Final = 100
"""Have series of their own, a dozen each, unless the settings say otherwise."""


class PartitionNow(NamedTuple):
    """A partition as the last cycle found it, and the times that have passed since, as ``PartitionStatus`` has them."""

    status: PartitionStatus
    lag_ms: int
    behind_ms: int
    copy_wait_ms: int

    @classmethod
    def of(cls, status: PartitionStatus) -> Self:
        """Of a status that is of this moment."""
        return cls(status, status.lag_ms, status.behind_ms, status.copy_wait_ms)

    @property
    def behind_records(self) -> int:
        return self.status.lag_records if self.behind_ms else 0

    @property
    def is_well(self) -> bool:
        """Nobody needs to look."""
        late = self.copy_wait_ms > LONGEST_COPY_WAIT_MS
        return self.status.problem is None and not self.status.at_risk_bytes and not late

    @property
    def trouble(self) -> tuple[bool, int, int, int]:
        """How bad it is, to be compared."""
        return is_stopped(self.status), self.status.at_risk_bytes, self.behind_ms, self.copy_wait_ms


def is_stopped(partition: PartitionStatus) -> bool:
    """True where nothing gets better by itself: what is only away is tried again."""
    return partition.waiting_kind == "stopped" or partition.problem_kind in {"corrupt", "invalid"}


def partitions_to_show(partitions: Sequence[PartitionNow], most: int) -> Sequence[PartitionNow]:
    """All, where they are no more than ``most``; else the worst of those that are behind or not well."""
    if len(partitions) <= most:
        return partitions
    troubled = [one for one in partitions if one.behind_ms or not one.is_well]
    return nlargest(most, troubled, key=lambda one: one.trouble)


@dataclass(slots=True)
class TopicNow:
    """Partitions together, those of a topic or all: sums, and the longest of each time."""

    partitions: int = 0
    stopped: int = 0
    lag_records: int = 0
    behind_records: int = 0
    lag_ms: int = 0
    behind_ms: int = 0
    copy_wait_ms: int = 0
    spool_bytes: int = 0
    at_risk_bytes: int = 0
    local_log_bytes: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)

    def add(self, now: PartitionNow) -> None:
        status = now.status
        lag_records = status.lag_records
        self.partitions += 1
        self.stopped += is_stopped(status)
        self.lag_records += lag_records
        self.behind_records += lag_records if now.behind_ms else 0
        self.lag_ms = max(self.lag_ms, now.lag_ms)
        self.behind_ms = max(self.behind_ms, now.behind_ms)
        self.copy_wait_ms = max(self.copy_wait_ms, now.copy_wait_ms)
        self.spool_bytes += status.spool_bytes
        self.at_risk_bytes += status.at_risk_bytes
        self.local_log_bytes += status.local_log_bytes
        for counts, kind in ((self.problems, status.problem_kind), (self.waiting, status.waiting_kind)):
            if kind is not None:
                counts[kind] = counts.get(kind, 0) + 1


_TOPIC_GAUGES: tuple[tuple[str, str, Callable[[TopicNow], float]], ...] = (
    ("partitions", "Partitions in the log directories", lambda one: one.partitions),
    ("stopped_partitions", "Partitions that an operator must look at", lambda one: one.stopped),
    ("lag_records", "Stable offsets that are not in the table", lambda one: one.lag_records),
    ("lag_seconds", "How long the oldest of them has waited", lambda one: one.lag_ms / 1000),
    ("behind_records", "Those of them that should be in the table", lambda one: one.behind_records),
    ("behind_seconds", "How long the oldest of those should have been", lambda one: one.behind_ms / 1000),
    ("spool_bytes", "Segments held by hard links until they are committed", lambda one: one.spool_bytes),
    ("at_risk_bytes", "Ready segments that the spool has no room for", lambda one: one.at_risk_bytes),
    ("local_log_bytes", "Segments in the broker's log directories", lambda one: one.local_log_bytes),
    (
        "copy_wait_seconds",
        "How long the broker has asked for no copy while closed segments that are in the table wait for it",
        lambda one: one.copy_wait_ms / 1000,
    ),
)
_TOPIC_COUNTERS: tuple[tuple[str, str, Callable[[TopicTotals], float]], ...] = (
    ("tiered_log_bytes_total", "Bytes of Kafka's batches that were tiered", lambda one: one.log_bytes),
    ("tiered_parquet_bytes_total", "Bytes of the files that hold them", lambda one: one.parquet_bytes),
    (
        "skipped_offsets_total",
        "Offsets that Kafka deleted before they were tiered: they are in no table",
        lambda one: one.skipped_offsets,
    ),
    ("refused_ranges_total", "Ranges that another daemon committed first", lambda one: one.refused_ranges),
)
_PARTITION_GAUGES: tuple[tuple[str, str, Callable[[PartitionNow], float | None]], ...] = (
    ("tiered_end_offset", "First offset that is not in the table", lambda one: one.status.tiered_end),
    ("stable_end_offset", "First offset that is not committed in Kafka", lambda one: one.status.stable_end),
    ("stopped", "1 when an operator must look", lambda one: is_stopped(one.status)),
    ("lag_records", "Stable offsets that are not in the table", lambda one: one.status.lag_records),
    ("lag_seconds", "How long the oldest of them has waited", lambda one: one.lag_ms / 1000),
    ("behind_records", "Those of them that should be in the table", lambda one: one.behind_records),
    ("behind_seconds", "How long the oldest of those should have been", lambda one: one.behind_ms / 1000),
    ("at_risk_bytes", "Ready segments that the spool has no room for", lambda one: one.status.at_risk_bytes),
    ("local_log_bytes", "Segments in the broker's log directory", lambda one: one.status.local_log_bytes),
)


def write_topics(text: Exposition, partitions: Iterable[PartitionNow], totals: Mapping[str, TopicTotals]) -> None:
    """The totals of every topic."""
    topics: dict[str, TopicNow] = {}
    for one in partitions:
        found = topics.get(one.status.topic)
        if found is None:
            found = topics[one.status.topic] = TopicNow()
        found.add(one)
    shown = [(labels_text(topic=topic), now) for topic, now in topics.items()]
    # What is nothing yet is said too: a counter that begins with its first increase shows none.
    counted = [(labels_text(topic=topic), totals.get(topic, TopicTotals())) for topic in topics]
    for name, documentation, value_of in _TOPIC_GAUGES:
        text.gauges(f"floeberg_{name}", documentation, ((labels, value_of(now)) for labels, now in shown))
    text.gauges(
        "floeberg_problem_partitions",
        "Partitions with which something is wrong, by what is to be done",
        ((f'{labels},kind="{kind}"', count) for labels, now in shown for kind, count in now.problems.items()),
    )
    text.gauges(
        "floeberg_waiting_partitions",
        "Partitions by the reason why they have nothing to do, or not all of it",
        ((f'{labels},reason="{reason}"', count) for labels, now in shown for reason, count in now.waiting.items()),
    )
    for name, documentation, total_of in _TOPIC_COUNTERS:
        text.counters(f"floeberg_{name}", documentation, ((labels, total_of(one)) for labels, one in counted))
    text.gauges(
        "floeberg_saved_bytes",
        "Bytes of the log that was tiered since the start without those of its files",
        ((labels, one.log_bytes - one.parquet_bytes) for labels, one in counted),
    )
    text.counters(
        "floeberg_rows_total",
        "Rows committed, by how their value is kept: typed (columns alone), raw (columns and bytes), undecodable (bytes"
        " and a reason)",
        (
            (f'{labels},kept="{kept}"', count)
            for labels, one in counted
            for kept, count in (("typed", one.typed_rows), ("raw", one.raw_rows), ("undecodable", one.undecodable_rows))
        ),
    )


def write_partitions(text: Exposition, partitions: Sequence[PartitionNow]) -> None:
    """Series of their own."""
    shown = [(labels_text(topic=one.status.topic, partition=one.status.partition), one) for one in partitions]
    for name, documentation, value_of in _PARTITION_GAUGES:
        values = ((labels, value_of(one)) for labels, one in shown)
        series = ((labels, value) for labels, value in values if value is not None)
        text.gauges(f"floeberg_partition_{name}", documentation, series)
    text.gauges(
        "floeberg_partition_problem",
        "1 while something is wrong with the partition, by what is to be done",
        ((f'{labels},kind="{kind}"', 1) for labels, one in shown if (kind := one.status.problem_kind) is not None),
    )
    text.gauges(
        "floeberg_partition_waiting",
        "1 for the reason why the partition has nothing to do, or not all of it",
        ((f'{labels},reason="{why}"', 1) for labels, one in shown if (why := one.status.waiting_kind) is not None),
    )
