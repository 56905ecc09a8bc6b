"""Moves the horizons of the tables that are led here, in a thread of its own (docs/retention.md)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from engine.table.ledger import moved_log_starts
from engine.table.live_files import LiveFiles
from engine.table.manifests import TableFile
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from retention.horizon_limits import HorizonLimits
from retention.horizon_planner import HorizonPlan, Staying, plan_horizon
from topics.loop_record import LoopRecord
from topics.partition_status import PartitionStatus
from topics.retention_rule import Keep, RetentionRule
from topics.topic_rule import TopicRule, rule_of
from topics.topic_schemas import LedTopic

_TABLES = 64
"""Whose lists of manifests stay read; those of more are read again with each look."""

_log = structlog.get_logger(__name__)


class Reported(Protocol):
    """A partition as the last cycle left it."""

    @property
    def partition(self) -> TopicIdPartition: ...

    @property
    def status(self) -> PartitionStatus: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHorizons:
    """Both horizons of a partition as of the last look at its table; ``staying`` the file that leaves it next, None
    where nothing bounds what is kept."""

    log_start: int
    table_start: int
    staying: Staying | None = None


@dataclass(slots=True)
class _Watch:
    """One topic. ``due_ms`` (monotonic): when its files are looked at again."""

    due_ms: int = 0
    noted: Mapping[int, int] | None = None
    horizons: Mapping[int, PartitionHorizons] = field(default_factory=dict)
    problem: FloebergError | None = None
    is_warned: bool = False


@dataclass(slots=True)
class _Wanted:
    """Where a table's horizons are to be, by partition; ``plans`` of those that have a bound."""

    log_starts: dict[int, int] = field(default_factory=dict)
    table_starts: dict[int, int] = field(default_factory=dict)
    plans: dict[int, HorizonPlan] = field(default_factory=dict)


