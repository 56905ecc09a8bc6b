"""A stored table, sweeps of it, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from engine.clock import SystemClock
from engine.table.data_file import FileDescription
from engine.warehouse.warehouse import Warehouse
from retention.sweep_limits import SweepLimits
from retention.sweep_planner import Verdict
from retention.table_sweep import SweepTurn, TableSweep
from tests.engine.table.stored_table import Stored
from tests.engine.table.table_examples import TOPIC, TOPIC_ID, append_of, catalog_in, open_writer

GRACE_MS = 24 * 3_600_000


class MovedClock(SystemClock):
    """The machine's; ``ahead_ms`` time that passes for both clocks, ``set_ms`` how far the wall clock was set."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms + self.set_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class SweepWorld(Stored):
    """``sweep()`` is one as a new process makes it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clock = MovedClock()
        self.in_use: Set[str] = frozenset()

    def sweep(self, *, data_dir: str = "data", topic_id: str = TOPIC_ID) -> TableSweep:
        return TableSweep(
            topic=TOPIC,
            topic_id=topic_id,
            catalog=catalog_in(self.folder),
            namespace="kafka",
            writer=open_writer(self.folder),
            clock=self.clock,
            limits=SweepLimits(grace_ms=GRACE_MS),
            folder=self.folder / data_dir,
            in_use=lambda: self.in_use,
        )

    def swept_after_the_grace(self) -> SweepTurn:
        """Seen, and looked at again when the grace is over, by two processes."""
        self.sweep().turn()
        self.clock.ahead_ms += GRACE_MS
        return self.sweep().turn()

    def verdicts(self) -> dict[str, Verdict]:
        told: list[Verdict] = []
        self.sweep().preview(told.append)
        return {one.file.path: one for one in told}

    def written(self, attempt: str = "left") -> FileDescription:
        """A data file that nobody has committed (yet), of the offsets that come next."""
        start = 5 * len(self.files)
        file = append_of(self.view(), start, start + 5, attempt=attempt).file
        assert file is not None
        return file.description

    def put(self, path: str, content: bytes = b"x") -> str:
        Warehouse().write_bytes(path, content)
        return path

    def is_there(self, path: str) -> bool:
        return Warehouse().exists(path)

    def readable_offsets(self) -> list[int]:
        found = self.iceberg().scan(selected_fields=("kafka_offset",)).to_arrow()
        return sorted(found["kafka_offset"].to_pylist())
