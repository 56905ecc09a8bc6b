"""The loops of tiering, compaction and retention with everything they stand on, put together from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from compaction.compaction_loop import CompactionLoop
from engine.broker import Broker, KafkaBroker
from engine.clock import Clock
from engine.table.catalog.deferred import open_catalog_when_there
from engine.table.catalog.sql import KeptMetadata
from engine.table.commit.writer import TableWriter
from engine.table.foreign.evidence import ForeignEvidence, ForeignTask, gather_evidence
from engine.table.merge.merge_files import MergeTask
from engine.table.proof.verifier import Verifier
from floeberg.daemon.bound_sources import disk_bounds
from floeberg.daemon.status_board import StatusBoard
from floeberg.settings import Settings
from floeberg.settings.rooms import (
    compaction_limits,
    sightings_folder,
    spark_settings,
    sweep_limits,
    tiering_limits,
    topic_rules,
)
from floeberg.settings.schema_sources import SchemaSources
from floeberg.version import program_version
from latest.latest_loop import LatestLoop
from retention.gone_topic_watch import GoneTopicWatch
from retention.gone_topics import SeenHere
from retention.horizon_loop import HorizonLoop
from retention.sweep_loop import SweepLoop
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.rewrite import RewriteTask
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.sized_workers import SizedWorkers
from workers.workers import Answered, InProcessWorkers, ReadBackTask, Workers

FILE_COST_BYTES = 64 << 10
"""What opening a file costs a merge, 4 ms of CPU, in bytes that it could read meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringAssembly:
    """One process has one. ``board`` is told of every cycle."""

    broker: KafkaBroker
    writer: TableWriter
    verifier: Verifier
    workers: Workers
    loop: TieringLoop
    compaction: CompactionLoop
    horizons: HorizonLoop
    sweeps: SweepLoop
    latest: LatestLoop
    board: StatusBoard
    schemas: SchemaSources

    def close(self) -> None:
        """End Spark, if it was started, and the connections to the broker and the schema registries."""
        self.schemas.close()
        self.workers.stop()
        self.broker.close()


def assemble_tiering(
    settings: Settings, clock: Clock, *, in_process: bool = False, kept: KeptMetadata | None = None
) -> TieringAssembly:
    """Everything but threads and doors; Spark starts with the first task unless ``in_process``. ``kept``: parsed
    metadata that the catalog shares with others.

    Raises ``Invalid`` for settings that a part refuses. A catalog that is away is waited for.
    """
    limits = tiering_limits(settings)
    board = _board(settings, clock, limits)
    workers = InProcessWorkers() if in_process else _sized_workers(settings)
    catalog = open_catalog_when_there(settings.catalog_properties, kept)
    writer = TableWriter(
        catalog,
        clock,
        namespace=settings.namespace,
        gather=partial(_gathered, workers),
        history=settings.history.limits,
        on_commit=board.metrics.count_commit,
    )
    verifier = Verifier()
    broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
    schemas = SchemaSources(settings.data_dir, clock)
    rules = topic_rules(settings, schemas)
    loop = TieringLoop(
        broker=broker,
        log_dirs=settings.broker.log_dirs,
        writer=writer,
        verifier=verifier,
        workers=workers,
        rules=rules,
        clock=clock,
        limits=limits,
    )
    compaction = CompactionLoop(
        writer=writer,
        workers=workers,
        verifier=verifier,
        clock=clock,
        limits=compaction_limits(settings),
        on_gain=board.metrics.count_repaired,
    )
    horizons = HorizonLoop(writer=writer, rules=rules, clock=clock)
    sweeps = _sweeps(settings, clock, writer=writer, broker=broker, loop=loop, rules=rules)
    latest = LatestLoop(
        writer=writer, directory=settings.data_dir / "latest", configs_of=broker.topic_configs, clock=clock
    )
    assembly = TieringAssembly(
        broker=broker,
        writer=writer,
        verifier=verifier,
        workers=workers,
        loop=loop,
        compaction=compaction,
        horizons=horizons,
        sweeps=sweeps,
        latest=latest,
        board=board,
        schemas=schemas,
    )
    _wire(assembly, settings)
    return assembly


