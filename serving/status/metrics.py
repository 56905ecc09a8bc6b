"""Metrics for Prometheus, all named ``floeberg_…``, in a registry of their own.

Counters are counted as things happen; gauges are read off the daemon's status at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from serving.door import DoorMetrics
from serving.status.daemon_status import (
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    SchemaSourceStatus,
    TableSweepStatus,
)
from topics.partition_status import PartitionStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CYCLE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_PARTITION_LABELS = ("topic", "partition")
ERROR_KINDS = tuple(error.kind for error in (Unavailable, Corrupt, Invalid, CommitUnknown))


class Metrics:
    """The metrics of one daemon; safe to use from several threads."""

    def __init__(self, status: Callable[[], DaemonStatus]) -> None:
        self.registry = CollectorRegistry()
        self.doors = DoorMetrics(self.registry)
        self._cycles = Counter("floeberg_cycles", "Tiering cycles, idle ones included", registry=self.registry)
        self._commits = Counter("floeberg_commits", "Iceberg commits of tiering", registry=self.registry)
        self._cycle_seconds = Histogram(
            "floeberg_cycle_seconds", "Duration of tiering cycles", buckets=_CYCLE_SECONDS, registry=self.registry
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
        self._rows = Counter(
            "floeberg_rows",
            "Rows committed, by how their value is kept: typed (columns alone), raw (columns and bytes), undecodable"
            " (bytes and a reason)",
            ("topic", "kept"),
            registry=self.registry,
        )
        self._repaired = Counter(
            "floeberg_repaired_records",
            "Records that were stored without columns, or with bytes beside them, and have more columns now",
            registry=self.registry,
        )
        self._skipped = Counter(
            "floeberg_skipped_offsets",
            "Offsets that Kafka deleted before they were tiered: they are in no table",
            ("topic",),
            registry=self.registry,
        )
        self.registry.register(_StatusCollector(status))

    def count_cycle(self, *, duration_seconds: float, commits: int) -> None:
        self._cycles.inc()
        self._cycle_seconds.observe(duration_seconds)
        self._commits.inc(commits)

    def count_repaired(self, records: int) -> None:
        self._repaired.inc(records)

    def count_error(self, kind: str) -> None:
        """``kind`` is unavailable, corrupt, invalid or commit_unknown."""
        self._errors.labels(kind).inc()

    def count_rows(self, topic: str, *, typed: int, raw: int, undecodable: int) -> None:
        for kept, count in (("typed", typed), ("raw", raw), ("undecodable", undecodable)):
            self._rows.labels(topic, kept).inc(count)

    def count_skipped(self, topic: str, offsets: int) -> None:
        self._skipped.labels(topic).inc(offsets)

    def exposition(self) -> bytes:
        """The text that a scrape gets (``CONTENT_TYPE``)."""
        return generate_latest(self.registry)


class _StatusCollector(Collector):
    def __init__(self, status: Callable[[], DaemonStatus]) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry must not ask for the status while the daemon is being put together."""
        return ()

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield GaugeMetricFamily("floeberg_healthy", "1 while nothing needs an operator", float(status.is_healthy))
        yield GaugeMetricFamily(
            "floeberg_started_timestamp_seconds", "When the daemon started", status.started_ms / 1000
        )
        yield GaugeMetricFamily(
            "floeberg_silent_seconds",
            "Since a cycle ended: grows while one is under way or hangs",
            status.silent_ms / 1000,
        )
        problems = GaugeMetricFamily(
            "floeberg_problems", "Problems that concern no one partition, by what is to be done", labels=("kind",)
        )
        for kind in ERROR_KINDS:
            problems.add_metric((kind,), status.problem_kinds.count(kind))
        yield problems
        yield GaugeMetricFamily(
            "floeberg_damages",
            "Files and ranges that readers met damaged and that are not whole again",
            status.damage_count,
        )
        if status.last_cycle_ms is not None:
            yield GaugeMetricFamily(
                "floeberg_last_cycle_timestamp_seconds", "When the last cycle ended", status.last_cycle_ms / 1000
            )
        if status.last_commit_ms is not None:
            yield GaugeMetricFamily(
                "floeberg_last_commit_timestamp_seconds", "When tiering last committed", status.last_commit_ms / 1000
            )
        yield from _partition_gauges(status.partitions)
        yield _named(
            status.partitions,
            "floeberg_partition_problem",
            "1 while something is wrong with the partition, by what is to be done",
            "kind",
            lambda partition: partition.problem_kind,
        )
        yield _named(
            status.partitions,
            "floeberg_partition_waiting",
            "1 for the reason why the partition has nothing to do, or not all of it",
            "reason",
            lambda partition: partition.waiting_kind,
        )
        memory = GaugeMetricFamily(
            "floeberg_memory_bytes", "Resident memory, shared pages by their share", labels=("process",)
        )
        for process, size_bytes in status.memory_bytes.items():
            memory.add_metric((process,), size_bytes)
        yield memory
        used = GaugeMetricFamily("floeberg_bound_used", "What is in use of a bound", labels=("bound",))
        limit = GaugeMetricFamily("floeberg_bound_limit", "The bound; alert before used reaches it", labels=("bound",))
        for bound in status.bounds:
            used.add_metric((bound.name,), bound.used)
            limit.add_metric((bound.name,), bound.limit)
        yield used
        yield limit
        yield from _source_metrics(status.schema_sources)
        yield from _compaction_metrics(status.compaction)
        yield from _latest_metrics(status.latest)
        held = len(status.horizon_problems)
        yield GaugeMetricFamily(
            "floeberg_horizon_problems", "Tables whose horizons can't move until somebody looks", held
        )
        yield from _sweep_metrics(status.sweeps)


