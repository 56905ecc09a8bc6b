"""Where a stream begins: at an offset, a time, a snapshot, the beginning, the end, or where an earlier one stood."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.snapshots import Snapshot

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.reading.log_reader import LogReader
from engine.table.history import lineage
from engine.table.manifests import reading_metadata
from engine.table.topic_table import TopicTable, added_ranges
from streams.live_topic import LiveTopic
from streams.position import StreamPosition

BEGINNING, END = "beginning", "end"

Start: TypeAlias = str | int | datetime.datetime | Mapping[int, int] | StreamPosition
"""``beginning`` or ``end``; the id of a snapshot, after which the stream begins; a time; offsets by partition."""


def start_offsets(
    start: Start, table: TopicTable, reader: LogReader, live: LiveTopic | None, there: Mapping[int, OffsetRange]
) -> dict[int, int]:
    """The first offset by partition; of partitions that the start says nothing of, their first record's.

    ``there``: what the broker has, empty without ``live``. Raises Invalid where the start is none of this topic's.
    """
    first = {number: first_offset(table, number, there.get(number)) for number in sorted({*table.ledger, *there})}
    if start == BEGINNING:
        return first
    last = {number: end_offset(table, number, there.get(number)) for number in first}
    if start == END:
        return last
    if isinstance(start, datetime.datetime):
        return {number: _since(start, number, table, reader, live, last[number]) for number in first}
    if isinstance(start, int):
        return {**first, **_ends_at(table, start)}
    if isinstance(start, StreamPosition):
        check_topic(table, start.topic, start.topic_id)
        start = start.offsets
    if isinstance(start, str):
        raise Invalid(f"A stream can't start at {start!r}", next_step=f"write {BEGINNING} or {END}")
    for partition, offset in start.items():
        if not 0 <= offset <= last.get(partition, -1):
            raise Invalid(
                "There is no such place to start at",
                topic=table.topic,
                partition=partition,
                offset=offset,
                next_step="the partitions end at "
                + (", ".join(f"{number}: {at}" for number, at in last.items()) or "nothing"),
            )
    return {**first, **start}


def check_topic(table: TopicTable, topic: str, topic_id: str) -> None:
    """Raises Invalid where a table is none of this incarnation of the topic."""
    if (table.topic, table.topic_id) != (topic, topic_id):
        raise Invalid(
            f"The stream is of {topic} with the id {topic_id}; {table.topic} has {table.topic_id}",
            topic=topic,
            next_step="the topic was deleted and made again: start anew, at its beginning",
        )


def first_offset(table: TopicTable, partition: int, there: OffsetRange | None) -> int:
    """Of what consumers are served: the table's, where it has something of the partition."""
    entry = table.ledger.get(partition)
    if entry is not None:
        return max(entry.start, table.horizon(partition))
    return 0 if there is None else there.start


def end_offset(table: TopicTable, partition: int, there: OffsetRange | None) -> int:
    """After the last record that is in the table or committed at the broker."""
    entry = table.ledger.get(partition)
    return max(0 if entry is None else entry.end, 0 if there is None else there.end)


def first_since(
    reader: LogReader, table: TopicTable, partition: int, offsets: OffsetRange, timestamp_ms: int
) -> int | None:
    """The first offset of ``offsets`` whose record is not older; None where there is none."""
    if offsets.is_empty:
        return None
    latest_ms, relative = reader.time_index(table, partition, offsets)
    before = int(np.searchsorted(latest_ms, timestamp_ms, "right")) - 1
    start = offsets.start + (int(relative[before]) if before >= 0 else 0)
    for records in reader.records(table, partition, OffsetRange(start=start, end=offsets.end)):
        found = np.flatnonzero(records.timestamp_ms >= timestamp_ms)
        if len(found):
            return int(records.offset[found[0]])
    return None


def _since(
    moment: datetime.datetime, partition: int, table: TopicTable, reader: LogReader, live: LiveTopic | None, last: int
) -> int:
    if moment.tzinfo is None:
        raise Invalid("The time to start at has no time zone", next_step="datetime(2024, 1, 31, tzinfo=UTC)")
    timestamp_ms = int(moment.timestamp() * 1000)
    entry = table.ledger.get(partition)
    found = None
    if entry is not None:
        held = OffsetRange(start=first_offset(table, partition, None), end=entry.end)
        found = first_since(reader, table, partition, held, timestamp_ms)
    if found is None and live is not None:
        found = live.first_since(partition, timestamp_ms)
        if found is not None and entry is not None:
            found = max(found, entry.end)
    return last if found is None else found


def _ends_at(table: TopicTable, snapshot_id: int) -> dict[int, int]:
    """Where each partition ended when a snapshot was the table's newest, by what was added since."""
    with reading_metadata(table, table.metadata_location):
        io = load_file_io(properties=dict(table.warehouse.properties), location=table.metadata_location)
        metadata = FromInputFile.table_metadata(io.new_input(table.metadata_location))
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    newer: list[Snapshot] = []
    for snapshot in lineage(by_id, metadata.current_snapshot_id):
        if snapshot.snapshot_id == snapshot_id:
            added = added_ranges(newer)
            return {
                partition: min([entry.end, *(part.start for part in added.get(partition, ()))])
                for partition, entry in table.ledger.items()
            }
        newer.append(snapshot)
    raise Invalid(
        f"The table's history has no snapshot {snapshot_id}, or not all that came after it",
        topic=table.topic,
        next_step="it is older than [history] max_age_ms: start at a time or at offsets",
    )
