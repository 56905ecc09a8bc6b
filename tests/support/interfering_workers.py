"""Workers of this process whose answers a test may change, by the kind of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from engine.table.proof.verification import Verification
from tiering.rewrite import RewriteOutcome, RewriteTask, rewrite_segment
from workers.workers import Answered, InProcessWorkers, ReadBackTask, read_back

RewriteTasks: TypeAlias = Mapping[Any, RewriteTask]
RewriteAnswers: TypeAlias = Iterator[tuple[Any, Answered[RewriteOutcome]]]
ReadBackTasks: TypeAlias = Mapping[Any, ReadBackTask]
ReadBackAnswers: TypeAlias = Iterator[tuple[Any, Answered[Verification]]]


class InterferingWorkers(InProcessWorkers):
    """Subclasses override ``rewrite`` and ``read_back``; each is called once a job."""

    def rewrite(self, tasks: RewriteTasks) -> RewriteAnswers:
        return super().run(rewrite_segment, tasks)

    def read_back(self, tasks: ReadBackTasks) -> ReadBackAnswers:
        return super().run(read_back, tasks)

    def run(self, work: Callable[[Any], Any], tasks: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        if work is rewrite_segment:
            return self.rewrite(tasks)
        if work is read_back:
            return self.read_back(tasks)
        return super().run(work, tasks)
