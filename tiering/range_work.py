"""Turns planned ranges into appends that are ready to commit: rewrite, schemas, verification."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.kafka_log.segment import (
    AbortedTransaction,
    aborted_in,
    base_offset_in,
    list_transaction_indexes,
    read_transaction_index,
)
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.records import Records
from engine.table.commit.range_append import RangeAppend
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.topic_partition import TopicIdPartition
from tiering.planner import PlannedRange
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment
from tiering.spool import is_of_topic
from tiering.tiered_topics import TieredTopic, TieredTopics
from topics.needs_schemas import NeedsSchemas
from topics.value_sample import SAMPLE_BLOCK_BYTES
from workers.workers import ReadBackTask, Workers, proof_of, read_back

_SCHEMA_ROUNDS = 8
"""How often one cycle resolves schemas and tries again; each round gets a block further at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyAppend:
    """A range whose file is verified, or that needs none."""

    planned: PlannedRange
    append: RangeAppend
    settings: ParquetSettings | None
    value_bytes: int
    log_bytes: int


@dataclass(slots=True, kw_only=True)
class WorkDone:
    """``ready``: consecutive within a partition; ``failures`` by partition, where its ranges ended early."""

    ready: list[ReadyAppend] = field(default_factory=list)
    failures: dict[TopicIdPartition, FloebergError] = field(default_factory=dict)
    durations_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Tasks that the workers do together."""

    work: Callable[[Any], Any]
    tasks: Mapping[int, Any]

    def run(self, workers: Workers) -> Mapping[int, Any]:
        """Each task's answer."""
        return dict(workers.run(self.work, self.tasks))


RangeSteps: TypeAlias = Generator[Job, Mapping[int, Any], WorkDone]
"""Asks for jobs, is sent their answers, and ends with what became of the ranges."""


