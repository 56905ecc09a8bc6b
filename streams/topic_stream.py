"""A topic from some offsets on, as columns: out of its table while that has more, then from the broker.

The two meet at the ledger's end: below it a record is read from files, at and above it from the broker, and whichever
side moves meanwhile, each partition goes on at the offset after the last row that was given. So there is no gap and no
double, whatever tiering commits or Kafka's retention deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.clock import Clock
from engine.errors import Corrupt, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from streams.live_topic import LiveTopic, OffsetGone
from streams.position import StreamPosition
from streams.record_rows import rows_of
from streams.selection import Selection, TableSelection
from streams.start import Start, check_topic, end_offset, first_offset, start_offsets
from streams.stored_columns import StoredColumns, StreamPiece

LOOK_MS = 1_000
"""Between two looks at the table for the schema, or for the records, that a partition waits for."""

NEVER = 1 << 62
"""An offset that none passes."""

PARTITIONS_MS = 30_000
"""Between two looks at the broker for partitions that the topic got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRules:
    """``partitions`` None: all, those that the topic gets later too. ``is_endless``: what comes is awaited; else the
    stream ends at what there was when it began, or at ``ends``, offsets by partition. ``skips_missing``: records
    that are gone for good are passed over; else they are an error. ``waits_for_schemas``: a live record of a schema
    that the table does not have yet comes when it has; else it comes without columns, with the reason."""

    partitions: frozenset[int] | None = None
    is_endless: bool = True
    ends: Mapping[int, int] | None = None
    skips_missing: bool = False
    waits_for_schemas: bool = True