def _board(settings: Settings, clock: Clock, limits: TieringLimits) -> StatusBoard:
    most_partitions = settings.metrics.max_partitions
    return StatusBoard(version=program_version(), clock=clock, limits=limits, most_partitions=most_partitions)


def _wire(parts: TieringAssembly, settings: Settings) -> None:
    """Who is told of what: the loops and the board of each cycle, the board of the loops."""
    loop, board = parts.loop, parts.board
    board.watch_sweeps(parts.sweeps.report)
    board.watch_gone(parts.sweeps.gone_report)
    board.watch_each_cycle(lambda: disk_bounds(settings))
    board.watch_sources(parts.schemas.health)
    board.watch_kept(parts.compaction.kept)
    board.watch_compaction(parts.compaction.report)
    board.watch_horizons(parts.horizons)
    board.watch_latest(parts.latest.report)
    board.watch_totals(lambda: loop.totals)
    compaction = (parts.compaction.merging, parts.compaction.repairing)
    board.watch_loops((loop.record, *compaction, parts.horizons.record, parts.sweeps.record, parts.latest.record))
    loop.on_found(board.note_found)
    loop.on_cycle(board.note_cycle)
    loop.on_cycle(lambda report: parts.compaction.note_topics(report.led, may_work=not report.is_behind))
    loop.on_cycle(lambda report: parts.horizons.note_topics(report.led, report.partitions))
    loop.on_cycle(lambda report: parts.sweeps.note_topics(report.led))
    loop.on_cycle(lambda report: parts.latest.note_topics(report.led))


def _sweeps(
    settings: Settings,
    clock: Clock,
    *,
    writer: TableWriter,
    broker: Broker,
    loop: TieringLoop,
    rules: Sequence[TopicRule],
) -> SweepLoop:
    # A catalog of its own: the writer's belongs to the writer and its lock.
    catalog = open_catalog_when_there(settings.catalog_properties)
    limits, folder = sweep_limits(settings), sightings_folder(settings)
    gone = GoneTopicWatch(
        broker=broker,
        catalog=catalog,
        namespace=settings.namespace,
        rules=rules,
        clock=clock,
        limits=limits,
        folder=folder,
        here=lambda: seen_here(loop.report),
    )
    return SweepLoop(
        catalog=catalog,
        namespace=settings.namespace,
        writer=writer,
        clock=clock,
        limits=limits,
        folder=folder,
        gone=gone,
    )


def seen_here(report: CycleReport | None) -> SeenHere:
    """What the last cycle says of the topics that are here."""
    if report is None:
        return SeenHere()
    return SeenHere(
        is_whole=report.cluster_id is not None and not report.problems,
        topic_ids=frozenset(one.partition.topic_id for one in report.partitions),
    )


def _sized_workers(settings: Settings) -> Workers:
    # pyspark takes a second to import: not for a run that needs no Spark.
    from workers.spark_workers import SparkWorkers

    spark = SparkWorkers(spark_settings(settings))
    return SizedWorkers(here=InProcessWorkers(), elsewhere=spark, size_of=size_here)


def size_here(task: object) -> int | None:
    """Bytes that a task reads; None for those that are never done in the daemon's own process: work on files that
    others wrote, and what may have ended a process before."""
    match task:
        case RewriteTask(is_suspect=False):
            return task.size_bytes
        case ReadBackTask(is_suspect=False):
            return task.file.size_bytes
        case MergeTask():
            return sum(max(file.size_bytes, FILE_COST_BYTES) for file in task.files)
    return None


def _gathered(workers: Workers, tasks: Sequence[ForeignTask]) -> list[Answered[ForeignEvidence]]:
    """Evidence of each file, in order."""
    found = dict(workers.run(gather_evidence, dict(enumerate(tasks))))
    return [found[index] for index in range(len(tasks))]
