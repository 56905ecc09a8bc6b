"""What a topic's table alone says of its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from topics.partition_status import PartitionStatus

if TYPE_CHECKING:
    # Half a second to import, which a command that asks a daemon need not pay for.
    from engine.errors import FloebergError
    from engine.table.merge.candidates import KeptRows
    from engine.table.topic_table import TopicTable


def stored_partitions(
    table: TopicTable,
    kept: Mapping[int, KeptRows] = MappingProxyType({}),
    problem: FloebergError | None = None,
) -> Iterator[PartitionStatus]:
    """By its ledger; ``kept`` rows by partition where they were counted, ``problem`` where that failed."""
    for number, entry in sorted(table.ledger.items()):
        rows = kept.get(number)
        yield PartitionStatus(
            topic=table.topic,
            partition=number,
            table=".".join(table.identifier),
            value_format=table.codec.name,
            tiered_start=entry.start,
            tiered_end=entry.end,
            stream_start=entry.log_start,
            table_start=max(entry.start, entry.table_start),
            rows=entry.digest.record_count,
            reason_rows=0 if rows is None else rows.with_reason,
            awaiting_rows=0 if rows is None else rows.awaiting_schema,
            problem=None if problem is None else str(problem.located(table.topic, number)),
        )