class TopicStream:
    """``load`` gives the table as the catalog has it now, ``live`` None ends the stream where the table does.

    The stream closes neither. For one thread.
    """

    def __init__(
        self,
        load: Callable[[], TopicTable],
        live: LiveTopic | None,
        *,
        start: Start,
        clock: Clock,
        selection: Selection | None = None,
        rules: StreamRules | None = None,
    ) -> None:
        self._load = load
        self._live = live
        self._selection = selection or Selection()
        self._rules = rules or StreamRules()
        self._start = start
        self._clock = clock
        self._stored = StoredColumns()
        self._offsets: dict[int, int] = {}
        self._ends: dict[int, int] | None = None
        self._waiting: set[int] = set()
        self._table: TopicTable | None = None
        self._looked_ms = 0

    @property
    def position(self) -> StreamPosition:
        """After all pieces that were given."""
        table = self._known_table()
        return StreamPosition(topic=table.topic, topic_id=table.topic_id, offsets=dict(self._offsets))

    @property
    def read_bytes(self) -> int:
        """Of files of the table, so far."""
        return self._stored.count.read_bytes

    def pieces(self) -> Iterator[StreamPiece | None]:
        """Rows as they come; None where nothing came for a while. Raises Invalid, Unavailable, Corrupt."""
        self._begin()
        while True:
            wanted = yield from self._history()
            if self._live is None or self._is_over():
                return
            is_over = yield from self._news(self._live, wanted)
            if is_over:
                return

    def close(self) -> None:
        self._stored.close()

    def _begin(self) -> None:
        self._table = table = self._load()
        chosen = self._rules.partitions
        there = {} if self._live is None else self._live.ranges(chosen)
        offsets = start_offsets(self._start, table, self._stored.records, self._live, there)
        unknown = set() if chosen is None else chosen - offsets.keys()
        if unknown:
            raise Invalid(
                f"The topic has no partition {', '.join(map(str, sorted(unknown)))}",
                topic=table.topic,
                next_step=f"it has {', '.join(map(str, offsets)) or 'none'}",
            )
        self._offsets = {number: at for number, at in offsets.items() if chosen is None or number in chosen}
        if self._rules.ends is not None:
            self._ends = dict(self._rules.ends)
        elif not self._rules.is_endless:
            self._ends = {number: end_offset(table, number, there.get(number)) for number in self._offsets}

    def _looked_at(self) -> TopicTable:
        """The table as it is now, and what that changes for partitions that wait, or that were not there."""
        before, table = self._known_table(), self._load()
        check_topic(table, before.topic, before.topic_id)
        if (table.codec, table.key_codec) != (before.codec, before.key_codec):
            self._waiting.clear()
        self._table = table
        self._looked_ms = self._clock.monotonic_ms()
        if self._live is not None and self._ends is None and self._rules.partitions is None:
            new = frozenset(self._live.partitions()) - self._offsets.keys()
            for number, there in self._live.ranges(new).items() if new else ():
                self._offsets[number] = first_offset(table, number, there)
        return table

    def _known_table(self) -> TopicTable:
        assert self._table is not None, "a stream that has begun has a table"
        return self._table

    def _history(self) -> Generator[StreamPiece, None, TableSelection]:
        """What the table has of what is missing, until it has no more."""
        while True:
            table = self._looked_at()
            wanted = self._selection.of(table)
            behind = self._behind(table)
            if not behind:
                return wanted
            try:
                yield from self._in_turns(wanted, behind)
            except Corrupt:
                # A file that was merged into another one, long enough ago, is gone while its reader is still there.
                if self._load().metadata_location == table.metadata_location:
                    raise

    def _in_turns(self, wanted: TableSelection, behind: Mapping[int, OffsetRange]) -> Iterator[StreamPiece]:
        """A piece of each partition after the other: none is years behind the others."""
        readers = {number: self._stored.pieces(wanted, number, part) for number, part in behind.items()}
        while readers:
            for number, reader in list(readers.items()):
                piece = next(reader, None)
                if piece is None:
                    del readers[number]
                    continue
                self._offsets[number] = piece.end
                self._waiting.discard(number)
                yield piece

    def _behind(self, table: TopicTable) -> dict[int, OffsetRange]:
        """By partition what the table has beyond the stream's offsets, up to the next hole. Raises Unavailable where
        what comes next is gone."""
        behind = {}
        for number in self._offsets:
            entry = table.ledger.get(number)
            if entry is None:
                continue
            end = self._end_of(number, entry.end)
            holes = table.skipped.get(number, ()) if table.is_believed else ()
            before_first = OffsetRange(start=0, end=first_offset(table, number, None))
            for hole in sorted((before_first, *holes)):
                if self._offsets[number] in hole and self._offsets[number] < end:
                    self._skip(number, hole.end)
                elif hole.start > self._offsets[number]:
                    end = min(end, hole.start)
            if self._offsets[number] < end:
                behind[number] = OffsetRange(start=self._offsets[number], end=end)
        return behind

    def _skip(self, partition: int, first: int) -> None:
        if not self._rules.skips_missing:
            raise Unavailable(
                f"The broker has deleted the records from here to offset {first}, and the table does not have them",
                topic=self._known_table().topic,
                partition=partition,
                offset=self._offsets[partition],
                next_step="floeberg status; to go on without them, start later or let the stream skip what is missing",
            )
        self._offsets[partition] = first

    def _news(self, live: LiveTopic, wanted: TableSelection) -> Generator[StreamPiece | None, None, bool]:
        """From the broker, until the stream is over (True) or the table has to be asked again (False)."""
        codecs = RowCodecs.of(wanted.table)
        waiting = set(self._waiting)
        live.go_on_at(self._followed())
        while not self._is_over():
            try:
                taken = live.take()
            except OffsetGone as gone:
                self._bridge(live, gone)
                return False
            if not taken:
                yield None
            for partition, records in taken:
                yield from self._rows(wanted, partition, records, codecs)
            for number in self._followed():
                if live.reached(number) >= self._end_of(number, NEVER):
                    self._offsets[number] = self._end_of(number, NEVER)
            if self._waiting != waiting:
                # What was taken of a partition after a record that waits comes again.
                waiting = set(self._waiting)
                live.go_on_at(self._followed())
            pause_ms = LOOK_MS if waiting else PARTITIONS_MS
            if self._clock.monotonic_ms() - self._looked_ms >= pause_ms:
                return False
        return True

    def _rows(
        self, wanted: TableSelection, partition: int, records: Records, codecs: RowCodecs
    ) -> Iterator[StreamPiece]:
        """What is wanted of records that came, each once; up to one whose schema has to be waited for."""
        if partition not in self._followed():
            return
        bounds = (self._offsets[partition], self._end_of(partition, NEVER))
        first, end = np.searchsorted(records.offset, bounds, "left").tolist()
        if first == end:
            return
        records = records.slice(first, end)
        found = rows_of(wanted, partition, records, codecs)
        count = found.known if self._rules.waits_for_schemas else len(records)
        if count < len(records):
            self._waiting.add(partition)
        if count:
            self._offsets[partition] = int(records.offset[count - 1]) + 1
            rows = wanted.chosen_of(found.rows.slice(0, count))
            yield StreamPiece(partition=partition, end=self._offsets[partition], rows=rows)

    def _bridge(self, live: LiveTopic, gone: OffsetGone) -> None:
        """Kafka's retention went by: the table goes on where it has what comes next."""
        entry = self._load().ledger.get(gone.partition)
        if entry is not None and entry.end > gone.offset:
            return
        there = live.ranges(frozenset({gone.partition}))[gone.partition]
        if there.start <= gone.offset:
            raise Unavailable(
                f"The broker's log ends at offset {there.end}, before what comes next: it lost records",
                topic=self._known_table().topic,
                partition=gone.partition,
                offset=gone.offset,
                next_step="floeberg status",
            )
        self._offsets[gone.partition] = gone.offset
        self._skip(gone.partition, there.start)

    def _followed(self) -> dict[int, int]:
        """Where partitions go on at the broker: neither those that wait nor those that are at their end."""
        return {
            number: at
            for number, at in self._offsets.items()
            if number not in self._waiting and at < self._end_of(number, NEVER)
        }

    def _end_of(self, partition: int, otherwise: int) -> int:
        """Where the stream ends in a partition, at ``otherwise`` the latest."""
        return otherwise if self._ends is None else min(otherwise, self._ends.get(partition, 0))

    def _is_over(self) -> bool:
        return self._ends is not None and all(at >= self._end_of(n, NEVER) for n, at in self._offsets.items())
