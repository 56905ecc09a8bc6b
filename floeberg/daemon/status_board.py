"""What the daemon knows of itself from its last cycle: for the status page, the metrics and the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TypeAlias

from compaction.compaction_report import CompactionReport
from engine.clock import Clock
from engine.errors import CommitUnknown, FloebergError, Unavailable
from engine.offset_range import OffsetRange
from engine.schemas.desk import SourceHealth
from engine.table.merge.candidates import KeptRows
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.backlog_watch import BacklogWatch
from floeberg.daemon.bound_sources import open_file_bound
from floeberg.daemon.memory_use import MemoryUse
from latest.latest_report import LatestReport
from retention.horizon_loop import HorizonLoop
from retention.sweep_report import TableSweeps
from serving.log.copy_requests import CopyRequests
from serving.log.damage_watch import Damages
from serving.status.copy_wait import awaits_copy, copy_wait_ms
from serving.status.daemon_status import (
    BoundUse,
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    Phase,
    SchemaSourceStatus,
    TableSweepStatus,
)
from serving.status.metrics import DaemonLook, Metrics
from serving.status.told_problems import ProblemMemory, ToldProblem, problem_of_partition
from serving.status.topic_series import MOST_PARTITIONS, PartitionNow
from serving.status.waiting_words import waiting_words
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.tiering_limits import TieringLimits
from topics.gone_topic_status import GoneTopicStatus
from topics.loop_record import LoopRecord
from topics.partition_status import PartitionStatus
from topics.topic_totals import TopicTotals

BoundSource: TypeAlias = Callable[[], Iterable[BoundUse]]


class StatusBoard:
    """Written by the tiering thread after each cycle, read by the doors' threads."""

    def __init__(
        self, *, version: str, clock: Clock, limits: TieringLimits, most_partitions: int = MOST_PARTITIONS
    ) -> None:
        """``most_partitions``: that have metrics of their own."""
        self._clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._status = DaemonStatus(
            version=version, phase=Phase.STARTING, started_ms=clock.now_ms(), now_ms=clock.now_ms()
        )
        self._began_at_ms = self._heard_at_ms = clock.monotonic_ms()
        self._reports: tuple[PartitionReport, ...] = ()
        self._known: dict[TopicIdPartition, PartitionReport] = {}
        self._stored: tuple[PartitionStatus, ...] = ()
        self._backlog = BacklogWatch()
        self._cycle_bounds: list[BoundSource] = []
        self._bounds_now: list[BoundSource] = [open_file_bound]
        self._sources: Callable[[], tuple[SourceHealth, ...]] = tuple
        self._damages: Callable[[], Damages] = Damages
        self._compaction: Callable[[], CompactionReport] = CompactionReport
        self._sweeps: Callable[[], tuple[TableSweeps, ...]] = tuple
        self._gone: Callable[[], tuple[GoneTopicStatus, ...]] = tuple
        self._latest: Callable[[], LatestReport] = LatestReport
        self._totals: Callable[[], Mapping[str, TopicTotals]] = dict
        self._copies = CopyRequests(clock)
        self._kept: Callable[[TopicIdPartition], KeptRows] = lambda _: KeptRows()
        self._horizons: HorizonLoop | None = None
        self._copy_awaited_ms: dict[TopicIdPartition, int] = {}
        self._committed: dict[TopicIdPartition, OffsetRange] = {}
        self._loops: tuple[LoopRecord, ...] = ()
        self.problems = ProblemMemory()
        self._memory = MemoryUse(clock)
        self.metrics = Metrics(self.look, version=version, most_partitions=most_partitions)

    def watch_each_cycle(self, bounds: BoundSource) -> None:
        """Look at these bounds after each cycle, from the tiering thread: a disk that hangs must not hang the page."""
        self._cycle_bounds.append(bounds)

    def watch(self, bounds: BoundSource) -> None:
        """Look at these bounds whenever somebody asks for the status."""
        self._bounds_now.append(bounds)

    def watch_copies(self, copies: CopyRequests) -> None:
        """Take from here what the broker asked for."""
        self._copies = copies

    def watch_kept(self, kept: Callable[[TopicIdPartition], KeptRows]) -> None:
        """Ask here for the rows of a partition that keep their bytes, whenever somebody asks for the status."""
        self._kept = kept

    def watch_horizons(self, horizons: HorizonLoop) -> None:
        """Ask here for the horizons of a partition, and for what keeps some from moving."""
        self._horizons = horizons

    def watch_compaction(self, report: Callable[[], CompactionReport]) -> None:
        """Ask for compaction's report whenever somebody asks for the status."""
        self._compaction = report

    def watch_sweeps(self, report: Callable[[], tuple[TableSweeps, ...]]) -> None:
        """Ask for what sweeps found and did whenever somebody asks for the status."""
        self._sweeps = report

    def watch_loops(self, loops: Iterable[LoopRecord]) -> None:
        """Tell of these, in their order."""
        self._loops = tuple(loops)

    def watch_gone(self, report: Callable[[], tuple[GoneTopicStatus, ...]]) -> None:
        """Ask for the topics that the broker has no more whenever somebody asks for the status."""
        self._gone = report

    def watch_latest(self, report: Callable[[], LatestReport]) -> None:
        """Ask for the report on the newest records whenever somebody asks for the status."""
        self._latest = report

    def watch_totals(self, totals: Callable[[], Mapping[str, TopicTotals]]) -> None:
        """Ask here for what was committed by topic, at each scrape."""
        self._totals = totals

    def watch_sources(self, health: Callable[[], tuple[SourceHealth, ...]]) -> None:
        """Look at these schema sources whenever somebody asks for the status."""
        self._sources = health

    def watch_damages(self, found: Callable[[], Damages]) -> None:
        """Ask for what readers met damaged whenever somebody asks for the status."""
        self._damages = found

    def status(self) -> DaemonStatus:
        """The newest status, with the time and the memory of now."""
        partitions = tuple(self._partition_status(report, now) for report, now in self._partitions_now())
        return replace(self._own_status(), partitions=partitions or self._stored)

    def look(self) -> DaemonLook:
        """For metrics and history: a whole status of every partition would take three quarters of a scrape."""
        partitions = tuple(now for _, now in self._partitions_now()) or tuple(map(PartitionNow.of, self._stored))
        return DaemonLook(status=self._own_status(), partitions=partitions, totals=self._totals())

    def _own_status(self) -> DaemonStatus:
        """Without partitions."""
        with self._lock:
            status, heard_at_ms, backlog = self._status, self._heard_at_ms, self._backlog.status
        monotonic_ms = self._clock.monotonic_ms()
        damages = self._damages()
        return replace(
            status,
            now_ms=self._clock.now_ms(),
            uptime_ms=monotonic_ms - self._began_at_ms,
            silent_ms=monotonic_ms - heard_at_ms,
            backlog=backlog,
            bounds=(*status.bounds, *(bound for source in self._bounds_now for bound in source())),
            damages=damages.newest,
            damage_count=damages.count,
            schema_sources=tuple(map(_source_status, self._sources())),
            compaction=_compaction_status(self._compaction()),
            horizon_problems=self._horizon_problems(),
            sweeps=tuple(map(_sweep_status, self._sweeps())),
            gone_topics=self._gone(),
            latest=_latest_status(self._latest()),
            loops=tuple(loop.state for loop in self._loops),
            memory_bytes=self._memory.bytes(),
        )

    def fetched(self) -> tuple[int, int]:
        """Answers of records by the doors so far, and their bytes."""
        return self.metrics.doors.fetched()

    def enter(self, phase: Phase) -> None:
        with self._lock:
            self._status = replace(self._status, phase=phase)

    def note_stored(self, partitions: Iterable[PartitionStatus]) -> None:
        """What the tables say, until the first cycle has looked at the partitions."""
        with self._lock:
            self._stored = tuple(partitions)

    def note_found(self, reports: Sequence[PartitionReport]) -> None:
        """The partitions as the first cycle finds them, before it works on them."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._reports = tuple(reports)
            self._backlog.note(reports, {}, began_ms=now_ms, now_ms=now_ms)

    def note_cycle(self, report: CycleReport) -> None:
        """Take a cycle's report in."""
        now_ms = self._clock.now_ms()
        whole_ms = report.durations_ms.get("whole", 0.0)
        outcome = "committed" if report.commits else "failed" if report.problems else "idle"
        self.metrics.count_cycle(duration_ms=whole_ms, outcome=outcome)
        for error in _errors(report):
            self.metrics.count_error(error.kind)
        self.problems.note(_told(report), now_ms)
        spool = BoundUse(name="spool_max_bytes", used=report.spool_bytes, limit=self._limits.spool_max_bytes)
        bounds = (spool, *(bound for source in self._cycle_bounds for bound in source()))
        # A cycle that failed as a whole saw no partition: what is known of them is as old as the last good one.
        saw_nothing = bool(report.problems) and not report.partitions
        ended_ms = self._clock.monotonic_ms()
        with self._lock:
            # Work that hangs beside the cycles shows as a cycle does that hangs.
            busy_since_ms = report.busy_since_ms
            self._heard_at_ms = self._clock.monotonic_ms() if busy_since_ms is None else busy_since_ms
            if not saw_nothing:
                self._note_partitions(report)
                self._backlog.note(
                    report.partitions, report.committed, began_ms=ended_ms - round(whole_ms), now_ms=ended_ms
                )
            self._status = replace(
                self._status,
                cluster_id=report.cluster_id or self._status.cluster_id,
                last_cycle_ms=now_ms,
                last_commit_ms=now_ms if report.commits else self._status.last_commit_ms,
                cycle_count=self._status.cycle_count + 1,
                commit_count=self._status.commit_count + report.commits,
                problems=tuple(str(problem) for problem in report.problems),
                problem_kinds=tuple(problem.kind for problem in report.problems),
                bounds=self._status.bounds if saw_nothing else bounds,
            )

    def _note_partitions(self, report: CycleReport) -> None:
        self._reports = report.partitions
        for partition_id, ranges in report.committed.items():
            for added in ranges:
                known = self._committed.get(partition_id)
                self._committed[partition_id] = (None if known is None else known.joined(added)) or added
        for partition in report.attended:
            who, before = partition.partition, self._known.get(partition.partition)
            # A copy that was asked for since ended the wait; what is committed now begins another.
            waited = before is not None and self._awaits_copy(before)
            since_ms = self._copy_awaited_ms.pop(who, None)
            if self._awaits_copy(partition):
                self._copy_awaited_ms[who] = self._clock.monotonic_ms() if since_ms is None or not waited else since_ms
            self._known[who] = partition

    def _awaits_copy(self, report: PartitionReport) -> bool:
        asked = self._copies.of(report.partition.topic_id, report.partition.partition)
        return awaits_copy(
            native=report.status.native,
            leads_here=report.status.leader_here,
            closed_end=report.closed_end,
            committed_here=report.status.rows > 0,
            safe_end=None if asked is None or asked.safe is None else asked.safe.end,
        )

    def _partitions_now(self) -> Iterator[tuple[PartitionReport, PartitionNow]]:
        with self._lock:
            reports, copy_awaited_ms = self._reports, dict(self._copy_awaited_ms)
        now_ms = self._clock.monotonic_ms()
        for report in reports:
            since_ms, behind_since_ms = report.untiered_since_ms, report.behind_since_ms
            awaited_ms = copy_awaited_ms.get(report.partition)
            yield (
                report,
                PartitionNow(
                    report.status,
                    0 if since_ms is None else now_ms - since_ms,
                    0 if behind_since_ms is None else max(0, now_ms - behind_since_ms),
                    0 if awaited_ms is None else self._copy_wait_ms(report, awaited_ms, now_ms),
                ),
            )

    def _copy_wait_ms(self, report: PartitionReport, awaited_ms: int, now_ms: int) -> int:
        asked = self._copies.of(report.partition.topic_id, report.partition.partition)
        return copy_wait_ms(
            waits_since_ms=awaited_ms if self._awaits_copy(report) else None,
            last_asked_ms=None if asked is None else asked.last_ms,
            now_ms=now_ms,
        )

    def _partition_status(self, report: PartitionReport, now: PartitionNow) -> PartitionStatus:
        asked = self._copies.of(report.partition.topic_id, report.partition.partition)
        kept = self._kept(report.partition)
        verified = _longer(self._committed.get(report.partition), None if asked is None else asked.safe)
        return replace(
            self._with_horizons(report),
            lag_ms=now.lag_ms,
            behind_ms=now.behind_ms,
            waiting=waiting_words(report.status, now_ms=self._clock.now_ms()),
            reason_rows=kept.with_reason,
            awaiting_rows=kept.awaiting_schema,
            copied_end=None if asked is None or asked.safe is None else asked.safe.end,
            verified_start=None if verified is None else verified.start,
            verified_end=None if verified is None else verified.end,
            copy_wait_ms=now.copy_wait_ms,
        )

    def _with_horizons(self, report: PartitionReport) -> PartitionStatus:
        found = None if self._horizons is None else self._horizons.of(report.partition)
        if found is None:
            return report.status
        staying = found.staying
        return replace(
            report.status,
            stream_start=found.log_start,
            table_start=found.table_start,
            next_to_leave=None if staying is None else f"{staying.file.range}: {staying.reason}",
            leaves_at_ms=None if staying is None else staying.due_ms,
        )

    def _horizon_problems(self) -> tuple[str, ...]:
        # What is away comes back by itself.
        problems = () if self._horizons is None else self._horizons.problems()
        return tuple(str(problem) for problem in problems if not isinstance(problem, Unavailable))


