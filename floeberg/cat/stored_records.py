"""A topic's records out of its table, in pieces, and where in it the last few of them are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from engine.offset_range import OffsetRange
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from engine.table.topic_table import TopicTable

_ROWS_AT_ONCE = 1024
"""Rows turned into Python objects at a time: little memory, and the first line comes soon."""

_WIDER = 4
"""How many times as many offsets are looked at when too few of the last ones were records that count."""


def stored_records(
    reader: LogReader, table: TopicTable, partition: int, offsets: OffsetRange
) -> Iterator[tuple[int, Records]]:
    """Raises as ``LogReader.records``."""
    for block in reader.records(table, partition, offsets):
        for first in range(0, len(block), _ROWS_AT_ONCE):
            yield partition, block.slice(first, min(len(block), first + _ROWS_AT_ONCE))


def start_of_last(
    reader: LogReader,
    table: TopicTable,
    partition: int,
    offsets: OffsetRange,
    count: int,
    rows: Callable[[Records], Sequence[int]],
) -> int:
    """From where on there are the last ``count`` records of ``offsets`` that ``rows`` picks, or all where there are
    fewer."""
    span = count
    while True:
        start = max(offsets.start, offsets.end - span)
        last: deque[int] = deque(maxlen=count)
        if start < offsets.end:
            for _, records in stored_records(reader, table, partition, OffsetRange(start=start, end=offsets.end)):
                last.extend(int(records.offset[row]) for row in rows(records))
        if len(last) == count or start == offsets.start:
            return last[0] if last else offsets.end
        span *= _WIDER
