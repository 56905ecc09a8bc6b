"""The log door's real backend: the table, through the engine's reader and verifier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.clock import Clock, SystemClock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.kafka_log.batch_writer import control_batches
from engine.offset_range import OffsetRange
from engine.reading.log_reader import LogReader
from engine.table.proof.verifier import VerifiedRange, Verifier
from engine.table.topic_table import TopicTable
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.backend import NoSuchSegment, RemoteSegment
from serving.log.copy_requests import CopyRequests

VIEW_LASTS_MS = 60_000
"""How long a consumer may be given what was erased: a look at the catalog a minute for each topic that is read."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """``loaded_ms``: monotonic."""

    table: TopicTable
    loaded_ms: int


class TablesById(Protocol):
    """Tables by their topics' ids. Called from several threads."""

    def load(self, topic_id: str) -> TopicTable | None:
        """The newest committed state; None while the topic has no table. Raises Unavailable."""


class Tiering(Protocol):
    """What the door asks of the tiering loop. Called from several threads."""

    def log_start(self, topic_id: str, partition: int) -> int | None:
        """The broker's log start offset as it was last seen; None when it never was."""

    def hurry(self) -> None:
        """Somebody waits: look now. Returns at once."""


class TieredLog:
    """A LogDoorBackend over the tables.

    Loaded tables are kept and used as long as their ledger covers what is asked for: a view of an older snapshot
    reads the same records, and those that were erased since. So it is loaded again once it is VIEW_LASTS_MS old; while
    the catalog is away, the old one does. When its files are gone (compaction), the table is loaded again and the read
    repeated.
    """

    def __init__(
        self,
        *,
        tables: TablesById,
        reader: LogReader,
        verifier: Verifier,
        tiering: Tiering,
        store: AuxiliaryStore,
        copies: CopyRequests | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._tables = tables
        self._reader = reader
        self._verifier = verifier
        self._tiering = tiering
        self._store = store
        self._copies = copies
        self._lock = threading.Lock()
        self._clock = clock or SystemClock()
        self._views: dict[str, _View] = {}

    def topic_of(self, topic_id: str) -> str | None:
        """The topic's name; None while its table was not loaded."""
        with self._lock:
            view = self._views.get(topic_id)
        return None if view is None else view.table.topic

    def verified(self, segment: RemoteSegment) -> VerifiedRange | None:
        """Offsets below the broker's log start need no proof: a segment keeps its name when DeleteRecords cuts it."""
        if self._copies is not None:
            self._copies.note(segment)
        verified = self._proof(segment)
        if self._copies is not None and verified is not None:
            self._copies.note(segment, is_safe=True)
        return verified

    def _proof(self, segment: RemoteSegment) -> VerifiedRange | None:
        log_start = self._tiering.log_start(segment.topic_id, segment.partition)
        start = min(max(segment.range.start, log_start or 0), segment.range.end - 1)
        needed = OffsetRange(start=start, end=segment.range.end)
        # The newest state, never a view at hand: what somebody else did to the table since is not to be vouched for.
        table = self._load(segment.topic_id)
        if table is None:
            return None
        return self._verifier.verified_range(table, segment.partition, needed)

    def hurry(self, segment: RemoteSegment) -> None:  # noqa: ARG002  # a cycle looks at everything
        self._tiering.hurry()

    def keep_auxiliary_state(self, segment: RemoteSegment, state: AuxiliaryState) -> None:
        self._store.put(self._known(segment), segment.partition, segment.range, state)

    def auxiliary_state(self, segment: RemoteSegment) -> AuxiliaryState:
        return self._store.get(self._known(segment), segment.partition, segment.range)

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        def begin(table: TopicTable, served: OffsetRange) -> Iterator[memoryview]:
            batches = self._reader.read(
                table, segment.partition, offsets=served, start=max(start, served.start), max_bytes=max_bytes
            )
            # The first batch is made here, so that files that are gone are noticed while another view may help.
            first = next(batches)
            # A broker keeps the index that it asked for before the log start rose: its entries are still answered, by
            # batches without a hole.
            return chain(control_batches(OffsetRange(start=start, end=max(start, served.start))), (first,), batches)

        return self._with_table(segment, begin)

    def offset_grid(self, segment: RemoteSegment) -> NDArray[np.int64]:
        def grid(table: TopicTable, served: OffsetRange) -> NDArray[np.int64]:
            before = served.start - segment.range.start
            within = self._reader.offset_grid(table, segment.partition, served) + before
            return np.concatenate([np.array([before], np.int64), within]) if before else within

        return self._with_table(segment, grid)

    def time_index(self, segment: RemoteSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        def index(table: TopicTable, served: OffsetRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            timestamp_ms, relative = self._reader.time_index(table, segment.partition, served)
            return timestamp_ms, relative + (served.start - segment.range.start)

        return self._with_table(segment, index)

    def release(self, segment: RemoteSegment) -> None:
        """Removes auxiliary states wholly below the recorded log start: of this hint, and of hints that were lost."""
        table = self._load(segment.topic_id)
        log_start = 0 if table is None else table.horizon(segment.partition)
        if table is None or log_start == 0:
            return
        for kept in list(self._store.ranges(table, segment.partition)):
            if kept.end <= log_start:
                self._store.delete(table, segment.partition, kept)

    def _with_table(self, segment: RemoteSegment, work: Callable[[TopicTable, OffsetRange], _Answer]) -> _Answer:
        """Do it with the view that is at hand; once more with a new one when there is a newer."""
        table = self._covering(segment, OffsetRange(start=segment.range.end - 1, end=segment.range.end))
        if table is None:
            raise Unavailable(f"Offsets {segment} are not in a table (yet)")
        try:
            return work(table, _served(table, segment))
        except (Corrupt, Unavailable):
            newest = self._load(segment.topic_id)
            if newest is None or newest.metadata_location == table.metadata_location:
                raise
            return work(newest, _served(newest, segment))

    def _covering(self, segment: RemoteSegment, needed: OffsetRange) -> TopicTable | None:
        """A view whose ledger covers ``needed``; None when the newest doesn't."""
        for table in (self._at_hand(segment.topic_id), None):
            view = table or self._load(segment.topic_id)
            entry = view.ledger.get(segment.partition) if view is not None else None
            if entry is not None and entry.range.covers(needed):
                return view
        return None

    def _known(self, segment: RemoteSegment) -> TopicTable:
        table = self._at_hand(segment.topic_id) or self._load(segment.topic_id)
        if table is None:
            raise Unavailable(f"There is no table (yet) for topic id {segment.topic_id}")
        return table

    def _at_hand(self, topic_id: str) -> TopicTable | None:
        """A view that is not too old to be used, as long as a newer one can be had."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            view = self._views.get(topic_id)
            if view is None or now_ms - view.loaded_ms < VIEW_LASTS_MS:
                return None if view is None else view.table
            # Other threads go on with it meanwhile.
            self._views[topic_id] = _View(table=view.table, loaded_ms=now_ms)
        try:
            return self._load(topic_id)
        except FloebergError:
            return view.table

    def _load(self, topic_id: str) -> TopicTable | None:
        table = self._tables.load(topic_id)
        with self._lock:
            if table is None:
                self._views.pop(topic_id, None)
            else:
                self._views[topic_id] = _View(table=table, loaded_ms=self._clock.monotonic_ms())
        return table


def _served(table: TopicTable, segment: RemoteSegment) -> OffsetRange:
    """The part of the segment that is still served: not what lies below the recorded log start."""
    start = max(segment.range.start, table.horizon(segment.partition))
    if start >= segment.range.end:
        raise NoSuchSegment(
            f"Offsets {segment.range} lie below the log start {start}", topic=table.topic, partition=segment.partition
        )
    return OffsetRange(start=start, end=segment.range.end)
