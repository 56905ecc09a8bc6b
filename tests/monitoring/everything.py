"""The scrape of a daemon to which everything has happened: every metric there is, with every label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from engine.clock import SystemClock
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from floeberg.daemon.bound_sources import LOG_DISK, WAREHOUSE_DISK, cache_bounds, open_file_bound
from floeberg.daemon.status_board import StatusBoard
from serving.door import DoorUse
from serving.status.daemon_status import FILE_REASONS, BoundUse, SchemaSourceStatus, TableSweepStatus
from serving.status.metrics import ERROR_KINDS, DaemonLook, Metrics
from serving.status.topic_series import PartitionNow
from tiering.planner import Waiting
from tiering.tiering_limits import TieringLimits
from topics.partition_status import PartitionStatus

TOPIC = "orders"


QUIET = PartitionStatus(topic=TOPIC, partition=0, tiered_end=1, stable_end=2, waiting_kind="nothing_new")
TROUBLED = (
    *(replace(QUIET, partition=number, problem="?", problem_kind=kind) for number, kind in enumerate(ERROR_KINDS)),
    *(replace(QUIET, partition=number, waiting_kind=one.name.lower()) for number, one in enumerate(Waiting, start=10)),
)


def metrics_of_everything(partitions: Sequence[PartitionStatus] = (QUIET,)) -> Metrics:
    """Of a daemon that is well but for these ``partitions``; one of each thing has been counted."""
    board = StatusBoard(version="test", clock=SystemClock(), limits=TieringLimits())
    reader = LogReader(file_index=FileIndex())
    disks = [BoundUse(name=name, used=1, limit=100) for name in ("spool_max_bytes", WAREHOUSE_DISK, LOG_DISK)]
    each = dict.fromkeys(FILE_REASONS, 1)
    status = replace(
        board.status(),
        last_cycle_ms=1,
        last_commit_ms=1,
        bounds=(*disks, *open_file_bound(), *cache_bounds(reader)),
        schema_sources=(SchemaSourceStatus(name="http://registry", questions=2, failures=1),),
        sweeps=(TableSweepStatus(topic=TOPIC, table=f"kafka.{TOPIC}", files=each, bytes=each),),
        memory_bytes={"daemon": 1, "spark": 1},
    )
    reader.close()
    look = DaemonLook(status=status, partitions=tuple(map(PartitionNow.of, partitions)))
    metrics = Metrics(lambda: look, version="test")
    for outcome in ("committed", "idle", "failed"):
        metrics.count_cycle(duration_ms=1, outcome=outcome)
    metrics.count_commit("append_ranges", 10)
    doors = metrics.doors
    for door, request in (("log", "records"), ("log", "copy"), ("tables", "load_table")):
        doors.answered(door, request, 200)
        with doors.timed(door, request):
            pass
    for request in ("copies", "reads"):
        doors.under_way(DoorUse(door="log", request=request, used=0, limit=64))
    doors.sent("log", 1)
    doors.broke_off("log")
    return metrics


def samples(metrics: Metrics) -> list[Sample]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return [sample for family in families for sample in family.samples]


def samples_of_everything() -> list[Sample]:
    """Well, and with each kind of problem and each reason to wait."""
    return [*samples(metrics_of_everything()), *samples(metrics_of_everything(TROUBLED))]
