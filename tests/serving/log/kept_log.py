"""A LogDoorBackend in memory, for faults that the real one can't be made to show. Held to the same suite."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.errors import FloebergError, Unavailable
from engine.kafka_log.batch_writer import control_batches, encode_batches
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.table.proof.verifier import VerifiedRange
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import NoSuchSegment, RemoteSegment

TOPIC_ID = "MkU3OEVBNTcwNTJENDM2Qg"
GRID_RECORDS = 10


def segment(start: int, end: int, *, topic_id: str = TOPIC_ID, partition: int = 0) -> RemoteSegment:
    return RemoteSegment(topic_id=topic_id, partition=partition, range=OffsetRange(start=start, end=end))


def proof(of: RemoteSegment) -> VerifiedRange:
    """A proof that proves nothing: only the verifier can make a true one, so this goes around its constructor."""
    forged = object.__new__(VerifiedRange)
    for name, value in (("topic_id", of.topic_id), ("partition", of.partition), ("range", of.range), ("token", None)):
        object.__setattr__(forged, name, value)
    return forged


class KeptLog:
    """Partition 0 of one topic. ``committed`` moves with ``commit``; ``failure`` is raised by what comes next."""

    def __init__(self, records: Records) -> None:
        self.all = records
        self.reset()

    def reset(self) -> None:
        self.committed = 0
        self.log_start = 0
        self.failure: FloebergError | None = None
        self.failure_after_batches: int | None = None
        self.hurried: list[RemoteSegment] = []
        self.kept: dict[OffsetRange, AuxiliaryState] = {}
        self.batches_made = 0
        self.closed = threading.Semaphore(0)
        self.reading = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def _check(self, of: RemoteSegment) -> None:
        if self.failure is not None:
            raise self.failure
        if of.topic_id != TOPIC_ID or of.range.end > self.committed:
            raise Unavailable(f"Offsets {of} are not in a table (yet)")
        if of.range.end <= self.log_start:
            raise NoSuchSegment(f"Offsets {of} lie below the log start")

    def verified(self, segment: RemoteSegment) -> VerifiedRange | None:
        if self.failure is not None:
            raise self.failure
        covered = segment.topic_id == TOPIC_ID and segment.range.end <= self.committed
        return proof(segment) if covered else None

    def hurry(self, segment: RemoteSegment) -> None:
        self.hurried.append(segment)

    def keep_auxiliary_state(self, segment: RemoteSegment, state: AuxiliaryState) -> None:
        self.kept[segment.range] = state

    def auxiliary_state(self, segment: RemoteSegment) -> AuxiliaryState:
        if segment.range not in self.kept:
            raise NoSuchSegment(f"Nothing is kept for {segment}")
        return self.kept[segment.range]

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        self._check(segment)
        return self._batches(segment, start, max_bytes)

    def _batches(self, of: RemoteSegment, start: int, max_bytes: int) -> Iterator[memoryview]:
        begin, end = np.searchsorted(self.all.offset, [start, of.range.end])
        wanted = self.all.slice(int(begin), int(end))
        made = encode_batches(wanted, grid=self._grid(of), cover_from=start)
        covered = int(wanted.offset[-1]) + 1 if len(wanted) else start
        made += control_batches(OffsetRange(start=covered, end=of.range.end))
        made_bytes = 0
        self.reading.release()
        try:
            for batch in made:
                assert self.may_go_on.wait(20)
                if self.batches_made == self.failure_after_batches:
                    raise Unavailable("The warehouse went away")
                self.batches_made += 1
                yield batch
                made_bytes += len(batch)
                if made_bytes >= max_bytes:
                    return
        finally:
            self.closed.release()

    def offset_grid(self, segment: RemoteSegment) -> NDArray[np.int64]:
        self._check(segment)
        return self._grid(segment) - segment.range.start

    def _grid(self, of: RemoteSegment) -> NDArray[np.int64]:
        """Every tenth record: never an offset in a gap."""
        offset = self.all.offset[GRID_RECORDS::GRID_RECORDS]
        return offset[(offset > of.range.start) & (offset < of.range.end)]

    def time_index(self, segment: RemoteSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        self._check(segment)
        inside = (self.all.offset >= segment.range.start) & (self.all.offset < segment.range.end)
        timestamp_ms, first = np.unique(np.maximum.accumulate(self.all.timestamp_ms[inside]), return_index=True)
        return timestamp_ms, self.all.offset[inside][first] - segment.range.start

    def release(self, segment: RemoteSegment) -> None:
        for kept in [kept for kept in self.kept if kept.end <= self.log_start]:
            del self.kept[kept]
