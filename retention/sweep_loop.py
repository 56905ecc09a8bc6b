"""Sweeps by the daemon itself, one table after the other, in a thread of their own (docs/retention.md).

Of the daemons that share a table, the one that leads its lowest partition sweeps it. That saves work and no more: two
that believe it do no harm. Tables of topics that are gone nobody leads: each daemon sweeps them, and what is left of
those that it dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias
from zlib import crc32

import structlog
from pyiceberg.catalog import Catalog

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from retention.dropped_sweep import DroppedSweep
from retention.gone_topic_watch import GoneTopicWatch
from retention.sweep_limits import SweepLimits
from retention.sweep_report import TableSweeps
from retention.table_drop import DroppedTable
from retention.table_sweep import SweepTurn, TableSweep
from topics.gone_topic_status import GoneTopicStatus
from topics.loop_record import LoopRecord
from topics.topic_schemas import LedTopic

FIRST_LOOK_MS = 60_000
"""After a topic is seen here first, and up to an interval later, each at its own time: a daemon that starts has better
things to do than to list a thousand folders."""

UNCHANGED_MS = 24 * 3_600_000
"""A table in whose last state nothing waited is looked at again after it: what killed processes leave, a table that
nobody commits to tells nobody of."""

LOOK_FOR_GONE_MS = 600_000
"""Between two looks for topics that the broker has no more: one names all tables of the namespace."""

LOOK_INTERVAL_MS = 10_000
"""Between two looks whether a table is due."""

RETRY_MS = 300_000
"""A sweep that failed is tried again after it."""

_log = structlog.get_logger(__name__)


_Which: TypeAlias = tuple[str, bool]
"""A topic's id, and whether it is its ``__latest`` table; or the key of a table that was dropped."""


class _Sweep(Protocol):
    def turn(self) -> SweepTurn: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swept:
    """What is swept: ``state`` changes with each commit; ``is_alone``: nobody commits to it any more."""

    topic: str
    topic_id: str
    table: str
    state: str
    is_alone: bool = False
    dropped: DroppedTable | None = None


@dataclass(slots=True)
class _Watch:
    """``due_ms`` and ``whole_ms``, when the last whole sweep ended or none was needed, or the watch began, are
    monotonic; so is ``looked_ms``, when the topic's table was ``seen`` in that state. ``latest`` as the last sweep
    found it."""

    sweep: _Sweep
    report: TableSweeps
    is_alone: bool
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
        gone: GoneTopicWatch | None = None,
    ) -> None:
        """``folder`` is where sightings are kept; ``gone`` looks after topics that the broker has no more."""
        self._catalog = catalog
        self._namespace = namespace
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._folder = folder
        self.record = LoopRecord("sweeps", clock)
        self._gone = gone
        self._gone_due_ms = clock.monotonic_ms() + FIRST_LOOK_MS
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

    def gone_report(self) -> tuple[GoneTopicStatus, ...]:
        """Each table whose topic the broker has no more."""
        return () if self._gone is None else self._gone.report()

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
        self._look_for_gone(now_ms)
        swept = self._swept()
        watches = {which: self._watch(which, one, now_ms) for which, one in swept.items()}
        for (topic_id, _), watch in tuple(watches.items()):
            if watch.latest is not None:
                which, own = (topic_id, True), swept[topic_id, False]
                swept[which] = replace(own, table=watch.latest)
                watches[which] = self._watch(which, swept[which], now_ms)
        self._watches = watches
        states = {which: swept[which].state for which in watches}
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

    def _look_for_gone(self, now_ms: int) -> None:
        if self._gone is None or now_ms < self._gone_due_ms:
            return
        self._gone_due_ms = now_ms + LOOK_FOR_GONE_MS
        try:
            self._gone.look()
        except FloebergError as error:
            _log.warning("gone_topics_not_looked_for", error=str(error))

    def _swept(self) -> dict[_Which, _Swept]:
        found: dict[_Which, _Swept] = {}
        for one in () if self._gone is None else self._gone.tables:
            topic = one.stored
            found[topic.topic_id, False] = _Swept(
                topic=topic.topic, topic_id=topic.topic_id, table=".".join(one.name), state=one.state, is_alone=True
            )
        for topic_id, led in self._led.items():
            table = led.table
            if min(table.ledger, default=None) in led.partitions:
                name = ".".join(table.identifier)
                found[topic_id, False] = _Swept(
                    topic=table.topic, topic_id=topic_id, table=name, state=table.metadata_location
                )
        for dropped in () if self._gone is None else self._gone.dropped:
            found[dropped.key, False] = _Swept(
                topic=dropped.topic,
                topic_id=dropped.topic_id,
                table=f"{dropped.table} (dropped)",
                state=dropped.location,
                dropped=dropped,
            )
        return found

    def _watch(self, which: _Which, swept: _Swept, now_ms: int) -> _Watch:
        watch = self._watches.get(which)
        if watch is not None and watch.is_alone == swept.is_alone:
            return watch
        spread_ms = crc32(which[0].encode()) % self._limits.interval_ms
        return _Watch(
            sweep=self._sweep_of(swept, is_latest=which[1]),
            report=TableSweeps(topic=swept.topic, table=swept.table),
            is_alone=swept.is_alone,
            due_ms=now_ms + FIRST_LOOK_MS + spread_ms,
            whole_ms=now_ms,
        )

    def _sweep_of(self, swept: _Swept, *, is_latest: bool) -> _Sweep:
        if swept.dropped is not None:
            assert self._gone is not None, "only who looks after gone topics drops tables"
            return DroppedSweep(
                swept.dropped,
                catalog=self._catalog,
                clock=self._clock,
                limits=self._limits,
                folder=self._folder,
                in_use=self._open_files,
                hold=self._gone.hold,
                on_gone=self._gone.forget,
            )
        return TableSweep(
            topic=swept.topic,
            topic_id=swept.topic_id,
            catalog=self._catalog,
            namespace=self._namespace,
            writer=self._writer,
            clock=self._clock,
            limits=self._limits,
            folder=self._folder,
            in_use=self._open_files,
            is_latest=is_latest,
            is_alone=swept.is_alone,
        )

    def _open_files(self) -> Set[str]:
        return frozenset[str]().union(*(in_use() for in_use in self._in_use))