def _source_status(health: SourceHealth) -> SchemaSourceStatus:
    return SchemaSourceStatus(
        name=health.name,
        away_ms=health.away_ms,
        problem=None if health.problem is None else str(health.problem),
        questions=health.questions,
        failures=health.failures,
    )


def _compaction_status(report: CompactionReport) -> CompactionStatus:
    # What is away comes back by itself, and of a table that can't be worked on tiering tells; a damaged file does not.
    held = [*report.put_off, *(problem for problem in report.problems if isinstance(problem, Unavailable))]
    return CompactionStatus(
        backlog_groups=report.backlog.groups,
        backlog_files=report.backlog.files,
        backlog_bytes=report.backlog.size_bytes,
        last_run_ms=report.last_run_ms,
        write_amplification=report.totals.write_amplification,
        problems=tuple(str(problem) for problem in report.problems if problem not in held),
        held=tuple(map(str, held)),
        **asdict(report.totals),
    )


def _sweep_status(table: TableSweeps) -> TableSweepStatus:
    is_away = isinstance(table.problem, Unavailable | CommitUnknown)
    problem = None if table.problem is None or is_away else str(table.problem)
    if problem is None and table.hindrance is not None:
        problem = f"{table.hindered} files of {table.table} can't be removed: {table.hindrance}"
    return TableSweepStatus(
        topic=table.topic,
        table=table.table,
        files={str(reason): amount.files for reason, amount in table.amounts.items()},
        bytes={str(reason): amount.size_bytes for reason, amount in table.amounts.items()},
        removed_files=table.removed.files,
        removed_bytes=table.removed.size_bytes,
        last_ms=table.last_ms,
        silent_ms=table.silent_ms,
        goes_next_ms=table.goes_next_ms,
        waiting=dict(table.waiting),
        held=table.held,
        problem=problem,
        put_off=str(table.problem) if is_away else None,
    )


def _latest_status(report: LatestReport) -> LatestStatus:
    return LatestStatus(
        tables=report.tables,
        behind_offsets=report.behind_offsets,
        last_commit_ms=report.last_commit_ms,
        problems=tuple(map(str, report.problems)),
        **asdict(report.totals),
    )


def _longer(one: OffsetRange | None, other: OffsetRange | None) -> OffsetRange | None:
    """Both as one, or the one with more offsets where some lie between them."""
    if one is None or other is None:
        return one or other
    return one.joined(other) or max(one, other, key=lambda each: each.offset_count)


def _told(report: CycleReport) -> Iterator[ToldProblem]:
    for problem in report.problems:
        yield ToldProblem.of(str(problem), entry="daemon-problem", kind=problem.kind)
    for part in report.attended:
        if part.problem is not None:
            place = f"topic {part.partition.topic}, partition {part.partition.partition}"
            yield problem_of_partition(str(part.problem), part.problem.kind, place)


def _errors(report: CycleReport) -> tuple[FloebergError, ...]:
    of_partitions = tuple(part.problem for part in report.attended if part.problem is not None)
    return (*report.problems, *of_partitions)