class HorizonLoop:
    """``turn`` is for one thread; the rest for any."""

    def __init__(
        self,
        *,
        writer: TableWriter,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: HorizonLimits | None = None,
    ) -> None:
        self._writer = writer
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits or HorizonLimits()
        self.record = LoopRecord("horizons", clock)
        self._live = LiveFiles(tables=_TABLES, snapshots=_TABLES)
        self._seen: tuple[Mapping[str, LedTopic], Sequence[Reported]] = ({}, ())
        self._watches: dict[str, _Watch] = {}

    def note_topics(self, led: Mapping[str, LedTopic], partitions: Sequence[Reported]) -> None:
        """The topics that are led here, by topic id, and all partitions that are here."""
        self._seen = (led, partitions)

    def of(self, partition: TopicIdPartition) -> PartitionHorizons | None:
        """None while the partition's table was not looked at."""
        watch = self._watches.get(partition.topic_id)
        return None if watch is None else watch.horizons.get(partition.partition)

    def problems(self) -> tuple[FloebergError, ...]:
        """Why tables' horizons could not be moved."""
        watches = list(self._watches.values())
        return tuple(watch.problem for watch in watches if watch.problem is not None)

    def run_forever(self, stop: threading.Event) -> None:
        """A turn now and then, until ``stop`` is set."""
        self.record.next_in(self._limits.look_interval_ms)
        while not stop.wait(self._limits.look_interval_ms / 1000):
            try:
                with self.record.look():
                    moved = self.turn(stop)
                if moved:
                    self.record.worked()
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("horizons_ended_unforeseen")
            self.record.next_in(self._limits.look_interval_ms)

    def turn(self, stop: threading.Event | None = None) -> int:
        """Look at every topic; how many tables' horizons were moved."""
        led, partitions = self._seen
        statuses = {reported.partition: reported.status for reported in partitions}
        self._watches = {topic_id: self._watches.get(topic_id, _Watch()) for topic_id in led}
        moved = 0
        for topic_id, topic in led.items():
            if stop is not None and stop.is_set():
                break
            moved += self._turn_of(topic_id, topic, statuses)
        return moved

    def _turn_of(self, topic_id: str, led: LedTopic, statuses: Mapping[TopicIdPartition, PartitionStatus]) -> bool:
        watch, table, now_ms = self._watches[topic_id], led.table, self._clock.monotonic_ms()
        rule = rule_of(table.topic, self._rules)
        if rule is None or table.foreign is not None:
            return False
        here = {
            number: status
            for number in sorted(led.partitions)
            if (status := statuses.get(_partition(table, number))) is not None and number in table.ledger
        }
        try:
            log_starts = self._brokers_log_starts(table, rule.retention, here, watch)
            if log_starts != watch.noted:
                self._writer.note_log_starts(table, log_starts)
                watch.noted = log_starts
            if now_ms < watch.due_ms:
                return False
            watch.due_ms = now_ms + self._limits.move_interval_ms
            # The one at hand may be from before this loop's last commit, or compaction's.
            newest = self._writer.open(table.topic, table.topic_id) or table
            here = {number: status for number, status in here.items() if number in newest.ledger}
            wanted = self._wanted(newest, rule.retention, here, log_starts)
            table = self._moved(newest, wanted)
            watch.problem = None
        except FloebergError as error:
            if watch.problem is None or str(watch.problem) != str(error):
                _log.warning("horizons_not_moved", topic=table.topic, error=str(error))
            watch.problem = error
            return False
        watch.horizons = {number: _horizons(table, number, wanted.plans.get(number)) for number in here}
        return table.snapshot_id != newest.snapshot_id

    def _brokers_log_starts(
        self, table: TopicTable, retention: RetentionRule, here: Mapping[int, PartitionStatus], watch: _Watch
    ) -> dict[int, int]:
        """Where the broker says that the stream begins, of the partitions of which that counts."""
        if retention.stream is not None and not watch.is_warned and any(status.native for status in here.values()):
            watch.is_warned = True
            note = "a native topic's consumers have what the broker offers: set its retention.ms or retention.bytes"
            _log.warning("stream_retention_not_used", topic=table.topic, note=note)
        return {
            number: status.log_start
            for number, status in here.items()
            if status.log_start is not None and (status.native or retention.stream is None)
        }

    def _wanted(
        self,
        table: TopicTable,
        retention: RetentionRule,
        here: Mapping[int, PartitionStatus],
        log_starts: Mapping[int, int],
    ) -> _Wanted:
        wanted, left = _Wanted(), self._limits.files_per_move
        starts = {**log_starts}
        for number in here:
            if retention.stream is not None and number not in starts:
                starts[number] = self._plan(self._files(table, number), retention.stream).horizon
        wanted.log_starts = {number: starts[number] for number in moved_log_starts(table.ledger, starts)}
        for number in here:
            line = table.ledger[number]
            begins = line.with_log_start(starts.get(number, 0)).log_start
            if line.held.start < min(line.table_start, begins) and self._can_leave_stream(table, number, begins):
                wanted.log_starts[number] = begins
            if retention.table.is_for_ever:
                continue
            files = [file for file in self._files(table, number) if file.range.start >= line.table_start]
            plan = wanted.plans[number] = self._plan(files, retention.table)
            leaving = plan.leaving[:left]
            left -= len(leaving)
            if leaving:
                wanted.table_starts[number] = leaving[-1].file.range.end
        return wanted

    def _plan(self, files: Sequence[TableFile], keep: Keep) -> HorizonPlan:
        return plan_horizon(files, keep, now_ms=self._clock.now_ms())

    def _files(self, table: TopicTable, number: int) -> tuple[TableFile, ...]:
        return self._live.of(table, number).files

    def _can_leave_stream(self, table: TopicTable, number: int, log_start: int) -> bool:
        """Whether a file is below both horizons that the stream's branch still lists."""
        below = min(log_start, table.ledger[number].table_start)
        return any(file.range.end <= below for file in self._files(table, number))

    def _moved(self, table: TopicTable, wanted: _Wanted) -> TopicTable:
        if not wanted.log_starts and not wanted.table_starts:
            return table
        moved = self._writer.move_horizons(table, log_starts=wanted.log_starts, table_starts=wanted.table_starts)
        _log.info(
            "horizons_moved",
            topic=table.topic,
            log_starts={number: moved.ledger[number].log_start for number in wanted.log_starts},
            table_starts={number: moved.ledger[number].table_start for number in wanted.table_starts},
            snapshot=moved.snapshot_id,
        )
        return moved


def _partition(table: TopicTable, number: int) -> TopicIdPartition:
    return TopicIdPartition(topic=table.topic, topic_id=table.topic_id, partition=number)


def _horizons(table: TopicTable, number: int, plan: HorizonPlan | None) -> PartitionHorizons:
    line = table.ledger[number]
    return PartitionHorizons(
        log_start=line.log_start,
        table_start=max(line.start, line.table_start),
        staying=None if plan is None else plan.staying,
    )
