"""What the daemon knows of itself from its last cycle: for the status page, the metrics and the command line."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import psutil

from engine.clock import Clock
from engine.errors import CommitUnknown, Corrupt, FloebergError, Invalid
from engine.schemas.desk import SourceHealth
from floeberg.bound_sources import open_file_bound
from serving.log.copy_requests import CopyRequests
from serving.log.damage_watch import Damages
from serving.status.copy_wait import awaits_copy, copy_wait_ms
from serving.status.daemon_status import BoundUse, DaemonStatus, PartitionStatus, Phase, SchemaSourceStatus
from serving.status.metrics import Metrics
from tiering.cycle_report import CycleReport, PartitionReport
from tiering.tiering_limits import TieringLimits

BoundSource: TypeAlias = Callable[[], Iterable[BoundUse]]
_Counts: TypeAlias = tuple[int, int, int, int]

_ERROR_KINDS = ((CommitUnknown, "commit_unknown"), (Corrupt, "corrupt"), (Invalid, "invalid"))


class StatusBoard:
    """Written by the tiering thread after each cycle, read by the doors' threads."""

    def __init__(self, *, version: str, clock: Clock, limits: TieringLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._status = DaemonStatus(
            version=version, phase=Phase.STARTING, started_ms=clock.now_ms(), now_ms=clock.now_ms()
        )
        self._began_at_ms = self._heard_at_ms = clock.monotonic_ms()
        self._counted: dict[tuple[str, int], _Counts] = {}
        self._cycle_bounds: list[BoundSource] = []
        self._bounds_now: list[BoundSource] = [open_file_bound]
        self._sources: Callable[[], tuple[SourceHealth, ...]] = tuple
        self._damages: Callable[[], Damages] = Damages
        self._copies = CopyRequests(clock)
        self._copy_awaited_ms: dict[tuple[str, int], int] = {}
        self.metrics = Metrics(self.status)

    def watch_each_cycle(self, bounds: BoundSource) -> None:
        """Look at these bounds after each cycle, from the tiering thread: a disk that hangs must not hang the page."""
        self._cycle_bounds.append(bounds)

    def watch(self, bounds: BoundSource) -> None:
        """Look at these bounds whenever somebody asks for the status."""
        self._bounds_now.append(bounds)

    def watch_copies(self, copies: CopyRequests) -> None:
        """Take from here, after each cycle, what the broker asked for."""
        self._copies = copies

    def watch_sources(self, health: Callable[[], tuple[SourceHealth, ...]]) -> None:
        """Look at these schema sources whenever somebody asks for the status."""
        self._sources = health

    def watch_damages(self, found: Callable[[], Damages]) -> None:
        """Ask for what readers met damaged whenever somebody asks for the status."""
        self._damages = found

    def status(self) -> DaemonStatus:
        """The newest status, with the time and the memory of now."""
        with self._lock:
            status, heard_at_ms = self._status, self._heard_at_ms
        monotonic_ms = self._clock.monotonic_ms()
        silent_ms = monotonic_ms - heard_at_ms
        damages = self._damages()
        return replace(
            status,
            now_ms=self._clock.now_ms(),
            uptime_ms=monotonic_ms - self._began_at_ms,
            silent_ms=silent_ms,
            # Who waited when the last cycle ended has waited on since.
            partitions=tuple(
                replace(partition, lag_ms=partition.lag_ms + silent_ms) if partition.lag_ms else partition
                for partition in status.partitions
            ),
            bounds=(*status.bounds, *(bound for source in self._bounds_now for bound in source())),
            damages=damages.newest,
            damage_count=damages.count,
            schema_sources=tuple(map(_source_status, self._sources())),
            memory_bytes=_memory_bytes(),
        )

    def enter(self, phase: Phase) -> None:
        with self._lock:
            self._status = replace(self._status, phase=phase)

    def set_cluster_id(self, cluster_id: str) -> None:
        with self._lock:
            self._status = replace(self._status, cluster_id=cluster_id)

    def note_cycle(self, report: CycleReport) -> None:
        """Take a cycle's report in."""
        now_ms = self._clock.now_ms()
        whole_ms = report.durations_ms.get("whole", 0.0)
        self.metrics.count_cycle(
            duration_seconds=whole_ms / 1000, commits=report.commits, repaired_records=report.repaired_records
        )
        for error in _errors(report):
            self.metrics.count_error(_kind_of(error))
        for partition in report.partitions:
            self._count(partition)
        spool = BoundUse(name="spool_max_bytes", used=report.spool_bytes, limit=self._limits.spool_max_bytes)
        bounds = (spool, *(bound for source in self._cycle_bounds for bound in source()))
        # A cycle that failed as a whole saw no partition: what is known of them is as old as the last good one.
        saw_nothing = bool(report.problems) and not report.partitions
        with self._lock:
            self._heard_at_ms = self._clock.monotonic_ms()
            self._status = replace(
                self._status,
                last_cycle_ms=now_ms,
                last_commit_ms=now_ms if report.commits else self._status.last_commit_ms,
                cycle_count=self._status.cycle_count + 1,
                commit_count=self._status.commit_count + report.commits,
                partitions=self._status.partitions
                if saw_nothing
                else tuple(map(self._partition_status, report.partitions)),
                problems=tuple(str(problem) for problem in report.problems),
                problem_kinds=tuple(_kind_of(problem) for problem in report.problems),
                bounds=self._status.bounds if saw_nothing else bounds,
            )

    def _partition_status(self, report: PartitionReport) -> PartitionStatus:
        key = (report.partition.topic_id, report.partition.partition)
        asked = self._copies.of(*key)
        now_ms = self._clock.monotonic_ms()
        waits = awaits_copy(
            native=report.native,
            leads_here=report.leads_here,
            closed_end=report.closed_end,
            committed_here=report.records > 0,
            safe_end=None if asked is None else asked.safe_end,
        )
        since_ms = self._copy_awaited_ms.setdefault(key, now_ms) if waits else self._copy_awaited_ms.pop(key, None)
        return replace(
            _partition_status(report),
            copied_end=None if asked is None or asked.safe_end < 0 else asked.safe_end,
            copy_wait_ms=copy_wait_ms(
                waits_since_ms=since_ms if waits else None,
                last_asked_ms=None if asked is None else asked.last_ms,
                now_ms=now_ms,
            ),
        )

    def _count(self, partition: PartitionReport) -> None:
        """Reports count since the start; counters want what is new."""
        who = partition.partition
        now = (partition.records, partition.raw_rows, partition.undecodable_rows, partition.skipped_offsets)
        before = self._counted.get((who.topic_id, who.partition), (0, 0, 0, 0))
        rows, raw, undecodable, skipped = (after - had for after, had in zip(now, before, strict=True))
        self._counted[who.topic_id, who.partition] = now
        # Nothing is counted too: a counter that begins with its first increase shows none.
        self.metrics.count_rows(who.topic, typed=rows - raw - undecodable, raw=raw, undecodable=undecodable)
        self.metrics.count_skipped(who.topic, skipped)


def _source_status(health: SourceHealth) -> SchemaSourceStatus:
    return SchemaSourceStatus(
        name=health.name,
        away_ms=health.away_ms,
        problem=None if health.problem is None else str(health.problem),
        questions=health.questions,
        failures=health.failures,
    )


def _partition_status(report: PartitionReport) -> PartitionStatus:
    return PartitionStatus(
        topic=report.partition.topic,
        partition=report.partition.partition,
        table=report.table,
        native=report.native,
        leader_here=report.leads_here,
        tiered_start=report.tiered_start,
        tiered_end=report.tiered_end,
        stable_end=report.stable_end,
        log_start=report.log_start,
        lag_ms=report.lag_ms,
        waiting=None if report.waiting is None else str(report.waiting),
        waiting_kind=None if report.waiting is None else report.waiting.kind.name.lower(),
        problem=None if report.problem is None else str(report.problem),
        problem_kind=None if report.problem is None else _kind_of(report.problem),
        spool_bytes=report.spool_bytes,
        at_risk_bytes=report.at_risk_bytes,
        local_log_bytes=report.local_log_bytes,
        rows=report.records,
        raw_rows=report.raw_rows,
        undecodable_rows=report.undecodable_rows,
        skipped_offsets=report.skipped_offsets,
        reason_rows=report.kept.with_reason,
        awaiting_rows=report.kept.awaiting_schema,
        refusals=report.refusals,
        last_refusal=report.last_refusal,
    )


def _errors(report: CycleReport) -> tuple[FloebergError, ...]:
    of_partitions = tuple(part.problem for part in report.partitions if part.problem is not None)
    return (*report.problems, *of_partitions)


def _kind_of(error: FloebergError) -> str:
    return next((name for kind, name in _ERROR_KINDS if isinstance(error, kind)), "unavailable")


def _memory_bytes() -> dict[str, int]:
    """Memory of this process and, together, of those it started (Spark's JVM and workers)."""
    children = 0
    try:
        own = psutil.Process(os.getpid())
        for child in own.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                children += _share_bytes(child)
        return {"daemon": _share_bytes(own), "spark": children}
    except OSError:
        # Out of file handles: the status must be had all the same, for it says so.
        return {}


def _share_bytes(process: psutil.Process) -> int:
    """Resident memory, of which a page that n processes share counts for the n-th part of it: Spark's workers are forks
    of one process, and their sum would count what they all have several times. Elsewhere than on Linux, without that.
    """
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.rss))
