"""Metrics for Prometheus, all but those of the process named ``floeberg_…``, in a registry of their own.

Counters are counted where things happen and last as long as the process; gauges are read off the daemon at each scrape.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest

from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from serving.door import DoorMetrics
from serving.status.daemon_status import (
    OPEN_FILES,
    BoundUse,
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    SchemaSourceStatus,
    TableSweepStatus,
)
from serving.status.exposition import Exposition, labels_text
from serving.status.topic_series import (
    MOST_PARTITIONS,
    PartitionNow,
    partitions_to_show,
    write_partitions,
    write_topics,
)
from topics.topic_totals import TopicTotals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ERROR_KINDS = tuple(error.kind for error in (Unavailable, Corrupt, Invalid, CommitUnknown))
_CYCLE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Idle ones take milliseconds, those with gigabytes in the cycle itself minutes."""
_COMMIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""7 ms on a new table in SQLite; after a minute no further attempt begins."""

# Series that say when each other one began: as many again, and rates are told without them.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLook:
    """The daemon at one moment: its ``status`` without partitions, these, and what was committed by topic."""

    status: DaemonStatus
    partitions: Sequence[PartitionNow] = ()
    totals: Mapping[str, TopicTotals] = field(default_factory=dict)


class Metrics:
    """The metrics of one daemon; safe to use from several threads."""

    def __init__(
        self, look: Callable[[], DaemonLook], *, version: str = "", most_partitions: int = MOST_PARTITIONS
    ) -> None:
        """``most_partitions`` have series of their own: all, or those that are behind or not well, the worst first."""
        self._look = look
        self._most_partitions = most_partitions
        self._build = labels_text(version=version, python=platform.python_version())
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.doors = DoorMetrics(self.registry)
        self._cycle_seconds = Histogram(
            "floeberg_cycle_duration_seconds",
            "Tiering cycles by outcome: committed, idle, or failed as a whole",
            ("outcome",),
            buckets=_CYCLE_SECONDS,
            registry=self.registry,
        )
        self._commit_seconds = Histogram(
            "floeberg_commit_duration_seconds",
            "Iceberg commits by what they change, from the first look at the table, conflicts included",
            ("change",),
            buckets=_COMMIT_SECONDS,
            registry=self.registry,
        )
        self._errors = Counter(
            "floeberg_errors",
            "Errors by what is to be done: unavailable (tried again), corrupt and invalid (an operator must look),"
            " commit_unknown (the ledger is read)",
            ("kind",),
            registry=self.registry,
        )
        for kind in ERROR_KINDS:
            self._errors.labels(kind)
        self._repaired = Counter(
            "floeberg_repaired_records",
            "Records that were stored without columns, or with bytes beside them, and have more columns now",
            registry=self.registry,
        )

    def count_cycle(self, *, duration_ms: float, outcome: str) -> None:
        """``outcome`` is committed, idle or failed."""
        self._cycle_seconds.labels(outcome).observe(duration_ms / 1000)

    def count_commit(self, change: str, duration_ms: int) -> None:
        self._commit_seconds.labels(change).observe(duration_ms / 1000)

    def count_repaired(self, records: int) -> None:
        self._repaired.inc(records)

    def count_error(self, kind: str) -> None:
        """``kind`` is unavailable, corrupt, invalid or commit_unknown."""
        self._errors.labels(kind).inc()

    def exposition(self) -> bytes:
        """The text that a scrape gets (``CONTENT_TYPE``)."""
        look, text = self._look(), Exposition()
        text.gauges("floeberg_build_info", "1; what runs", [(self._build, 1)])
        is_healthy = look.status.is_healthy and all(one.is_well for one in look.partitions)
        text.gauge("floeberg_healthy", "1 while nothing needs an operator", is_healthy)
        _write_daemon(text, look.status)
        write_topics(text, look.partitions, look.totals)
        write_partitions(text, partitions_to_show(look.partitions, self._most_partitions))
        _write_bounds(text, look.status.bounds)
        _write_sources(text, look.status.schema_sources)
        _write_compaction(text, look.status.compaction)
        _write_latest(text, look.status.latest)
        _write_sweeps(text, look.status.sweeps)
        states = [one.state for one in look.status.gone_topics]
        text.gauges(
            "floeberg_gone_topic_tables",
            "Tables whose topics the broker has no more",
            ((labels_text(state=state), states.count(state)) for state in ("kept", "waiting", "dropped")),
        )
        return generate_latest(self.registry) + text.to_bytes()


def _write_daemon(text: Exposition, status: DaemonStatus) -> None:
    text.gauge(
        "floeberg_silent_seconds",
        "Since a cycle ended: grows while one is under way or hangs",
        status.silent_ms / 1000,
    )
    text.gauges(
        "floeberg_problems",
        "Problems that concern no one partition, by what is to be done",
        ((labels_text(kind=kind), status.problem_kinds.count(kind)) for kind in ERROR_KINDS),
    )
    text.gauge(
        "floeberg_damages",
        "Files and ranges that readers met damaged and that are not whole again",
        status.damage_count,
    )
    for what, when_ms in (("cycle", status.last_cycle_ms), ("commit", status.last_commit_ms)):
        if when_ms is not None:
            documentation = f"When the last {what} of tiering ended"
            text.gauge(f"floeberg_last_{what}_timestamp_seconds", documentation, when_ms / 1000)
    text.gauge(
        "floeberg_horizon_problems",
        "Tables whose horizons can't move until somebody looks",
        len(status.horizon_problems),
    )
    text.gauges(
        "floeberg_memory_bytes",
        "Resident memory, shared pages by their share",
        ((labels_text(process=process), size_bytes) for process, size_bytes in status.memory_bytes.items()),
    )


def _write_bounds(text: Exposition, bounds: Sequence[BoundUse]) -> None:
    """Each in its unit. The process's own ``process_open_fds`` is not there when not even the look gets a handle."""
    shown = [(labels_text(bound=one.name.removesuffix("_bytes")), one) for one in bounds if one.name.endswith("_bytes")]
    text.gauges("floeberg_bound_used_bytes", "What is in use of a bound", ((labels, one.used) for labels, one in shown))
    text.gauges("floeberg_bound_limit_bytes", "The bound", ((labels, one.limit) for labels, one in shown))
    files = [one for one in bounds if one.name == OPEN_FILES]
    text.gauges("floeberg_open_files", "File handles in use", (("", one.used) for one in files))
    text.gauges("floeberg_open_files_limit", "File handles that there may be", (("", one.limit) for one in files))


