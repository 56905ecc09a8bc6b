"""Keeps the history of the daemon: a sample at the end of each step, in a thread of its own, so that a disk that hangs
holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from engine.clock import Clock
from serving.status.daemon_status import DaemonStatus
from serving.status.history import STEP_MS, History, Sample

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredAmounts:
    """What tiering did since the start, whatever became of the partitions: ``log_bytes`` of batches became
    ``file_bytes`` of Parquet."""

    records: int = 0
    log_bytes: int = 0
    file_bytes: int = 0


class Board(Protocol):
    """Where the samples are taken from."""

    @property
    def tiered(self) -> TieredAmounts: ...

    def status(self) -> DaemonStatus: ...

    def fetched(self) -> tuple[int, int]:
        """Answers of records so far, and their bytes."""


class HistoryKeeper:
    """``sample`` is for one thread, the rest for any."""

    def __init__(self, board: Board, history: History, clock: Clock) -> None:
        self._board = board
        self._history = history
        self._clock = clock
        self._before = Sample(time_ms=0)
        self._ends: Mapping[str, tuple[int, int]] = {}
        self._ends_at_ms = 0
        self.rates: Mapping[str, float] = {}
        """By topic, records that its producers wrote a second over the last step."""

    def run_forever(self, stop: threading.Event) -> None:
        """A sample whenever a step ends, until ``stop`` is set."""
        while not stop.wait((STEP_MS - self._clock.now_ms() % STEP_MS) / 1000):
            try:
                self.sample()
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("history_ended_unforeseen")

    def sample(self) -> None:
        """Of the step that has just ended."""
        status, tiered, (fetches, fetched_bytes) = self._board.status(), self._board.tiered, self._board.fetched()
        partitions = status.partitions
        now = Sample(
            time_ms=(status.now_ms // STEP_MS - 1) * STEP_MS,
            records=tiered.records,
            log_bytes=tiered.log_bytes,
            file_bytes=tiered.file_bytes,
            fetches=fetches,
            fetched_bytes=fetched_bytes,
            merged_bytes=status.compaction.written_bytes,
            lag_records=sum(part.lag_records for part in partitions),
            behind_records=sum(part.behind_records for part in partitions),
            lag_ms=max((part.lag_ms for part in partitions), default=0),
            local_log_bytes=sum(part.local_log_bytes for part in partitions),
        )
        self._history.keep(now.since(self._before))
        self._before = now
        self._take_rates(status)

    def _take_rates(self, status: DaemonStatus) -> None:
        """Of topics that have as many partitions as a step before."""
        ends: dict[str, tuple[int, int]] = {}
        for part in status.partitions:
            if part.stable_end is not None:
                count, total = ends.get(part.topic, (0, 0))
                ends[part.topic] = (count + 1, total + part.stable_end)
        now_ms = self._clock.monotonic_ms()
        seconds = max(1, now_ms - self._ends_at_ms) / 1000
        self.rates = {
            topic: max(0, total - before[1]) / seconds
            for topic, (count, total) in ends.items()
            if (before := self._ends.get(topic)) is not None and before[0] == count
        }
        self._ends, self._ends_at_ms = ends, now_ms
