"""Keeps the history of the daemon: a sample at the end of each step, in a thread of its own, so that a disk that hangs
holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

import structlog

from engine.clock import Clock
from serving.status.history import STEP_MS, History, Sample
from serving.status.metrics import DaemonLook
from serving.status.topic_series import TopicNow

_log = structlog.get_logger(__name__)


class Board(Protocol):
    """Where the samples are taken from."""

    def look(self) -> DaemonLook: ...

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
        look, (fetches, fetched_bytes) = self._board.look(), self._board.fetched()
        totals = look.totals.values()
        whole = TopicNow()
        ends: dict[str, tuple[int, int]] = {}
        for part in look.partitions:
            whole.add(part)
            status = part.status
            if status.stable_end is not None:
                count, total = ends.get(status.topic, (0, 0))
                ends[status.topic] = (count + 1, total + status.stable_end)
        now = Sample(
            time_ms=(look.status.now_ms // STEP_MS - 1) * STEP_MS,
            records=sum(one.typed_rows + one.raw_rows + one.undecodable_rows for one in totals),
            log_bytes=sum(one.log_bytes for one in totals),
            file_bytes=sum(one.parquet_bytes for one in totals),
            fetches=fetches,
            fetched_bytes=fetched_bytes,
            merged_bytes=look.status.compaction.written_bytes,
            lag_records=whole.lag_records,
            behind_records=whole.behind_records,
            lag_ms=whole.lag_ms,
            local_log_bytes=whole.local_log_bytes,
        )
        self._history.keep(now.since(self._before))
        self._before = now
        self._take_rates(ends)

    def _take_rates(self, ends: Mapping[str, tuple[int, int]]) -> None:
        """Of topics with as many partitions as a step before; ``ends``: how many by topic, and their ends' sum."""
        now_ms = self._clock.monotonic_ms()
        seconds = max(1, now_ms - self._ends_at_ms) / 1000
        self.rates = {
            topic: max(0, total - before[1]) / seconds
            for topic, (count, total) in ends.items()
            if (before := self._ends.get(topic)) is not None and before[0] == count
        }
        self._ends, self._ends_at_ms = ends, now_ms
