"""A world whose loop is watched as an operator would: by its log, its status, its metrics; and audited at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.status_board import StatusBoard
from tests.support.auditor import ProducersLog, Record, assert_clean, audit
from tests.support.auditor_sights import log_door_sight, table_sights
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS
from tests.tiering.tiering_world import STRINGS, TieringWorld
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.partition_status import PartitionStatus
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers, Workers

LONGEST_WAIT_MS = 61_000
"""Behind it, every partition is tried again: a stopped one is looked at once a minute."""


class BrokenWorld(TieringWorld):
    """Topic ``orders`` with partitions ``bad``, which the fault is to hit, and ``good``, which is to go on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.told = ProducersLog()
        self.limits = TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0)
        self.board = StatusBoard(version="test", clock=self.clock, limits=self.limits)
        self.bad, self.good = self.broker.create_topic("orders", partitions=2)
        self._ends = {self.bad: 0, self.good: 0}
        self.logged: list[Any] = []

    def watched_loop(
        self,
        workers: Workers | None = None,
        *,
        log_dirs: Sequence[Path] = (),
        rules: tuple[TopicRule, ...] = (STRINGS,),
    ) -> TieringLoop:
        loop = TieringLoop(
            broker=self.broker.port,
            log_dirs=[self.broker.log_dir, *log_dirs],
            writer=self.writer(),
            verifier=Verifier(),
            workers=workers or InProcessWorkers(),
            rules=rules,
            clock=self.clock,
            limits=self.limits,
        )
        loop.on_cycle(self.board.note_cycle)
        self.board.watch_totals(lambda: loop.totals)
        return loop

    def produce(self, *partitions: TopicIdPartition, count: int = 10) -> None:
        """One closed segment more."""
        for partition in partitions:
            start = self._ends[partition]
            values = [f"value {number} of {partition}".encode() for number in range(start, start + count)]
            self.broker.append_segment(partition, values)
            for offset, value in enumerate(values, start):
                record = Record(key=str(offset).encode(), value=value, timestamp_ms=FIRST_TIMESTAMP_MS + offset)
                self.told.acknowledged((partition.topic, partition.partition), offset, record)
            self._ends[partition] = start + count

    def segment(self, partition: TopicIdPartition, base_offset: int, suffix: str = ".log") -> Path:
        return self.broker.directory(partition) / f"{base_offset:020d}{suffix}"

    def cycle(self, loop: TieringLoop) -> CycleReport:
        """One cycle; what it logs goes to ``logged``."""
        with capture_logs() as logs:
            report = loop._guarded_cycle()
        self.logged.extend(logs)
        return report

    def recover(self, loop: TieringLoop) -> None:
        """Time passes and the loop goes round; nobody does anything."""
        for _ in range(3):
            self.clock.ahead_ms += LONGEST_WAIT_MS
            self.cycle(loop)

    def status_of(self, partition: TopicIdPartition) -> PartitionStatus:
        return next(one for one in self.board.status().partitions if one.partition == partition.partition)

    def metric(self, name: str, **labels: str) -> float | None:
        """A sample that a scrape gives; None when there is none."""
        for family in text_string_to_metric_families(self.board.metrics.exposition().decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    def problem_is_shown(self, partition: TopicIdPartition, kind: str, *words: str) -> None:
        """In the status with its coordinates, in the metrics by its kind, and in the log."""
        problem = self.status_of(partition).problem
        assert problem is not None, f"nothing is shown of {partition}"
        for word in (f"topic {partition.topic}", f"partition {partition.partition}", *words):
            assert word in problem, f"{word!r} is not in: {problem}"
        labels = {"topic": partition.topic, "partition": str(partition.partition)}
        assert self.metric("floeberg_partition_problem", kind=kind, **labels) == 1
        assert any(entry.get("error") == problem for entry in self.logged), "the log does not say it"

    def all_is_well(self) -> None:
        """Nothing is wrong any more, every record is in the table exactly once, and both doors give it back."""
        status = self.board.status()
        assert status.is_healthy, [status.problems, [one.problem for one in status.partitions]]
        table = self.table(self.bad)
        for partition, end in self._ends.items():
            assert table.ledger[partition.partition].end == end
        reader = LogReader(file_index=FileIndex())
        sights = [log_door_sight(table, number, reader=reader) for number in table.ledger]
        assert_clean(audit(self.told, [*table_sights(self.catalog, table.identifier), *sights]))
        reader.close()

    def went_on(self, partition: TopicIdPartition) -> None:
        """The partition has all its closed segments in the table, and no problem."""
        assert self.status_of(partition).tiered_end == self._ends[partition]
        assert self.status_of(partition).problem is None


@contextmanager
def moved_away(path: Path) -> Iterator[None]:
    """``path`` is not there, as a disk that is not mounted any more."""
    elsewhere = path.with_name(path.name + " moved away")
    path.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(path)


@contextmanager
def unmounted(path: Path) -> Iterator[None]:
    """Of ``path`` an empty folder is left, as of a disk whose mount point remains."""
    with moved_away(path):
        path.mkdir()
        try:
            yield
        finally:
            path.rmdir()