def _write_sources(text: Exposition, sources: Sequence[SchemaSourceStatus]) -> None:
    shown = [(labels_text(source=source.name), source) for source in sources]
    text.gauges(
        "floeberg_schema_source_away_seconds",
        "Since a schema registry stopped answering, or 0",
        ((labels, (source.away_ms or 0) / 1000) for labels, source in shown),
    )
    text.counters(
        "floeberg_schema_questions_total",
        "Questions to a schema registry",
        (
            (f'{labels},outcome="{outcome}"', count)
            for labels, one in shown
            for outcome, count in (("answered", one.questions - one.failures), ("failed", one.failures))
        ),
    )


def _write(text: Exposition, prefix: str, *told: tuple[str, str, float]) -> None:
    """Of (name, documentation, value); what is named _total is a counter."""
    for name, documentation, value in told:
        write = text.counters if name.endswith("_total") else text.gauges
        write(f"{prefix}_{name}", documentation, [("", value)])


def _write_latest(text: Exposition, latest: LatestStatus) -> None:
    _write(
        text,
        "floeberg_latest",
        ("tables", "Tables that show the newest record of each key", latest.tables),
        ("behind_offsets", "Offsets that they don't know of yet", latest.behind_offsets),
        ("problems", "Reasons for which some don't get on", len(latest.problems)),
        ("last_commit_timestamp_seconds", "When one was last brought on, or 0", (latest.last_commit_ms or 0) / 1000),
        ("commits_total", "Commits to them", latest.commits),
        ("rows_total", "Rows that were taken in", latest.rows),
        ("builds_total", "Partitions that were built whole", latest.builds),
    )


def _write_compaction(text: Exposition, compaction: CompactionStatus) -> None:
    _write(
        text,
        "floeberg_compaction",
        ("backlog_files", "Files that are to be merged and are not yet", compaction.backlog_files),
        ("backlog_bytes", "Their bytes", compaction.backlog_bytes),
        ("problems", "Files or tables that can't be merged until an operator looks", len(compaction.problems)),
        ("last_run_timestamp_seconds", "When files were last replaced, or 0", (compaction.last_run_ms or 0) / 1000),
        ("merges_total", "Groups of files that became one", compaction.merges),
        ("merged_files_total", "Files that were replaced by them", compaction.files),
        ("read_bytes_total", "Bytes read of those", compaction.read_bytes),
        ("written_bytes_total", "Bytes of the files in their place", compaction.written_bytes),
        ("appended_bytes_total", "Bytes of files that tiering wrote", compaction.appended_bytes),
        ("given_up_total", "Groups given up because somebody else changed their files", compaction.given_up),
        ("failures_total", "Groups or tables that failed, and are tried again", compaction.failures),
        ("conflicts_total", "Commits of others that came first", compaction.conflicts),
        ("cpu_seconds_total", "CPU time of merging and repairing", compaction.cpu_ms / 1000),
    )


def _write_sweeps(text: Exposition, sweeps: Sequence[TableSweepStatus]) -> None:
    shown = [(labels_text(topic=sweep.topic, table=sweep.table), sweep) for sweep in sweeps]
    for unit, documentation in (
        ("files", "Files in a table's folders, by why they are there"),
        ("bytes", "Their bytes"),
    ):
        text.gauges(
            f"floeberg_table_{unit}",
            documentation,
            (
                (f'{labels},reason="{reason}"', amount)
                for labels, sweep in shown
                for reason, amount in getattr(sweep, unit).items()
            ),
        )
    text.gauges(
        "floeberg_sweep_silent_seconds",
        "Since a table's folders were last looked at",
        ((labels, sweep.silent_ms / 1000) for labels, sweep in shown),
    )
    text.gauges(
        "floeberg_sweep_next_timestamp_seconds",
        "When the next file may go that nothing names, or 0",
        ((labels, (sweep.goes_next_ms or 0) / 1000) for labels, sweep in shown),
    )
    text.gauges(
        "floeberg_sweep_problem",
        "1 while a table can't be swept until an operator looks",
        ((labels, sweep.problem is not None) for labels, sweep in shown),
    )
    text.counters(
        "floeberg_swept_files_total",
        "Files removed that nothing named",
        ((labels, sweep.removed_files) for labels, sweep in shown),
    )
    text.counters(
        "floeberg_swept_bytes_total", "Their bytes", ((labels, sweep.removed_bytes) for labels, sweep in shown)
    )
