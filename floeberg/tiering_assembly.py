"""The tiering loop with everything it stands on, put together from the settings."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from engine.broker import KafkaBroker
from engine.clock import Clock
from engine.errors import Unavailable
from engine.table.catalog.deferred import open_catalog_when_there
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.bound_sources import disk_bounds
from floeberg.room_settings import spark_settings, tiering_limits, topic_rules
from floeberg.schema_sources import SchemaSources
from floeberg.settings import Settings
from floeberg.status_board import StatusBoard
from floeberg.version import program_version
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.rewriter import GatheringRewriter, InProcessRewriter, Rewriter

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringAssembly:
    """One process has one. ``board`` is told of every cycle."""

    broker: KafkaBroker
    writer: TableWriter
    verifier: Verifier
    rewriter: Rewriter
    loop: TieringLoop
    board: StatusBoard
    schemas: SchemaSources

    def close(self) -> None:
        """End Spark, if it was started, and the connections to the broker and the schema registries."""
        self.schemas.close()
        self.rewriter.close()
        self.broker.close()


def assemble_tiering(settings: Settings, clock: Clock, *, in_process: bool = False) -> TieringAssembly:
    """Everything but threads and doors; Spark starts with the first task unless ``in_process``.

    Raises ``Invalid`` for settings that a part refuses. A catalog that is away is waited for.
    """
    limits = tiering_limits(settings)
    rewriter = InProcessRewriter() if in_process else _spark_rewriter(settings)
    catalog = open_catalog_when_there(settings.catalog_properties)
    writer = TableWriter(catalog, clock, namespace=settings.namespace, gather=rewriter.gather)
    verifier = Verifier()
    broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
    schemas = SchemaSources(settings.data_dir, clock)
    loop = TieringLoop(
        broker=broker,
        log_dirs=settings.broker.log_dirs,
        writer=writer,
        verifier=verifier,
        rewriter=rewriter,
        rules=topic_rules(settings, schemas),
        clock=clock,
        limits=limits,
    )
    board = StatusBoard(version=program_version(), clock=clock, limits=limits)
    board.watch_each_cycle(lambda: disk_bounds(settings))
    board.watch_sources(schemas.health)
    loop.on_cycle(board.note_cycle)
    loop.on_cycle(_ClusterWatch(board, broker))
    return TieringAssembly(
        broker=broker, writer=writer, verifier=verifier, rewriter=rewriter, loop=loop, board=board, schemas=schemas
    )


def _spark_rewriter(settings: Settings) -> GatheringRewriter:
    # pyspark takes a second to import: not for a run that needs no Spark.
    from tiering.spark_rewrite import SparkRewriter

    return SparkRewriter(spark_settings(settings))


class _ClusterWatch:
    """Notes the cluster's id once, from the loop's thread: the broker's connection is for one thread at a time."""

    def __init__(self, board: StatusBoard, broker: KafkaBroker) -> None:
        self._board = board
        self._broker = broker
        self._is_known = False

    def __call__(self, report: CycleReport) -> None:
        if self._is_known or report.problems:
            return
        try:
            self._board.set_cluster_id(self._broker.cluster_id())
            self._is_known = True
        except Unavailable as error:
            _log.info("cluster_id_unknown", error=str(error))
