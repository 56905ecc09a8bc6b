"""The ``__latest`` table of one topic: a turn brings the partitions that are led here a step on, in one commit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import structlog

from engine.clock import Clock, thread_cpu_ms
from engine.errors import FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.commit.writer import TableWriter
from engine.table.latest.keyed_rows import stream_files
from engine.table.latest.named_files import NamedFilesReader, PartitionNames
from engine.table.ledger import Outcome
from engine.table.manifests import NO_PARTITION, ManifestReader
from engine.table.topic_table import TopicTable
from latest.key_index import KeyIndex
from latest.latest_limits import LatestLimits
from latest.partition_work import PartitionWork, Prepared

_OPENED_AT_MOST = 2
"""The second look finds the ``__latest`` table that the first one made."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class LatestTurn:
    """``committed`` partitions, ``gone`` those that another daemon changed meanwhile, ``rows`` taken in, ``built``
    partitions made whole; ``behind_offsets`` that are left; ``problems`` of partitions that did not get on."""

    committed: int = 0
    gone: int = 0
    rows: int = 0
    built: int = 0
    behind_offsets: int = 0
    problems: tuple[FloebergError, ...] = ()
    cpu_ms: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether a next turn has something to do at once."""
        return self.gone > 0 or (self.committed > 0 and self.behind_offsets > 0)


class TopicLatest:
    """One topic's, for one thread. ``stream`` is the newest state of the topic's table that it has looked at."""

    def __init__(
        self, stream: TopicTable, *, writer: TableWriter, index: KeyIndex, clock: Clock, limits: LatestLimits
    ) -> None:
        self.stream = stream
        self._writer = writer
        self._index = index
        self._clock = clock
        self._limits = limits
        self._manifests = ManifestReader()
        self._named = NamedFilesReader()
        self._last_partition = NO_PARTITION
        self._known_table: str | None = None

    def turn(self, partitions: Collection[int] | None = None) -> LatestTurn:
        """One step of each of the ``partitions``, of all without, as far as one commit takes in.

        Raises Unavailable, Corrupt, Invalid, CommitUnknown: of the tables themselves; what concerns one partition is
        told.
        """
        began_ms = thread_cpu_ms()
        turn = LatestTurn()
        latest = self._opened()
        if latest is not None:
            self._bring_on(latest, sorted(self.stream.ledger.keys() if partitions is None else partitions), turn)
        turn.cpu_ms = thread_cpu_ms() - began_ms
        return turn

    def _opened(self) -> TopicTable | None:
        """The ``__latest`` table, and ``stream`` as it is now; None where the topic has no table.

        The topic's table is loaded when the other one was there: a sweep puts no fence on a table that is not, so what
        an earlier state lists may be gone.
        """
        for _ in range(_OPENED_AT_MOST):
            opened = self._writer.open(self.stream.topic, self.stream.topic_id)
            if opened is None:
                return None
            self.stream = opened
            latest = self._writer.ensure_latest(opened)
            was_there, self._known_table = self._known_table == latest.uuid, latest.uuid
            if was_there and latest.stream_swept <= opened.sequence_number:
                return latest
        raise Unavailable(
            "the topic's table is at an earlier state than its __latest table has been brought to",
            topic=self.stream.topic,
            file=".".join(latest.identifier),
            next_step="nothing; where somebody set the catalog back, drop the __latest table, without purging its "
            "files: it is built again",
        )

    def _bring_on(self, latest: TopicTable, partitions: Collection[int], turn: LatestTurn) -> None:
        stream = self.stream
        files = stream_files(stream, self._manifests.files(stream))
        named = self._named.files(latest)
        work = PartitionWork(
            stream=stream, latest=latest, index=self._index, limits=self._limits, attempt=self._clock.new_id()
        )
        prepared: dict[int, Prepared] = {}
        rows = 0
        # After the one that filled the last commit, so that none waits for ever.
        for partition in sorted(partitions, key=lambda one: (one <= self._last_partition, one)):
            if partition not in stream.ledger:
                continue
            if rows >= self._limits.fold_rows:
                break
            self._last_partition = partition
            try:
                found = work.prepare(partition, files.get(partition, ()), named.get(partition, PartitionNames()))
            except FloebergError as error:
                turn.problems += (error.located(stream.topic, partition),)
                continue
            if found is not None:
                prepared[partition] = found
                rows += found.rows
        if prepared:
            reach(FaultPoint.LATEST_DELETES_WRITTEN)
            latest = self._committed(latest, prepared, work, turn)
        ends = {partition: line.end for partition, line in latest.lines.items()}
        turn.behind_offsets = sum(
            max(0, stream.ledger[partition].end - ends.get(partition, 0))
            for partition in partitions
            if partition in stream.ledger
        )

    def _committed(
        self, latest: TopicTable, prepared: dict[int, Prepared], work: PartitionWork, turn: LatestTurn
    ) -> TopicTable:
        planned = {partition: one.files for partition, one in prepared.items()}
        done = self._writer.name_files(latest, planned, stream=self.stream)
        reach(FaultPoint.LATEST_COMMITTED)
        for (partition, one), outcome in zip(sorted(prepared.items()), done.outcomes, strict=True):
            if outcome is not Outcome.COMMITTED:
                turn.gone += 1
                continue
            turn.committed += 1
            turn.rows += one.rows
            turn.built += one.fold is None
            if one.fold is not None:
                work.note(partition, one.fold)
        reach(FaultPoint.LATEST_INDEXED)
        _log.info("latest_committed", topic=latest.topic, partitions=turn.committed, rows=turn.rows, gone=turn.gone)
        return done.table