def aborted_transactions(segment: Path, wanted: OffsetRange) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions with records in ``wanted``, a part of a ``segment`` in a partition's directory.

    The entry of a transaction lies beside the segment of its abort marker: the indexes of all later segments are read,
    as the directory has them now, for the broker may have begun a segment since it was looked at. Complete only for
    offsets below a last stable offset that was read before. Raises Corrupt, Unavailable.
    """
    indexes = list_transaction_indexes(segment.parent, base_offset=base_offset_in(segment) or 0)
    return aborted_in(chain.from_iterable(map(read_transaction_index, indexes)), wanted)


def first_records(ranges: Iterable[PlannedRange]) -> Iterator[Records]:
    """The committed records of ranges in blocks, read as far as somebody asks for them. Raises Corrupt, Unavailable."""
    for planned in ranges:
        yield from read_segment(
            planned.path,
            partition=planned.partition,
            offsets=planned.range,
            aborted=_aborted(planned),
            block_bytes=SAMPLE_BLOCK_BYTES,
            closed=planned.closed,
            position=planned.position,
        )


def _aborted(planned: PlannedRange) -> tuple[AbortedTransaction, ...]:
    if planned.spooled is not None:
        return aborted_in(planned.spooled.aborted, planned.range)
    return aborted_transactions(planned.path, planned.range)


class RangeWork:
    """Does a plan's work on the workers. One failing range ends its partition's turn and nobody else's."""

    def __init__(self, *, topics: TieredTopics, workers: Workers, verifier: Verifier, clock: Clock) -> None:
        self._topics = topics
        self._workers = workers
        self._verifier = verifier
        self._clock = clock

    def run(self, ranges: Sequence[PlannedRange], *, suspect: bool = False) -> WorkDone:
        """As ``steps``, at once."""
        steps = self.steps(ranges, suspect=suspect)
        answers: Mapping[int, Any] | None = None
        while True:
            try:
                job = next(steps) if answers is None else steps.send(answers)
            except StopIteration as end:
                done: WorkDone = end.value
                return done
            answers = job.run(self._workers)

    def steps(self, ranges: Sequence[PlannedRange], *, suspect: bool = False) -> RangeSteps:
        """Rewrite and verify ``ranges``. Nothing of what it does is visible to readers of the table.

        ``suspect``: of partitions whose last work failed.
        """
        done = WorkDone()
        started_ms = self._clock.monotonic_ms()
        tasks: dict[int, RewriteTask] = {}
        for index, planned in enumerate(ranges):
            try:
                tasks[index] = replace(self._task(planned), is_suspect=suspect)
            except FloebergError as error:
                done.failures.setdefault(planned.partition, error)
        rewritten: dict[int, Rewritten] = {}
        for turn in self._turns(tasks, rewritten, done):
            rewritten.update((yield from self._rewrite(turn, done)))
            tasks.update(turn)
        for index in [index for index in rewritten if not _read_its_own_topic(ranges[index])]:
            del rewritten[index]
            done.failures.setdefault(ranges[index].partition, _created_again(ranges[index]))
        verifying_ms = self._clock.monotonic_ms()
        reach(FaultPoint.RANGES_WRITTEN)
        verified = yield from self._verify(tasks, rewritten, done)
        for index, planned in enumerate(ranges):
            outcome = rewritten.get(index)
            is_complete = outcome is not None and (outcome.file is None or index in verified)
            if outcome is None or not is_complete:
                continue
            done.ready.append(_ready(planned, outcome, verified.get(index)))
        done.ready = _without_what_follows_a_failure(done.ready, ranges)
        done.durations_ms["rewrite"] = verifying_ms - started_ms
        done.durations_ms["verify"] = self._clock.monotonic_ms() - verifying_ms
        return done

    def _task(self, planned: PlannedRange) -> RewriteTask:
        return RewriteTask(
            table=self._topics.of(planned.partition).facts(),
            partition=planned.partition,
            range=planned.range,
            leader_epoch=planned.leader_epoch,
            segment_path=planned.path,
            closed=planned.closed,
            aborted=_aborted(planned),
            attempt=self._clock.new_id(),
            position=planned.position,
            size_bytes=planned.size_bytes,
        )

    def _turns(
        self, tasks: Mapping[int, RewriteTask], rewritten: Mapping[int, Rewritten], done: WorkDone
    ) -> Iterator[dict[int, RewriteTask]]:
        """What is rewritten together: the first range of a new table before its others, which then know what it found
        out."""
        held = _after_first_per_table(tasks)
        yield {index: task for index, task in tasks.items() if index not in held}
        chosen = {
            tasks[index].partition.topic_id: outcome.settings
            for index, outcome in rewritten.items()
            if outcome.settings is not None
        }
        yield {
            index: task.again(
                table=replace(self._topics.of(task.partition).facts(), settings=chosen.get(task.partition.topic_id)),
                attempt=task.attempt,
            )
            for index, task in held.items()
            if task.partition not in done.failures
        }

    def _rewrite(
        self, tasks: dict[int, RewriteTask], done: WorkDone
    ) -> Generator[Job, Mapping[int, Any], dict[int, Rewritten]]:
        """Rewrite; resolve the schemas that some miss; rewrite those again, for a bounded number of rounds.

        ``tasks`` is left with the facts each file was written with.
        """
        rewritten: dict[int, Rewritten] = {}
        pending = dict(tasks)
        for _ in range(_SCHEMA_ROUNDS):
            if not pending:
                break
            waiting: dict[int, RewriteTask] = {}
            missing: dict[TieredTopic, NeedsSchemas] = {}
            answers = yield Job(work=rewrite_segment, tasks=pending)
            for index, answer in answers.items():
                partition = pending[index].partition
                if isinstance(answer, Rewritten):
                    rewritten[index] = answer
                elif isinstance(answer, FloebergError):
                    done.failures.setdefault(partition, answer)
                else:
                    waiting[index] = pending[index]
                    topic = self._topics.of(partition)
                    missing[topic] = missing.get(topic, NeedsSchemas()).and_those_of(answer)
            pending = self._with_schemas(waiting, missing, done)
            tasks.update(pending)
        for task in pending.values():
            problem = f"the values of one segment name new schemas in more than {_SCHEMA_ROUNDS} of its blocks"
            done.failures.setdefault(task.partition, Unavailable(problem, topic=task.partition.topic))
        return rewritten

    def _with_schemas(
        self,
        waiting: Mapping[int, RewriteTask],
        missing: Mapping[TieredTopic, NeedsSchemas],
        done: WorkDone,
    ) -> dict[int, RewriteTask]:
        """``waiting`` with the facts of tables that now have their schemas; the others fail, to be tried later."""
        failures: dict[TieredTopic, FloebergError | None] = {}
        for topic, needed in missing.items():
            try:
                failures[topic] = topic.resolve(needed)
            except FloebergError as error:
                failures[topic] = error
        again: dict[int, RewriteTask] = {}
        for index, task in waiting.items():
            topic = self._topics.of(task.partition)
            failure = failures[topic]
            if failure is None:
                again[index] = task.again(table=topic.facts(), attempt=self._clock.new_id())
            else:
                done.failures.setdefault(task.partition, failure)
        return again

    def _verify(
        self, tasks: Mapping[int, RewriteTask], rewritten: Mapping[int, Rewritten], done: WorkDone
    ) -> Generator[Job, Mapping[int, Any], dict[int, VerifiedFile]]:
        files = {
            index: ReadBackTask(table=tasks[index].table, file=outcome.file, is_suspect=tasks[index].is_suspect)
            for index, outcome in rewritten.items()
            if outcome.file is not None
        }
        verified: dict[int, VerifiedFile] = {}
        answers = yield Job(work=read_back, tasks=files)
        for index, evidence in answers.items():
            found = proof_of(self._verifier, files[index], evidence)
            if isinstance(found, FloebergError):
                done.failures.setdefault(tasks[index].partition, found)
            else:
                verified[index] = found
        return verified


