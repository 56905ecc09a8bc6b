"""Files written again, verified and committed: what a merge and a repair have in common (docs/compaction.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import structlog

from engine.errors import FloebergError, Invalid
from engine.fault_points import FaultPoint, reach
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileDescription
from engine.table.ledger import Outcome
from engine.table.merge.merge_files import Merged, MergeTask, merge_files
from engine.table.proof.verification import Verification
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TopicTable
from workers.workers import Answered, ReadBackTask, Workers, proof_of, timed_read_back

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What became of one task: ``outcome`` COMMITTED, GONE (somebody else changed the files meanwhile), or None where
    nothing was written because no record would gain."""

    task: MergeTask
    merged: Merged
    outcome: Outcome | None = None


@dataclass(slots=True, kw_only=True)
class Replacements:
    """By key of the task. ``put_off`` those that were not begun; ``table`` as it is after them; ``cpu_ms`` of writing
    and reading back; ``conflicts`` how often another commit came first."""

    table: TopicTable
    done: dict[str, Replaced] = field(default_factory=dict)
    failed: dict[str, FloebergError] = field(default_factory=dict)
    put_off: int = 0
    cpu_ms: int = 0
    conflicts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplacer:
    """``parallel`` tasks at once. ``may_go_on`` is asked before each such wave but the first."""

    writer: TableWriter
    workers: Workers
    verifier: Verifier
    parallel: int
    may_go_on: Callable[[], bool] = lambda: True

    def replace(self, table: TopicTable, tasks: Mapping[str, MergeTask]) -> Replacements:
        """Write, verify, commit all that are good in one snapshot.

        Raises Unavailable, Corrupt, CommitUnknown of the commit: what was written is then told in the log, and lies
        there unreferenced. A task's own error is in the answer.
        """
        found = Replacements(table=table)
        ready, written = self.proven(tasks, found)
        if ready:
            reach(FaultPoint.REPLACEMENTS_VERIFIED)
            self._commit(ready, tasks, written, found)
        return found

    def proven(
        self, tasks: Mapping[str, MergeTask], found: Replacements
    ) -> tuple[dict[str, FileReplacement], dict[str, Merged]]:
        """Write and verify: by key, what may be committed, and all that was written. The rest is in ``found``."""
        written = self._write(tasks, found)
        reach(FaultPoint.REPLACEMENTS_WRITTEN)
        return self._prove(tasks, written, found), written

    def read_back(self, tasks: Mapping[str, ReadBackTask]) -> Iterator[tuple[str, Answered[VerifiedFile]]]:
        """Prove files that were written before: by key, the proof, or why there is none."""
        for key, answer in self.workers.run(timed_read_back, tasks):
            evidence = answer if isinstance(answer, FloebergError) else answer[0]
            yield key, proof_of(self.verifier, tasks[key], evidence)

    def _write(self, tasks: Mapping[str, MergeTask], found: Replacements) -> dict[str, Merged]:
        written: dict[str, Merged] = {}
        waiting = iter(tasks.items())
        while wave := dict(islice(waiting, self.parallel)):
            if (written or found.failed) and not self.may_go_on():
                found.put_off = len(wave) + sum(1 for _ in waiting)
                break
            for key, outcome in self.workers.run(merge_files, wave):
                if isinstance(outcome, FloebergError):
                    found.failed[key] = outcome
                    continue
                found.cpu_ms += outcome.cpu_ms
                if outcome.new:
                    written[key] = outcome
                else:
                    found.done[key] = Replaced(task=tasks[key], merged=outcome)
        return written

    def _prove(
        self, tasks: Mapping[str, MergeTask], written: Mapping[str, Merged], found: Replacements
    ) -> dict[str, FileReplacement]:
        """Those of whose new files each was read back and holds what it should."""
        proofs: dict[str, list[VerifiedFile]] = {key: [] for key in written}
        for key, proof in self._read_back(tasks, written, found):
            if isinstance(proof, FloebergError):
                found.failed[key] = proof
            else:
                proofs[key].append(proof)
        ready = {}
        for key, new in proofs.items():
            in_order = sorted(new, key=lambda one: one.description.range)
            try:
                if key not in found.failed:
                    ready[key] = FileReplacement(old=tasks[key].files, digest=written[key].digest, new=tuple(in_order))
            except Invalid as error:
                found.failed[key] = error
            if key in found.failed:
                _tell_unreferenced(written[key].new, "it is not proven")
        return ready

    def _read_back(
        self, tasks: Mapping[str, MergeTask], written: Mapping[str, Merged], found: Replacements
    ) -> Iterator[tuple[str, Answered[VerifiedFile]]]:
        files = {
            (key, new.path): ReadBackTask(table=tasks[key].table, file=new)
            for key, merged in written.items()
            for new in merged.new
        }
        waiting = iter(files.items())
        while wave := dict(islice(waiting, self.parallel)):
            for which, answer in self.workers.run(timed_read_back, wave):
                evidence: Answered[Verification]
                evidence, cpu_ms = (answer, 0) if isinstance(answer, FloebergError) else answer
                found.cpu_ms += cpu_ms
                yield which[0], proof_of(self.verifier, files[which], evidence)

    def _commit(
        self,
        ready: Mapping[str, FileReplacement],
        tasks: Mapping[str, MergeTask],
        written: Mapping[str, Merged],
        found: Replacements,
    ) -> None:
        settings = next(merged.settings for merged in written.values())
        try:
            result = self.writer.replace(found.table, list(ready.values()), settings)
        except FloebergError as error:
            for replacement in ready.values():
                _tell_unreferenced(replacement.descriptions, error.problem)
            raise
        found.table, found.conflicts = result.table, result.conflicts
        reach(FaultPoint.REPLACEMENTS_TOLD)
        for (key, replacement), outcome in zip(ready.items(), result.outcomes, strict=True):
            found.done[key] = Replaced(task=tasks[key], merged=written[key], outcome=outcome)
            if outcome is Outcome.GONE:
                _tell_unreferenced(replacement.descriptions, "somebody else changed the files that it was to replace")


def _tell_unreferenced(files: tuple[FileDescription, ...], reason: str) -> None:
    for file in files:
        _log.warning("file_left_unreferenced", file=file.path, size_bytes=file.size_bytes, reason=reason)