def _gauges(prefix: str, *told: tuple[str, str, float]) -> Iterator[Metric]:
    """Of (name, documentation, value)."""
    for name, documentation, value in told:
        yield GaugeMetricFamily(f"{prefix}_{name}", documentation, float(value))


def _counters(prefix: str, *told: tuple[str, str, float]) -> Iterator[Metric]:
    for name, documentation, value in told:
        yield CounterMetricFamily(f"{prefix}_{name}", documentation, float(value))


def _latest_metrics(latest: LatestStatus) -> Iterator[Metric]:
    yield from _gauges(
        "floeberg_latest",
        ("tables", "Tables that show the newest record of each key", latest.tables),
        ("behind_offsets", "Offsets that they don't know of yet", latest.behind_offsets),
        ("problems", "Reasons for which some don't get on", len(latest.problems)),
        ("last_commit_timestamp_seconds", "When one was last brought on, or 0", (latest.last_commit_ms or 0) / 1000),
    )
    yield from _counters(
        "floeberg_latest",
        ("commits", "Commits to them", latest.commits),
        ("rows", "Rows that were taken in", latest.rows),
        ("builds", "Partitions that were built whole", latest.builds),
    )


def _compaction_metrics(compaction: CompactionStatus) -> Iterator[Metric]:
    yield from _gauges(
        "floeberg_compaction",
        ("backlog_files", "Files that are to be merged and are not yet", compaction.backlog_files),
        ("backlog_bytes", "Their bytes", compaction.backlog_bytes),
        ("problems", "Files or tables that can't be merged until an operator looks", len(compaction.problems)),
        ("last_run_timestamp_seconds", "When files were last replaced, or 0", (compaction.last_run_ms or 0) / 1000),
    )
    yield from _counters(
        "floeberg_compaction",
        ("merges", "Groups of files that became one", compaction.merges),
        ("merged_files", "Files that were replaced by them", compaction.files),
        ("read_bytes", "Bytes read of those", compaction.read_bytes),
        ("written_bytes", "Bytes of the files in their place", compaction.written_bytes),
        ("appended_bytes", "Bytes of files that tiering wrote", compaction.appended_bytes),
        ("given_up", "Groups given up because somebody else changed their files", compaction.given_up),
        ("failures", "Groups or tables that failed, and are tried again", compaction.failures),
        ("conflicts", "Commits of others that came first", compaction.conflicts),
        ("cpu_seconds", "CPU time of merging and repairing", compaction.cpu_ms / 1000),
    )


