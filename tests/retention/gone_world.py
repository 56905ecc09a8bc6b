"""A daemon's tiering, sweeps and look for deleted topics, over a broker that tests delete topics at."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from engine.table.companion_folder import companion_folder
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.assembly import seen_here
from retention.gone_topic_watch import GoneTopicWatch
from retention.sweep_limits import SweepLimits
from retention.sweep_loop import FIRST_LOOK_MS, SweepLoop
from tests.tiering.tiering_world import STRINGS, TieringWorld
from tiering.loop import TieringLoop
from topics.gone_topic_status import GoneTopicStatus

GRACE_MS = 24 * 3_600_000
LIMITS = SweepLimits(grace_ms=GRACE_MS)
DROPPING = replace(STRINGS, drops_with_topic=True)


class GoneWorld(TieringWorld):
    """A topic ``orders`` that a daemon keeps, beside one that stays."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.rules = (DROPPING,)
        (self.orders,) = self.broker.create_topic("orders")
        (self.stays,) = self.broker.create_topic("stays")
        for partition in (self.orders, self.stays):
            self.broker.append_segment(partition, [b"a", b"b", b"c"], keys=[b"x", b"y", b"x"])
        self.begin()
        self.tiering.cycle()

    def begin(self) -> None:
        """A daemon starts, with nothing in memory."""
        self.tiering: TieringLoop = self.loop(rules=self.rules)
        self.gone = GoneTopicWatch(
            broker=self.broker.port,
            catalog=self.catalog,
            namespace="kafka",
            rules=self.rules,
            clock=self.clock,
            limits=LIMITS,
            folder=self.root / "sweep",
            here=lambda: seen_here(self.tiering.report),
        )
        self.sweeps = SweepLoop(
            catalog=self.catalog,
            namespace="kafka",
            writer=self.writer(),
            clock=self.clock,
            limits=LIMITS,
            folder=self.root / "sweep",
            gone=self.gone,
        )
        self.tiering.on_cycle(lambda report: self.sweeps.note_topics(report.led))

    def delete(self, partition: TopicIdPartition) -> None:
        """As Kafka does, a minute ago: tiering has seen that the partition's folder is gone."""
        shutil.rmtree(self.broker.directory(partition))
        self.broker.port.delete_topic(partition.topic)
        self.tiering.cycle()
        self.clock.ahead_ms += 60_000
        self.tiering.cycle()

    def look(self) -> GoneTopicStatus | None:
        """What is said of the topic, by a daemon that looked at its broker just now."""
        self.tiering.cycle()
        self.gone.look()
        return next((one for one in self.gone.report() if one.topic_id == self.orders.topic_id), None)

    def sweep_all(self) -> None:
        """Every sweep that is due now, or within an hour and some."""
        for _ in range(2):
            self.tiering.cycle()
            while self.sweeps.turn():
                pass
            self.clock.ahead_ms += FIRST_LOOK_MS + LIMITS.interval_ms

    def names(self) -> list[str]:
        return sorted(name for _, name in self.catalog.list_tables("kafka"))

    def files(self, location: str) -> list[str]:
        table = self.table(self.stays)
        return sorted(
            file.path for root in (location, companion_folder(location)) for file in table.warehouse.list(root)
        )
