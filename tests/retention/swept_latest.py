"""A topic with a ``__latest`` table, sweeps of both, and a clock that tests move."""

from __future__ import annotations

from pathlib import Path

from engine.table.commit.writer import TableWriter
from engine.warehouse.warehouse import StoredFile
from retention.sweep_limits import SweepLimits
from retention.table_sweep import SweepTurn, TableSweep
from tests.latest.latest_world import TOPIC, LatestWorld
from tests.retention.sweep_world import GRACE_MS, MovedClock

FIRST = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
THEN = [(b"b", b"4"), (b"c", b"5")]


class SweptLatest(LatestWorld):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.clock = MovedClock()

    def sweep(self, *, is_latest: bool = True) -> TableSweep:
        return TableSweep(
            topic=TOPIC,
            topic_id=self.partitions[0].topic_id,
            catalog=self.tiering.catalog,
            namespace="kafka",
            writer=TableWriter(self.tiering.catalog, self.clock),
            clock=self.clock,
            limits=SweepLimits(grace_ms=GRACE_MS),
            folder=self.root / "sweep",
            is_latest=is_latest,
        )

    def swept_after_the_grace(self) -> SweepTurn:
        self.sweep().turn()
        self.clock.ahead_ms += GRACE_MS
        return self.sweep().turn()

    def delete_files(self) -> dict[str, StoredFile]:
        """All its own Parquet files: it has no data files."""
        found = self.stream().warehouse.list(self.latest_table().location())
        return {file.path: file for file in found if file.path.endswith(".parquet")}
