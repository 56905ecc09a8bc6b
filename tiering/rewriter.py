"""The port behind which segments are rewritten and files verified: in this process, or by Spark's workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine.errors import FloebergError, Unavailable
from engine.table.data_file import FileDescription
from engine.table.foreign.evidence import ForeignEvidence, ForeignTask, gather_evidence
from engine.table.proof.verification import Verification, verify_file
from engine.table.repair.file import RepairFailed, RepairOutcome, RepairTask, repair_file
from engine.table.topic_table import TableFacts
from tiering.rewrite import rewrite_segment
from tiering.rewrite_task import RewriteFailed, RewriteOutcome, RewriteTask


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """Read ``file`` back from the warehouse and say what is truly in it."""

    table: TableFacts
    file: FileDescription


VerifyOutcome: TypeAlias = Verification | FloebergError
"""Evidence, which proves nothing until the verifier has compared it with the log's digest."""


class Rewriter(Protocol):
    """Answers come in the order of the tasks, one each; a task that fails takes no other down."""

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewriteOutcome]:
        """Write one file a task."""

    def verify(self, tasks: Sequence[VerifyTask]) -> list[VerifyOutcome]:
        """Read one file back a task, in a pass of its own that looks at the warehouse and nothing else."""

    def repair(self, tasks: Sequence[RepairTask]) -> list[RepairOutcome]:
        """Decode one file of a table again a task."""

    def close(self) -> None:
        """End what was started for the work."""


class GatheringRewriter(Rewriter, Protocol):
    """A rewriter whose workers also look at what other programs wrote into a table."""

    def gather(self, tasks: Sequence[ForeignTask]) -> Sequence[ForeignEvidence | FloebergError]:
        """Read one file a task, and say what its rows are."""


def rewrite_guarded(task: RewriteTask) -> RewriteOutcome:
    """``rewrite_segment`` for a worker's loop: an error that nobody foresaw is its segment's, not the job's."""
    try:
        return rewrite_segment(task)
    except Exception as error:  # noqa: BLE001 - the outermost guard of the worker's loop
        return RewriteFailed(error=_unforeseen(error, task.partition.topic, task.partition.partition, task.data_path))


def verify_guarded(task: VerifyTask) -> VerifyOutcome:
    """``verify_file`` for a worker's loop."""
    try:
        return verify_file(task.file.path, task.table)
    except FloebergError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the outermost guard of the worker's loop
        return _unforeseen(error, task.file.topic, task.file.partition, task.file.path)


def gather_guarded(task: ForeignTask) -> ForeignEvidence | FloebergError:
    """``gather_evidence`` for a worker's loop."""
    try:
        return gather_evidence(task)
    except FloebergError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the outermost guard of the worker's loop
        return _unforeseen(error, task.table.topic, task.file.partition, task.file.path)


def repair_guarded(task: RepairTask) -> RepairOutcome:
    """``repair_file`` for a worker's loop."""
    try:
        return repair_file(task)
    except Exception as error:  # noqa: BLE001 - the outermost guard of the worker's loop
        return RepairFailed(error=_unforeseen(error, task.table.topic, task.file.partition, task.file.path))


def _unforeseen(error: Exception, topic: str, partition: int, file: str) -> Unavailable:
    return Unavailable(
        f"a task ended with an error that is not one of ours: {error!r}",
        topic=topic,
        partition=partition,
        file=file,
        next_step="it is tried again; if it stays, report it with this message.",
    )


class InProcessRewriter:
    """One task after the other in this process: for tests, benchmarks and a single run without a JVM."""

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewriteOutcome]:
        return list(map(rewrite_guarded, tasks))

    def verify(self, tasks: Sequence[VerifyTask]) -> list[VerifyOutcome]:
        return list(map(verify_guarded, tasks))

    def gather(self, tasks: Sequence[ForeignTask]) -> list[ForeignEvidence | FloebergError]:
        return list(map(gather_guarded, tasks))

    def repair(self, tasks: Sequence[RepairTask]) -> list[RepairOutcome]:
        return list(map(repair_guarded, tasks))

    def close(self) -> None:
        pass
