"""What is seen of a fault: by ``fsck``, by a daemon that starts beside it, by consumers of all that was stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from pyiceberg.manifest import clear_manifest_cache

from engine.clock import SystemClock
from engine.errors import Corrupt, FloebergError
from engine.fsck.report import Finding
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader, LogReaderLimits
from engine.reading.read_ahead import ReadAheadLimits
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from floeberg.tables.survey import survey_tables
from floeberg.tables.topic_tables import TopicTables
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.backend import RemoteSegment
from serving.log.tiered_log import TieredLog
from tests.faults.fault_world import LIMITS, FaultWorld
from tests.support.auditor_sights import records_of_batches
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from workers.workers import InProcessWorkers

NAMESPACE = "kafka"
_WHOLE_SEGMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """``findings`` of fsck; ``problems`` of the daemon and the log door by topic; ``wrong`` what a consumer got that
    was never written there, or did not get without being told; ``went_on`` the partitions that were tiered further."""

    findings: tuple[Finding, ...]
    problems: dict[str, tuple[str, ...]]
    wrong: tuple[str, ...]
    went_on: frozenset[TopicIdPartition]


def look(world: FaultWorld) -> Sights:
    """Everything anew, as processes that start now see it."""
    clear_manifest_cache()
    findings = tuple(fsck(world))
    problems: dict[str, list[str]] = {}
    wrong: list[str] = []
    went_on: frozenset[TopicIdPartition] = frozenset()
    try:
        with _door(world) as door:
            for who, offsets in world.segments():
                wrong += _read(world, door, who, offsets, problems.setdefault(who.topic, []))
        went_on = frozenset(_tier(world, problems))
    except Corrupt as error:
        # No catalog can be opened: nothing else is to be seen.
        for who in world.truth:
            problems.setdefault(who.topic, []).append(f"daemon: {error}")
    return Sights(
        findings=findings,
        problems={topic: tuple(told) for topic, told in problems.items()},
        wrong=tuple(wrong),
        went_on=went_on,
    )


def _read(
    world: FaultWorld, door: TieredLog, who: TopicIdPartition, offsets: OffsetRange, told: list[str]
) -> Iterator[str]:
    """What a consumer gets of a segment and was not written; what the door says goes to ``told``."""
    segment = RemoteSegment(topic_id=who.topic_id, partition=who.partition, range=offsets)
    try:
        batches = door.records(segment, start=offsets.start, max_bytes=_WHOLE_SEGMENT_BYTES)
        got = list(records_of_batches(b"".join(batches)))
    except FloebergError as error:
        told.append(f"read: {error}")
    else:
        expected = [(offset, record) for offset, record in sorted(world.truth[who].items()) if offset in offsets]
        if got != expected:
            yield f"{who} {offsets}: {len(got)} records, {len(expected)} were written"
    try:
        door.verified(segment)
    except FloebergError as error:
        told.append(f"verified: {error}")


def fsck(world: FaultWorld) -> Iterator[Finding]:
    with ExitStack() as opened:
        survey = survey_tables(lambda: opened.enter_context(closing(world.open_catalog())), NAMESPACE)
        for report in survey.reports:
            yield from report.findings
        for table in survey.tables:
            yield from survey.check(table, log_dirs=[world.world.broker.log_dir], parallelism=1).findings


@contextmanager
def _door(world: FaultWorld) -> Iterator[TieredLog]:
    names = {who.topic_id: who.topic for who in world.truth}
    with closing(world.open_catalog()) as catalog, closing(_reader()) as reader:
        yield TieredLog(
            tables=TopicTables(catalog, NAMESPACE, topic_of=names.get),
            reader=reader,
            verifier=Verifier(),
            tiering=_Tiering(),
            store=AuxiliaryStore(),
        )


def _reader() -> LogReader:
    return LogReader(file_index=FileIndex(), limits=LogReaderLimits(read_ahead=ReadAheadLimits(prefetches=0)))


class _Tiering:
    def log_start(self, topic_id: str, partition: int) -> int | None:
        return None

    def hurry(self) -> None:
        """Nobody tiers meanwhile."""


def cycle(world: FaultWorld) -> CycleReport:
    """The first cycle of a daemon that starts now."""
    with closing(world.open_catalog()) as catalog:
        loop = TieringLoop(
            broker=world.world.broker.port,
            log_dirs=[world.world.broker.log_dir],
            writer=TableWriter(catalog, SystemClock()),
            verifier=Verifier(),
            workers=InProcessWorkers(),
            rules=world.rules,
            clock=SystemClock(),
            limits=LIMITS,
        )
        return loop.cycle()


def _tier(world: FaultWorld, problems: dict[str, list[str]]) -> Iterator[TopicIdPartition]:
    """A cycle of a daemon with one more segment of each partition; those that were committed."""
    world.append(world.first, world.second, world.neighbour)
    report = cycle(world)
    for problem in report.problems:
        for told in problems.values():
            told.append(f"daemon: {problem}")
    for partition in report.partitions:
        if partition.problem is not None:
            problems.setdefault(partition.partition.topic, []).append(f"daemon: {partition.problem}")
    yield from report.committed
