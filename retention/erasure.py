"""Takes the records that match out of a table: looked for, files written again without them, proven, committed, until
a look at the newest state finds none (docs/erasure.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog

from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.parquet.ranged_file import ReadCount
from engine.parquet.settings import ParquetSettings
from engine.table.adopted_range import AdoptedRange
from engine.table.commit.takeover import Takeover, sharing_files
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.manifests import adopted_ranges
from engine.table.merge.merge_files import MergeTask, merge_files
from engine.table.merge.own_ranges import write_own
from engine.table.merge.stored_file import StoredFile, named
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import VerifiedErasure, VerifiedFile, Verifier
from engine.table.topic_table import TableFacts, TopicTable
from engine.table.windows import Clustering
from retention.erasure_finding import FileMatches, Finder, Found

FILES_A_COMMIT = 64
"""More would be proven long before they are committed, and a conflict would spoil more; fewer would be more commits."""

FRUITLESS_ROUNDS = 10
"""In which somebody else replaced every file first: a table is not merged that often."""

_NEXT_STEP = "its records are as they were; run floeberg fsck on the topic, and erase again"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOrder:
    """Whose erasure it is: ``erasure_id``, begun at ``at_ms`` (since the epoch)."""

    erasure_id: str
    at_ms: int


@dataclass(slots=True, kw_only=True)
class TableErasure:
    """One table's. ``table`` is the newest state that it knows; ``failed`` why files could not be written again,
    by path; ``taken`` files of another program that ours took the place of, with their sizes in bytes; ``on_committed``
    is told of the table after each commit of an erasure, and of the files that went with it.
    """

    table: TopicTable
    order: EraseOrder
    finder: Finder
    writer: TableWriter
    verifier: Verifier
    clock: Clock
    on_committed: Callable[[TopicTable, Sequence[VerifiedErasure]], object]
    failed: dict[str, FloebergError] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def run(self) -> Found:
        """The last look, which found no match but in files that can't be written again.

        Raises Unavailable, Corrupt (the table), CommitUnknown, Invalid (the condition).
        """
        fruitless = 0
        while True:
            self.table = self.writer.newest(self.table)
            found = self.finder.look(self.table)
            left = [one for one in found.matches if one.file.path not in self.failed]
            others = [one for one in found.adopted if one.file.path not in self.failed]
            if not left and not others:
                return found
            waiting, committed = iter(left), self._take_over(others)
            while wave := list(islice(waiting, FILES_A_COMMIT)):
                committed += self._erase(wave)
            fruitless = 0 if committed else fruitless + 1
            if fruitless == FRUITLESS_ROUNDS:
                raise Unavailable(
                    f"somebody else replaced the files first, {fruitless} times",
                    topic=self.table.topic,
                    next_step="stop the daemon, or wait until it has merged what there is; then erase again",
                )

    def _erase(self, wave: Sequence[FileMatches]) -> int:
        """How many of the files gave their place, or failed for good."""
        proven: list[VerifiedErasure] = []
        settings: ParquetSettings | None = None
        failed = len(self.failed)
        for one in wave:
            try:
                with named(self.table.facts, one.file, cannot="be written without some records", next_step=_NEXT_STEP):
                    proof, used = self._written(self.table.facts, one)
            except Unavailable:
                raise
            except FloebergError as error:
                self.failed[one.file.path] = error
                continue
            proven.append(proof)
            settings = settings or used
        done = 0
        if proven:
            reach(FaultPoint.REPLACEMENTS_VERIFIED)
            done = self._commit(proven, settings)
        return done + len(self.failed) - failed

    def _take_over(self, others: Sequence[FileMatches]) -> int:
        """Ranges that another program wrote become files of ours, as they are; the next look finds the records there.
        How many did, or failed for good."""
        done, failed = 0, len(self.failed)
        for one in others:
            known = self.table.adopted.get(one.file.partition, ())
            wanted = next((part for part in known if part.range == one.file.range), None)
            if wanted is None:
                continue  # it went with another, or the table is another now
            group = sharing_files(known, wanted)
            try:
                with named(self.table.facts, one.file, cannot="be written as ours", next_step=_NEXT_STEP):
                    takeover, settings = self._owned(group)
            except Unavailable:
                raise
            except FloebergError as error:
                self.failed[one.file.path] = error
                continue
            reach(FaultPoint.REPLACEMENTS_VERIFIED)
            result = self.writer.take_over(self.table, [takeover], settings)
            reach(FaultPoint.REPLACEMENTS_TOLD)
            self.table = result.table
            if result.outcomes != (Outcome.COMMITTED,):
                break  # the table is another now
            done += len(group)
            self.taken |= {file.path: file.size_bytes for part in group for file in part.files}
        return done + len(self.failed) - failed

    def _owned(self, group: Sequence[AdoptedRange]) -> tuple[Takeover, ParquetSettings | None]:
        there = adopted_ranges(self.table, self.finder.files(self.table))
        files = {file.range: file for file in there if file.partition == group[0].partition}
        new, settings = [], None
        for part in group:
            description, used = write_own(self.table, files[part.range], self.clock.new_id())
            reach(FaultPoint.REPLACEMENTS_WRITTEN)
            if description is not None:
                found = verify_file(description.path, self.table.facts)
                new.append(self.verifier.accept(description, found))
            settings = settings or used
        return Takeover(ranges=tuple(group), new=tuple(new)), settings

    def _written(self, facts: TableFacts, match: FileMatches) -> tuple[VerifiedErasure, ParquetSettings | None]:
        task = MergeTask(
            table=facts,
            files=(match.file,),
            attempt=self.clock.new_id(),
            clustering=_clustering(facts, match),
            without=match.offsets,
        )
        merged = merge_files(task)
        reach(FaultPoint.REPLACEMENTS_WRITTEN)
        new: VerifiedFile | None = None
        for description in merged.new:
            new = self.verifier.accept(description, verify_file(description.path, facts))
        return self.verifier.accept_erasure(facts, match.file, match.offsets, new), merged.settings

    def _commit(self, proven: Sequence[VerifiedErasure], settings: ParquetSettings | None) -> int:
        order = self.order
        result = self.writer.erase(
            self.table, proven, erasure_id=order.erasure_id, at_ms=order.at_ms, settings=settings
        )
        self.table = result.table
        reach(FaultPoint.REPLACEMENTS_TOLD)
        done = [one for one, outcome in zip(proven, result.outcomes, strict=True) if outcome is Outcome.COMMITTED]
        for one in (one for one in proven if one not in done and one.new is not None):
            _log.warning("file_left_unreferenced", file=one.old.path, reason="somebody else replaced the old one first")
        self.on_committed(self.table, done)
        return len(done)


def _clustering(facts: TableFacts, match: FileMatches) -> Clustering | None:
    """As the file is: an erasure is no time to sort it otherwise."""
    if match.file.clustering_checksum is None:
        return None
    windows = StoredFile(table=facts, file=match.file, count=ReadCount()).footer.windows
    return None if windows is None else windows.clustering
