"""The tiering loop: a cycle whenever it is time, or somebody waits, and a report of each to those who listen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from engine.broker import Broker
from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from tiering.cycle import Cycle, CycleParts
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.kept_reports import KeptReports
from tiering.observer import StateObserver
from tiering.partition_record import PartitionRecords
from tiering.range_work import RangeWork
from tiering.segment_hold import SegmentHold
from tiering.spool import Spool
from tiering.tiered_topics import TieredTopics
from tiering.tiering_limits import TieringLimits
from tiering.work_beside import WorkBeside
from topics.loop_record import LoopRecord
from topics.topic_rule import TopicRule
from topics.topic_totals import TopicTotals
from workers.workers import Workers

_log = structlog.get_logger(__name__)


class TieringLoop:
    """Drives one broker's partitions into their tables. ``cycle`` is for one thread; the rest for any.

    ``rules`` choose topics, first match first. What was committed is announced to ``listeners`` after each commit,
    from the loop's thread.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        log_dirs: Sequence[Path],
        writer: TableWriter,
        verifier: Verifier,
        workers: Workers,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: TieringLimits | None = None,
    ) -> None:
        self._clock = clock
        self.record = LoopRecord("tiering", clock)
        self._workers = workers
        self._limits = limits or TieringLimits()
        spool, records = Spool(log_dirs), PartitionRecords(clock, self._limits)
        topics = TieredTopics(writer=writer, rules=rules, clock=clock, limits=self._limits)
        observer = StateObserver(
            broker=broker,
            log_dirs=log_dirs,
            spool=spool,
            topics=topics,
            records=records,
            rules=rules,
            clock=clock,
            limits=self._limits,
        )
        self._parts = CycleParts(
            observer=observer,
            topics=topics,
            hold=SegmentHold(spool, self._limits),
            work=RangeWork(topics=topics, workers=workers, verifier=verifier, clock=clock),
            records=records,
            reports=KeptReports(topics),
            clock=clock,
            limits=self._limits,
        )
        self._listeners: list[Callable[[CycleReport], None]] = []
        self._found_listeners: list[Callable[[Sequence[PartitionReport]], None]] = []
        self._wake = threading.Event()
        self._report: CycleReport | None = None
        self._known_problems: frozenset[str] = frozenset()
        self._is_told = False

    @property
    def report(self) -> CycleReport | None:
        """The last cycle's report; None before the first has ended."""
        return self._report

    @property
    def totals(self) -> Mapping[str, TopicTotals]:
        """What was committed since the start, by topic."""
        return self._parts.records.totals

    def on_cycle(self, listener: Callable[[CycleReport], None]) -> None:
        """Call ``listener`` after every cycle, commits and failures included."""
        self._listeners.append(listener)

    def on_found(self, listener: Callable[[Sequence[PartitionReport]], None]) -> None:
        """Call ``listener`` once, with the partitions as they are found at the start, before any work."""
        self._found_listeners.append(listener)

    def hurry(self) -> None:
        """Somebody waits: begin the next cycle at once. Returns at once."""
        self._wake.set()

    def log_start(self, topic_id: str, partition: int) -> int | None:
        """The broker's log start offset as it was last seen; None when it never was."""
        topic = self.topic_of(topic_id)
        if topic is None:
            return None
        who = TopicIdPartition(topic=topic, topic_id=topic_id, partition=partition)
        view = self._parts.observer.last_answered(who)
        return None if view is None else view.log_start_offset

    def topic_of(self, topic_id: str) -> str | None:
        """The name of a topic id as it was last seen in the log directories; None when it never was."""
        topic = self._parts.topics.get(topic_id)
        return None if topic is None else topic.topic

    def run_forever(self, stop: threading.Event) -> None:
        """Cycle until ``stop`` is set; then call ``hurry`` to interrupt a pause. Large ranges are worked on beside the
        cycles; those under way at the end are committed."""
        beside = WorkBeside(self._workers, self._clock, on_done=self.hurry)
        self._parts = replace(self._parts, beside=beside)
        failures = 0
        while not stop.is_set():
            self._wake.clear()
            with self.record.look():
                report = self._guarded_cycle()
            if report.commits:
                self.record.worked()
            failed_whole = bool(report.problems) and not report.partitions
            failures = failures + 1 if failed_whole else 0
            if report.more or stop.is_set():
                continue
            pause_ms = self._limits.pauses.wait_ms(failures)
            self.record.next_in(pause_ms)
            self._wake.wait(pause_ms / 1000)
        while beside.partitions:
            beside.end()
            try:
                Cycle(self._parts).land()
            except Exception:  # noqa: BLE001 - the outermost guard of the loop; what was not committed is done again
                _log.exception("work_ended_unforeseen")

    def cycle(self) -> CycleReport:
        """One turn. Raises nothing that a later cycle can overcome: what went wrong is in the report."""
        started_ms, began_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            report = Cycle(self._parts, on_planned=None if self._is_told else self._tell_found).run()
        except FloebergError as error:
            report = self._failed(error, started_ms, began_ms)
        return self._publish(report)

    def _publish(self, report: CycleReport) -> CycleReport:
        self._report = report
        problems = frozenset(map(str, report.problems))
        for problem in sorted(problems - self._known_problems):
            _log.warning("problem", error=problem)
        for problem in sorted(self._known_problems - problems):
            _log.info("problem_over", error=problem)
        self._known_problems = problems
        for listener in self._listeners:
            try:
                listener(report)
            except Exception:  # noqa: BLE001 - the outermost guard of what others do with a report
                _log.exception("listener_failed")
        return report

    def _tell_found(self, reports: Sequence[PartitionReport]) -> None:
        """What the first cycle that saw the broker found, before it does anything."""
        self._is_told = True
        found = [report.status for report in reports]
        _log.info(
            "found",
            topics=len({status.topic for status in found}),
            partitions=len(found),
            led_here=sum(status.leader_here for status in found),
            tables=len({status.table for status in found if status.table is not None}),
            native_topics=len({status.topic for status in found if status.native}),
            lag_records=sum(status.lag_records for status in found),
            segments=sum(status.ready_segments for status in found),
            mib=round(sum(status.ready_bytes for status in found) / (1 << 20), 1),
        )
        for listener in self._found_listeners:
            listener(reports)

    def _guarded_cycle(self) -> CycleReport:
        started_ms, began_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            return self.cycle()
        except Exception as error:  # noqa: BLE001 - the outermost guard of the daemon's loop
            _log.exception("cycle_ended_unforeseen")
            problem = Unavailable(
                f"a cycle ended with an error that is not one of ours: {error!r}",
                next_step="the next cycle tries again; if it stays, report it with the log's stack trace.",
            )
            return self._publish(self._failed(problem, started_ms, began_ms))

    def _failed(self, problem: FloebergError, started_ms: int, began_ms: int) -> CycleReport:
        """Of a cycle that saw no partition."""
        whole_ms = self._clock.monotonic_ms() - began_ms
        return CycleReport(started_ms=started_ms, durations_ms={"whole": whole_ms}, problems=(problem,))
