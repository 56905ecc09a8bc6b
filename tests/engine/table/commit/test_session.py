"""Callers that change one table together, and others that change another one meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from engine.errors import Invalid, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.session import COMMIT_ATTEMPTS
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    StillClock,
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
    stored_offsets,
)

PATIENCE_S = 60


class GatedCatalog:
    """A real catalog; commits to a table that is held wait until it is let go, and are then answered wrongly."""

    def __init__(self, folder: Path) -> None:
        self.catalog: Catalog = catalog_in(folder)
        self.arrived, self._let_go = threading.Event(), threading.Event()
        self._held = ""
        self._answers: list[str] = []
        self._real_commit = self.catalog.commit_table
        self.catalog.commit_table = self._commit  # type: ignore[method-assign]

    @contextmanager
    def holding(self, topic: str, *answers: str) -> Iterator[None]:
        """Until the block ends. ``answers`` of the commits from then on: conflict, lost, or the true one."""
        self._held, self._answers = topic, list(answers)
        try:
            yield
        finally:
            self._let_go.set()

    def _commit(self, table: Any, *others: Any) -> Any:
        if table.name()[-1] == self._held:
            self.arrived.set()
            assert self._let_go.wait(PATIENCE_S)
        answer = self._answers.pop(0) if self._answers else "true"
        if answer == "conflict":
            raise CommitFailedException("planted")
        committed = self._real_commit(table, *others)
        if answer == "lost":
            raise CommitStateUnknownException("planted")
        return committed


class WatchedQueue(list[Any]):
    """Says when somebody has joined it."""

    def __init__(self) -> None:
        self.joined = threading.Semaphore(0)

    def append(self, waiting: Any) -> None:
        super().append(waiting)
        self.joined.release()


@dataclass
class Stage:
    """One process with many threads, and its table."""

    folder: Path
    gated: GatedCatalog
    writer: TableWriter
    table: TopicTable
    threads: ThreadPoolExecutor

    def together(self, asked: Sequence[Callable[[], Any]], *answers: str) -> list[Future[Any]]:
        """The first is under way in the catalog before the others come; ``answers`` of the catalog as they are made."""
        session = self.writer.session(TOPIC, TOPIC_ID)
        queue = session._queue = WatchedQueue()
        told: list[Future[Any]] = []
        with self.gated.holding(TOPIC, *answers):
            for one in asked:
                told.append(self.threads.submit(one))
                assert queue.joined.acquire(timeout=PATIENCE_S)
                assert self.gated.arrived.wait(PATIENCE_S)
        wait(told, PATIENCE_S)
        return told

    def appending(self, partition: int, start: int = 0, end: int = 10) -> Callable[[], list[Outcome]]:
        append = append_of(self.table, start, end, partition=partition)
        return lambda: outcomes(self.writer, self.table, append)

    def replacing(self, partition: int) -> Callable[[], Sequence[Outcome]]:
        (old,) = (file for file in ManifestReader().files(self.reopened()).own if file.partition == partition)
        new = append_of(self.table, old.range.start, old.range.end, partition=partition, attempt="new")
        assert new.file is not None
        replacement = FileReplacement(old=(old,), digest=new.digest, new=(new.file,))
        return lambda: self.writer.replace(self.table, [replacement]).outcomes

    def reopened(self) -> TopicTable:
        return reopened(self.folder)

    def commits(self) -> int:
        return len(catalog_in(self.folder).load_table(self.table.identifier).metadata.snapshots)

    def offsets(self, partition: int) -> list[int]:
        return stored_offsets(self.folder, self.table, partition)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    gated = GatedCatalog(tmp_path)
    writer = TableWriter(gated.catalog, StillClock())
    with ThreadPoolExecutor(12) as threads:
        yield Stage(tmp_path, gated, writer, ensure_table(writer), threads)


def at_second(point: FaultPoint, act: Callable[[], object]) -> Callable[[FaultPoint], None]:
    """``act`` when a point is reached for the second time."""
    reached: list[FaultPoint] = []

    def hook(found: FaultPoint) -> None:
        if found is point:
            reached.append(found)
            if len(reached) == 2:
                act()

    return hook


def test_appends_that_come_during_a_commit_go_together_in_the_next(stage: Stage) -> None:
    told = stage.together([stage.appending(partition) for partition in range(8)])
    assert [one.result() for one in told] == [[Outcome.COMMITTED]] * 8
    assert stage.commits() == 2
    assert all(stage.offsets(partition) == list(range(10)) for partition in range(8))
    assert {partition: line.end for partition, line in stage.reopened().ledger.items()} == dict.fromkeys(range(8), 10)


def test_appends_to_one_partition_go_one_after_another(stage: Stage) -> None:
    ranges = [(0, 10), (10, 20), (20, 30)]
    told = stage.together([stage.appending(0, start, end) for start, end in ranges])
    assert [one.result() for one in told] == [[Outcome.COMMITTED]] * 3
    assert (stage.commits(), stage.offsets(0)) == (3, list(range(30)))


def test_threads_at_will_lose_and_repeat_nothing(stage: Stage) -> None:
    def append_all(partition: int) -> list[list[Outcome]]:
        return [stage.appending(partition, start, start + 5)() for start in range(0, 25, 5)]

    told = [stage.threads.submit(append_all, partition) for partition in range(6)]
    assert [one.result(PATIENCE_S) for one in told] == [[[Outcome.COMMITTED]] * 5] * 6
    assert all(stage.offsets(partition) == list(range(25)) for partition in range(6))


def test_another_table_is_committed_to_while_the_catalog_holds_one(stage: Stage) -> None:
    first = stage.appending(0)
    with stage.gated.holding(TOPIC):
        held = stage.threads.submit(first)
        assert stage.gated.arrived.wait(PATIENCE_S)
        other = ensure_table(stage.writer, topic="payments", topic_id="CCCCCCCCCCCCCCCCCCCCCQ")
        assert outcomes(stage.writer, other, append_of(other, 0, 10)) == [Outcome.COMMITTED]
        assert not held.done()
    assert held.result(PATIENCE_S) == [Outcome.COMMITTED]


def test_after_a_conflict_each_change_is_decided_again(stage: Stage) -> None:
    asked = [stage.appending(partition) for partition in range(3)]
    theirs = append_of(stage.table, 0, 5, partition=1, attempt="theirs")
    rival = open_writer(stage.folder)
    with armed(at_second(FaultPoint.SNAPSHOT_STAGED, lambda: outcomes(rival, stage.table, theirs))):
        told = stage.together(asked)
    assert [one.result() for one in told] == [[Outcome.COMMITTED], [Outcome.OVERLAP], [Outcome.COMMITTED]]
    assert stage.commits() == 3, "the first, the rival's, and one without what is no longer valid"
    assert [len(stage.offsets(partition)) for partition in range(3)] == [10, 5, 10]


def test_change_that_raises_fails_alone(stage: Stage) -> None:
    horizon = partial(stage.writer.move_horizons, stage.table, log_starts={9: 1000})
    first, wrong, right = stage.together([stage.appending(0), horizon, stage.appending(1)])
    with pytest.raises(Invalid, match="nothing is stored"):
        wrong.result()
    assert first.result() == right.result() == [Outcome.COMMITTED]


def test_commit_of_several_that_landed_without_an_answer_is_known_to_each(stage: Stage) -> None:
    told = stage.together([stage.appending(partition) for partition in range(4)], "true", "lost")
    assert [one.result() for one in told] == [[Outcome.COMMITTED]] * 4
    assert stage.commits() == 2


def test_commit_of_several_that_is_given_up_is_given_up_for_each(stage: Stage) -> None:
    told = stage.together([stage.appending(partition) for partition in range(3)], "true", *["conflict"] * 99)
    assert told[0].result() == [Outcome.COMMITTED]
    for one in told[1:]:
        with pytest.raises(Unavailable, match=f"{COMMIT_ATTEMPTS} times"):
            one.result()
    assert stage.commits() == 1


def test_replacements_go_together_and_apart_from_appends(stage: Stage) -> None:
    for partition in range(3):
        stage.appending(partition)()
    asked = [stage.replacing(0), stage.replacing(1), stage.appending(5), stage.replacing(2)]
    told = stage.together([stage.appending(4), *asked])
    replaced = [told[number].result() for number in (1, 2, 4)]
    assert replaced == [(Outcome.COMMITTED,)] * 3
    assert stage.commits() == 3 + 3, "an append, three replacements, an append"
    assert all(stage.offsets(partition) == list(range(10)) for partition in range(6) if partition != 3)
    assert reopened(stage.folder).foreign is None


def test_log_start_goes_with_appends_to_other_partitions(stage: Stage) -> None:
    stage.appending(0)()
    horizon = partial(stage.writer.move_horizons, stage.table, log_starts={0: 7})
    first, moved, added = stage.together([stage.appending(1), horizon, stage.appending(2)])
    assert first.result() == added.result() == [Outcome.COMMITTED]
    assert moved.result().ledger[0].log_start == stage.reopened().ledger[0].log_start == 7
    assert stage.commits() == 3


def test_caller_whose_thread_breaks_takes_no_other_with_it(stage: Stage) -> None:
    def break_down() -> None:
        raise OSError("planted")

    asked = [stage.appending(partition) for partition in range(3)]
    with armed(at_second(FaultPoint.COMMIT_DECIDED, break_down)):
        first, broken, follower = stage.together(asked)
    with pytest.raises(OSError, match="planted"):
        broken.result()
    assert first.result() == follower.result() == [Outcome.COMMITTED]


def test_what_landed_before_its_caller_broke_down_is_known_to_the_next(stage: Stage) -> None:
    def break_down(point: FaultPoint) -> None:
        if point is FaultPoint.WRITER_TOLD:
            raise OSError("planted")

    append = stage.appending(0)
    with armed(break_down), pytest.raises(OSError, match="planted"):
        append()
    assert append() == [Outcome.ALREADY_THERE]
    assert stage.appending(0, 10, 20)() == [Outcome.COMMITTED]
    assert (stage.commits(), stage.offsets(0)) == (2, list(range(20)))
