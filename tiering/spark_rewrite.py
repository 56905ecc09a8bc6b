"""Rewriting and verifying in Spark's Python workers: one task a segment."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from engine.errors import FloebergError, Unavailable
from engine.table.foreign.evidence import ForeignEvidence, ForeignTask
from engine.table.repair.file import RepairFailed, RepairOutcome, RepairTask
from tiering.rewrite_task import RewriteFailed, RewriteOutcome, RewriteTask
from tiering.rewriter import VerifyOutcome, VerifyTask, gather_guarded, repair_guarded, rewrite_guarded, verify_guarded
from tiering.spark_session import SparkSettings, abandon_context, is_alive, start_context

_NEXT_STEP = "it is tried again in the next cycle; look at [spark] and at the memory of the machine if it stays."

MAX_SPARK_DEATHS = 3
"""Sparks that one call may lose: each costs seconds, and a culprit that kills the JVM itself costs two."""

_log = structlog.get_logger(__name__)
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class SparkRewriter:
    """The Rewriter over a SparkContext, which is started with the first task, kept, and replaced when it dies."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._context: Any = None

    def start(self) -> None:
        """Start Spark now rather than with the first task. Raises Unavailable when it does not start."""
        if self._context is None:
            self._context = start_context(self._settings)

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewriteOutcome]:
        def failed(error: Unavailable) -> RewriteOutcome:
            return RewriteFailed(error=error)

        return self._run(rewrite_guarded, tasks, failed)

    def verify(self, tasks: Sequence[VerifyTask]) -> list[VerifyOutcome]:
        def failed(error: Unavailable) -> VerifyOutcome:
            return error

        return self._run(verify_guarded, tasks, failed)

    def gather(self, tasks: Sequence[ForeignTask]) -> list[ForeignEvidence | FloebergError]:
        def failed(error: Unavailable) -> ForeignEvidence | FloebergError:
            return error

        return self._run(gather_guarded, tasks, failed)

    def repair(self, tasks: Sequence[RepairTask]) -> list[RepairOutcome]:
        def failed(error: Unavailable) -> RepairOutcome:
            return RepairFailed(error=error)

        return self._run(repair_guarded, tasks, failed)

    def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            abandon_context(context)

    def _run(
        self, work: Callable[[_Item], _Answer], items: Sequence[_Item], failed: Callable[[Unavailable], _Answer]
    ) -> list[_Answer]:
        """All items as one job; when it fails, each as a job of its own, so that only the culprit has no answer.

        A Spark that does not start, or that died too often over these items, fails what is left of them at once: the
        loop comes again, and meanwhile the doors go on, which need no Spark.
        """
        answers: list[_Answer] = []
        turns: list[Sequence[_Item]] = [items] if items else []
        deaths = 0
        while turns:
            turn = turns.pop(0)
            try:
                self.start()
            except Unavailable as error:
                return [*answers, *(failed(error) for _ in items[len(answers) :])]
            try:
                answers += self._run_job(work, turn)
            except Unavailable as error:
                deaths += self._context is None
                if deaths > MAX_SPARK_DEATHS:
                    return [*answers, *(failed(error) for _ in items[len(answers) :])]
                if len(turn) > 1:
                    _log.warning("spark_job_failed", tasks=len(turn), error=str(error))
                    turns = [[item] for item in turn]
                else:
                    answers.append(failed(error))
        return answers

    def _run_job(self, work: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
        # Tables' facts are shared by many tasks: pickled together they travel once.
        worker = partial(_answer_tasks, work, pickle.dumps(list(items), protocol=pickle.HIGHEST_PROTOCOL))
        try:
            tasks = self._context.parallelize(range(len(items)), len(items))
            answers = dict(tasks.mapPartitions(worker).collect())
        except (PySparkException, Py4JError, OSError) as error:
            if not is_alive(self._context):
                _log.error("spark_died", error=_reason(error))
                abandon_context(self._context)
                self._context = None
            raise Unavailable(f"a Spark job failed: {_reason(error)}", next_step=_NEXT_STEP) from error
        return [pickle.loads(answers[index]) for index in range(len(items))]


def _answer_tasks(
    work: Callable[[Any], Any], pickled_items: bytes, indexes: Iterator[int]
) -> Iterator[tuple[int, bytes]]:
    """What runs in a Python worker: a task's number in, the number with its pickled answer out."""
    items = pickle.loads(pickled_items)
    for index in indexes:
        yield index, pickle.dumps(work(items[index]), protocol=pickle.HIGHEST_PROTOCOL)


def _reason(error: Exception) -> str:
    """The line of a Java or Python stack trace that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (telling or lines or [type(error).__name__])[0]