def _after_first_per_table(tasks: Mapping[int, RewriteTask]) -> dict[int, RewriteTask]:
    """The tasks of tables that have no encodings yet, but for the first of each.

    Sent together, every one would read a block to miss the same schema and be thrown away, and then try all encodings
    on its own.
    """
    first: dict[str, int] = {}
    return {
        index: task
        for index, task in tasks.items()
        if task.table.settings is None and first.setdefault(task.partition.topic_id, index) != index
    }


def _read_its_own_topic(planned: PlannedRange) -> bool:
    """False where the path may have led to another topic of the same name by the time the segment was opened."""
    return planned.spooled is not None or is_of_topic(planned.path, planned.partition.topic_id)


def _created_again(planned: PlannedRange) -> Unavailable:
    return Unavailable(
        "the topic was deleted while its segment was read: what was read may be of another topic of the same name",
        topic=planned.partition.topic,
        partition=planned.partition.partition,
        offset=planned.range.start,
        file=str(planned.path),
    )


def _ready(planned: PlannedRange, outcome: Rewritten, file: VerifiedFile | None) -> ReadyAppend:
    append = RangeAppend(
        partition=planned.partition.partition,
        range=planned.range,
        leader_epoch=planned.leader_epoch,
        digest=outcome.digest,
        file=file,
        skipped=planned.skipped,
    )
    return ReadyAppend(
        planned=planned,
        append=append,
        settings=outcome.settings,
        value_bytes=outcome.value_bytes,
        log_bytes=outcome.log_bytes,
    )


def _without_what_follows_a_failure(ready: list[ReadyAppend], ranges: Iterable[PlannedRange]) -> list[ReadyAppend]:
    """Only the ranges of each partition up to its first one that is not ready."""
    by_range = {(item.planned.partition, item.planned.range): item for item in ready}
    ended: set[TopicIdPartition] = set()
    kept: list[ReadyAppend] = []
    for planned in sorted(ranges, key=lambda planned: (planned.partition, planned.range)):
        item = by_range.get((planned.partition, planned.range))
        if item is None:
            ended.add(planned.partition)
        elif planned.partition not in ended:
            kept.append(item)
    return kept
