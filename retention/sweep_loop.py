"""Sweeps by the daemon itself, one table after the other, in a thread of their own (docs/retention.md).

Of the daemons that share a table, the one that leads its lowest partition sweeps it. That saves work and no more: two
that believe it do no harm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import structlog
from pyiceberg.catalog import Catalog

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from retention.sweep_limits import SweepLimits
from retention.sweep_report import TableSweeps
from retention.table_sweep import TableSweep
from topics.loop_record import LoopRecord
from topics.topic_schemas import LedTopic

FIRST_LOOK_MS = 60_000
"""After a topic is seen here first, and up to an interval later, each at its own time: a daemon that starts has better
things to do than to list a thousand folders."""

UNCHANGED_MS = 24 * 3_600_000
"""A table in whose last state nothing waited is looked at again after it: what killed processes leave, a table that
nobody commits to tells nobody of."""

LOOK_INTERVAL_MS = 10_000
"""Between two looks whether a table is due."""

RETRY_MS = 300_000
"""A sweep that failed is tried again after it."""

_log = structlog.get_logger(__name__)


_Which: TypeAlias = tuple[str, bool]
"""A topic's id, and whether it is its ``__latest`` table."""


@dataclass(slots=True)
class _Watch:
    """``due_ms`` and ``whole_ms``, when the last whole sweep ended or none was needed, or the watch began, are
    monotonic; so is ``looked_ms``, when the topic's table was ``seen`` in that state. ``latest`` as the last sweep
    found it."""

    sweep: TableSweep
    report: TableSweeps
    due_ms: int
    whole_ms: int
    latest: str | None = None
    looked_ms: int = 0
    seen: str | None = None

    def is_settled(self, state: str, now_ms: int) -> bool:
        """Whether a look would find what the last one found, and nothing waits."""
        report = self.report
        waits = report.goes_next_ms is not None or report.waiting or report.hindered or report.held or report.problem
        return self.seen == state and not waits and now_ms - self.looked_ms < UNCHANGED_MS


class SweepLoop:
    """The sweeps of one daemon. ``turn`` is for one thread; the rest for any."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        namespace: str,
        writer: TableWriter,
        clock: Clock,
        limits: SweepLimits,
        folder: Path,
    ) -> None:
        """``folder`` is where sightings are kept."""
        self._catalog = catalog
        self._namespace = namespace
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._folder = folder
        self.record = LoopRecord("sweeps", clock)
        self._in_use: list[Callable[[], Set[str]]] = []
        self._led: Mapping[str, LedTopic] = {}
        self._watches: dict[_Which, _Watch] = {}
        self._wake = threading.Event()

    def watch_readers(self, in_use: Callable[[], Set[str]]) -> None:
        """Ask here, too, which files readers of this process have open."""
        self._in_use.append(in_use)

    def note_topics(self, led: Mapping[str, LedTopic]) -> None:
        """The topics that are led here, by topic id."""
        self._led = led

    def report(self) -> tuple[TableSweeps, ...]:
        """Each table that is swept here, by topic."""
        now_ms = self._clock.monotonic_ms()
        watches = list(self._watches.values())
        reports = [replace(watch.report, silent_ms=now_ms - watch.whole_ms) for watch in watches]
        return tuple(sorted(reports, key=lambda one: (one.topic, one.table)))

    def hurry(self) -> None:
        """End a pause, so that the loop sees that it is to end."""
        self._wake.set()

    def run_forever(self, stop: threading.Event) -> None:
        """A table each time that one is due, and after it a pause. Call ``hurry`` after setting ``stop``."""
        while not stop.is_set():
            began_ms = self._clock.monotonic_ms()
            try:
                has_swept = self.turn()
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("sweep_ended_unforeseen")
                has_swept = True
            took_ms = self._clock.monotonic_ms() - began_ms
            pause_ms = took_ms * self._limits.pause_share if has_swept else LOOK_INTERVAL_MS
            self._tell_next(pause_ms)
            self._wake.wait(pause_ms / 1000)

    def turn(self) -> bool:
        """Sweep the table that has been due the longest; whether there was one."""
        now_ms = self._clock.monotonic_ms()
        mine = {
            topic_id: topic.table
            for topic_id, topic in self._led.items()
            if min(topic.table.ledger, default=None) in topic.partitions
        }
        watches = {(topic_id, False): self._watch(table, now_ms) for topic_id, table in mine.items()}
        for (topic_id, _), watch in tuple(watches.items()):
            if watch.latest is not None:
                watches[topic_id, True] = self._watch(mine[topic_id], now_ms, latest=watch.latest)
        self._watches = watches
        states = {which: mine[which[0]].metadata_location for which in watches}
        for which, watch in watches.items():
            if watch.due_ms <= now_ms and watch.is_settled(states[which], now_ms):
                watch.whole_ms, watch.due_ms = now_ms, now_ms + self._limits.interval_ms
        due = [which for which, watch in watches.items() if watch.due_ms <= now_ms]
        if not due:
            return False
        which = min(due, key=lambda one: watches[one].due_ms)
        watch = watches[which]
        watch.due_ms = now_ms + RETRY_MS
        watch.seen, watch.looked_ms = states[which], now_ms
        try:
            with self.record.look():
                turn = watch.sweep.turn()
            if turn.removed.files:
                self.record.worked()
            watch.report = watch.report.after(turn, self._clock.now_ms())
            watch.latest = turn.latest
            watch.whole_ms = self._clock.monotonic_ms()
            watch.due_ms = watch.whole_ms + self._limits.interval_ms
        except FloebergError as error:
            _log.warning("sweep_put_off", topic=watch.report.topic, error=str(error))
            watch.report = replace(watch.report, problem=error)
        return True

    def _tell_next(self, pause_ms: float) -> None:
        due_ms = min((watch.due_ms for watch in self._watches.values()), default=None)
        self.record.next_in(None if due_ms is None else max(pause_ms, due_ms - self._clock.monotonic_ms()))

    def _watch(self, table: TopicTable, now_ms: int, *, latest: str | None = None) -> _Watch:
        """``latest``: the name of the topic's ``__latest`` table, which is meant."""
        is_latest = latest is not None
        watch = self._watches.get((table.topic_id, is_latest))
        if watch is not None:
            return watch
        sweep = TableSweep(
            topic=table.topic,
            topic_id=table.topic_id,
            catalog=self._catalog,
            namespace=self._namespace,
            writer=self._writer,
            clock=self._clock,
            limits=self._limits,
            folder=self._folder,
            in_use=self._open_files,
            is_latest=is_latest,
        )
        report = TableSweeps(topic=table.topic, table=latest or ".".join(table.identifier))
        spread_ms = crc32(table.topic_id.encode()) % self._limits.interval_ms
        return _Watch(sweep=sweep, report=report, due_ms=now_ms + FIRST_LOOK_MS + spread_ms, whole_ms=now_ms)

    def _open_files(self) -> Set[str]:
        return frozenset[str]().union(*(in_use() for in_use in self._in_use))
