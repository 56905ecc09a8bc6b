"""Work that takes long, done beside the cycles: what becomes due meanwhile must not wait for a gigabyte."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from engine.clock import Clock
from engine.topic_partition import TopicIdPartition
from tiering.range_work import Job, RangeSteps, WorkDone
from workers.workers import Workers

_Answers = Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class _Work:
    steps: RangeSteps
    partitions: frozenset[TopicIdPartition]


class WorkBeside:
    """For the loop's thread, in which every step is taken; the workers' jobs alone are run in another, one at a time.

    ``on_done`` is called from that one whenever a job has ended: ``take`` then goes on.
    """

    def __init__(self, workers: Workers, clock: Clock, *, on_done: Callable[[], None]) -> None:
        self._workers = workers
        self._clock = clock
        self._on_done = on_done
        self._works: deque[_Work] = deque()
        self._job: Future[_Answers] | None = None
        self._job_since_ms = 0
        self._ended: list[WorkDone] = []

    @property
    def partitions(self) -> frozenset[TopicIdPartition]:
        """Those whose ranges are under way, or were not taken yet."""
        return frozenset().union(*(work.partitions for work in self._works))

    @property
    def busy_since_ms(self) -> int | None:
        """Since when (monotonic) the workers have been at the present job; None while nothing is under way."""
        return self._job_since_ms if self._works else None

    def begin(self, steps: RangeSteps, partitions: frozenset[TopicIdPartition]) -> None:
        """Take on work, after what was begun before. ``partitions`` are to be left alone until it was taken."""
        self._works.append(_Work(steps, partitions))
        if len(self._works) == 1:
            self._go_on(None)

    def take(self) -> list[WorkDone]:
        """What has ended; the rest goes on. Raises what a step raises, with which its work ends."""
        if self._job is None or self._job.done():
            job, self._job = self._job, None
            self._go_on(job)
        ended, self._ended = self._ended, []
        return ended

    def end(self) -> None:
        """Begin nothing more, and wait for the job under way."""
        while len(self._works) > 1:
            self._works.pop().steps.close()
        if self._job is not None:
            wait([self._job])

    def _go_on(self, job: Future[_Answers] | None) -> None:
        while self._works:
            steps = self._works[0].steps
            try:
                self._start(next(steps) if job is None else steps.send(job.result()))
            except StopIteration as end:
                self._ended.append(end.value)
                self._works.popleft()
                job = None
            except BaseException:
                self._works.popleft()
                raise
            else:
                return

    def _start(self, job: Job) -> None:
        answers: Future[_Answers] = Future()
        answers.add_done_callback(lambda _: self._on_done())
        self._job, self._job_since_ms = answers, self._clock.monotonic_ms()
        threading.Thread(target=self._run, args=(job, answers), name="large", daemon=True).start()

    def _run(self, job: Job, answers: Future[_Answers]) -> None:
        try:
            answers.set_result(job.run(self._workers))
        except BaseException as error:  # noqa: BLE001 - the thread's outermost guard: who takes the answers raises it
            answers.set_exception(error)
