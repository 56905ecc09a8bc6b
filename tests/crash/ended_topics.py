"""Topics that were deleted at the broker, and whose tables end with them: the daemon's part, and what may be left."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from floeberg.daemon.assembly import seen_here
from floeberg.tables.topic_tables import TopicTables
from retention.dropped_sweep import DroppedSweep
from retention.gone_topic_watch import GoneTopicWatch
from retention.sweep_limits import SweepLimits
from tests.tiering.tiering_world import TieringWorld
from tiering.loop import TieringLoop
from topics.topic_rule import TopicRule


def end_deleted_topics(world: TieringWorld, loop: TieringLoop, rules: Sequence[TopicRule]) -> None:
    """Note which topics are gone, drop their tables, see their files, and remove them: no grace is needed here."""
    limits, folder = SweepLimits(grace_ms=0), world.root / "data" / "sweep"
    gone = GoneTopicWatch(
        broker=world.broker.port,
        catalog=world.catalog,
        namespace="kafka",
        rules=rules,
        clock=world.clock,
        limits=limits,
        folder=folder,
        here=lambda: seen_here(loop.report),
    )
    for _ in range(2):
        gone.look()
    for dropped in gone.dropped:
        sweep = DroppedSweep(
            dropped,
            catalog=world.catalog,
            clock=world.clock,
            limits=limits,
            folder=folder,
            in_use=frozenset,
            hold=gone.hold,
            on_gone=gone.forget,
        )
        for _ in range(2):
            sweep.turn()


def left_of(world: TieringWorld, topic_ids: Collection[str]) -> list[str]:
    """Their tables in the catalog, and their files, wherever they lie."""
    tables = (table for table in TopicTables(world.catalog, "kafka").all() if table.topic_id in topic_ids)
    files = (path for path in (world.root / "data" / "warehouse").rglob("*") if path.is_file())
    left = (str(path) for path in files if any(topic_id in str(path) for topic_id in topic_ids))
    return [*(".".join(table.identifier) for table in tables), *left]
