"""Work in Spark's Python workers: one Spark task a task."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from engine.errors import Unavailable
from workers.spark_session import SparkSettings, abandon_context, is_alive, start_context
from workers.workers import Answer, Answered, Key, Task, answers

_NEXT_STEP = "it is tried again in the next cycle; look at [spark] and at the memory of the machine if it stays."

MAX_SPARK_DEATHS = 3
"""Sparks that one call may lose: each costs seconds, and a culprit that kills the JVM itself costs two."""

_log = structlog.get_logger(__name__)


class SparkWorkers:
    """The Workers over a SparkContext, which is started with the first task, kept, and replaced when it dies."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._context: Any = None
        self._is_over = False
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            if self._is_over:
                raise Unavailable("Spark has been ended, and so is what it was to do")
            if self._context is None:
                self._context = start_context(self._settings)

    def stop(self) -> None:
        with self._lock:
            context, self._context, self._is_over = self._context, None, True
        if context is not None:
            abandon_context(context)

    def run(self, work: Callable[[Task], Answer], tasks: Mapping[Key, Task]) -> Iterator[tuple[Key, Answered[Answer]]]:
        """All tasks as one job; when it fails, each as a job of its own, so that only the culprit has no answer.

        A Spark that does not start, or that died too often over these tasks, fails what is left of them at once: the
        loops come again, and meanwhile the doors go on, which need no Spark.
        """
        turns: list[Sequence[Key]] = [list(tasks)] if tasks else []
        deaths = 0
        while turns:
            turn = turns.pop(0)
            try:
                self.start()
                context = self._context
            except Unavailable as error:
                yield from ((key, error) for keys in (turn, *turns) for key in keys)
                return
            try:
                found = self._run_job(context, work, [tasks[key] for key in turn])
            except Unavailable as error:
                deaths += self._context is not context
                if deaths > MAX_SPARK_DEATHS:
                    yield from ((key, error) for keys in (turn, *turns) for key in keys)
                    return
                if len(turn) > 1:
                    _log.warning("spark_job_failed", tasks=len(turn), error=str(error))
                    turns = [[key] for key in turn]
                else:
                    yield turn[0], error
            else:
                yield from zip(turn, found, strict=True)

    def _run_job(self, context: Any, work: Callable[[Task], Answer], items: Sequence[Task]) -> list[Answered[Answer]]:
        # Tables' facts are shared by many tasks: pickled together they travel once.
        worker = partial(_answer_tasks, work, pickle.dumps(list(items), protocol=pickle.HIGHEST_PROTOCOL))
        try:
            tasks = context.parallelize(range(len(items)), len(items))
            pickled = dict(tasks.mapPartitions(worker).collect())
        except (PySparkException, Py4JError, OSError, AttributeError) as error:
            self._let_go_when_dead(context, error)
            raise Unavailable(f"a Spark job failed: {_reason(error)}", next_step=_NEXT_STEP) from error
        return [pickle.loads(pickled[index]) for index in range(len(items))]

    def _let_go_when_dead(self, context: Any, error: Exception) -> None:
        with self._lock:
            # Another thread's job may have met the same death first, and have a new Spark already.
            if self._context is context and not is_alive(context):
                _log.error("spark_died", error=_reason(error))
                abandon_context(context)
                self._context = None


def _answer_tasks(
    work: Callable[[Any], Any], pickled_items: bytes, indexes: Iterator[int]
) -> Iterator[tuple[int, bytes]]:
    """What runs in a Python worker: a task's number in, the number with its pickled answer out."""
    items = pickle.loads(pickled_items)
    for index, answer in answers(work, ((index, items[index]) for index in indexes)):
        yield index, pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)


def _reason(error: Exception) -> str:
    """The line of a Java or Python stack trace that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (telling or lines or [type(error).__name__])[0]