def _sweep_metrics(sweeps: tuple[TableSweepStatus, ...]) -> Iterator[Metric]:
    files = GaugeMetricFamily(
        "floeberg_table_files", "Files in a table's folders, by why they are there", labels=("topic", "table", "reason")
    )
    sizes = GaugeMetricFamily("floeberg_table_bytes", "Their bytes", labels=("topic", "table", "reason"))
    silent = GaugeMetricFamily(
        "floeberg_sweep_silent_seconds", "Since a table's folders were last looked at", labels=("topic", "table")
    )
    goes_next = GaugeMetricFamily(
        "floeberg_sweep_next_timestamp_seconds",
        "When the next file may go that nothing names, or 0",
        labels=("topic", "table"),
    )
    problem = GaugeMetricFamily(
        "floeberg_sweep_problem", "1 while a table can't be swept until an operator looks", labels=("topic", "table")
    )
    removed = CounterMetricFamily("floeberg_swept_files", "Files removed that nothing named", labels=("topic", "table"))
    removed_bytes = CounterMetricFamily("floeberg_swept_bytes", "Their bytes", labels=("topic", "table"))
    for sweep in sweeps:
        of = sweep.topic, sweep.table
        for reason, count in sweep.files.items():
            files.add_metric((*of, reason), count)
            sizes.add_metric((*of, reason), sweep.bytes[reason])
        silent.add_metric(of, sweep.silent_ms / 1000)
        goes_next.add_metric(of, (sweep.goes_next_ms or 0) / 1000)
        problem.add_metric(of, float(sweep.problem is not None))
        removed.add_metric(of, sweep.removed_files)
        removed_bytes.add_metric(of, sweep.removed_bytes)
    yield from (files, sizes, silent, goes_next, problem, removed, removed_bytes)


def _source_metrics(sources: tuple[SchemaSourceStatus, ...]) -> Iterator[Metric]:
    away = GaugeMetricFamily(
        "floeberg_schema_source_away_seconds", "Since a schema registry stopped answering, or 0", labels=("source",)
    )
    questions = CounterMetricFamily(
        "floeberg_schema_questions", "Questions to a schema registry", labels=("source", "outcome")
    )
    for source in sources:
        away.add_metric((source.name,), (source.away_ms or 0) / 1000)
        questions.add_metric((source.name, "answered"), source.questions - source.failures)
        questions.add_metric((source.name, "failed"), source.failures)
    yield away
    yield questions


_PARTITION_GAUGES: tuple[tuple[str, str, Callable[[PartitionStatus], float | None]], ...] = (
    ("floeberg_tiered_end_offset", "First offset that is not in the table", lambda one: one.tiered_end),
    ("floeberg_stable_end_offset", "First offset that is not committed in Kafka", lambda one: one.stable_end),
    ("floeberg_lag_records", "Stable offsets that are not in the table", lambda one: one.lag_records),
    ("floeberg_lag_seconds", "How long the oldest of them has waited", lambda one: one.lag_ms / 1000),
    ("floeberg_behind_records", "Those of them that should be in the table", lambda one: one.behind_records),
    ("floeberg_behind_seconds", "How long the oldest of those should have been", lambda one: one.behind_ms / 1000),
    ("floeberg_spool_bytes", "Segments held by hard links until they are committed", lambda one: one.spool_bytes),
    ("floeberg_at_risk_bytes", "Ready segments that the spool has no room for", lambda one: one.at_risk_bytes),
    (
        "floeberg_refused_ranges",
        "Ranges that another daemon committed first, since the start",
        lambda one: one.refusals,
    ),
    (
        "floeberg_copy_wait_seconds",
        "How long the broker has asked for no copy while closed segments that are in the table wait for it",
        lambda one: one.copy_wait_ms / 1000,
    ),
    ("floeberg_local_log_bytes", "Segments in the broker's log directory", lambda one: one.local_log_bytes),
    ("floeberg_partition_stopped", "1 when an operator must look", lambda one: float(is_stopped(one))),
)


def is_stopped(partition: PartitionStatus) -> bool:
    """True where nothing gets better by itself: what is only away is tried again."""
    return partition.waiting_kind == "stopped" or partition.problem_kind in {"corrupt", "invalid"}


def _named(
    partitions: tuple[PartitionStatus, ...],
    name: str,
    documentation: str,
    label: str,
    value_of: Callable[[PartitionStatus], str | None],
) -> Metric:
    """A gauge that is 1 under the label that applies; the partitions to which none does have no line."""
    gauge = GaugeMetricFamily(name, documentation, labels=(*_PARTITION_LABELS, label))
    for partition in partitions:
        value = value_of(partition)
        if value is not None:
            gauge.add_metric((partition.topic, str(partition.partition), value), 1.0)
    return gauge


def _partition_gauges(partitions: tuple[PartitionStatus, ...]) -> Iterator[Metric]:
    for name, documentation, value_of in _PARTITION_GAUGES:
        gauge = GaugeMetricFamily(name, documentation, labels=_PARTITION_LABELS)
        for partition in partitions:
            value = value_of(partition)
            if value is not None:
                gauge.add_metric((partition.topic, str(partition.partition)), value)
        yield gauge
