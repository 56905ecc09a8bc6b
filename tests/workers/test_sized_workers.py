"""Which tasks are done where, and that each has its answer whatever became of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.errors import Invalid, Unavailable
from workers.sized_workers import MOST_BYTES_HERE, MOST_HERE, SMALL_TASK_BYTES, SizedWorkers
from workers.workers import InProcessWorkers


class NotedWorkers(InProcessWorkers):
    """Keeps the tasks of each call that had some; a call for a group that holds ``deadly`` ends its process."""

    def __init__(self, deadly: int | None = None) -> None:
        self.calls: list[list[Any]] = []
        self._deadly = deadly

    def run(self, work: Callable[[Any], Any], tasks: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        if tasks:
            self.calls.append(list(tasks.values()))
        for key, task in tasks.items():
            members = task if isinstance(task, list) else [task]
            if self._deadly in members:
                yield key, Unavailable("the worker was killed")
            else:
                yield from super().run(work, {key: task})


def double(size: int) -> int:
    if size == 13:
        raise Invalid("thirteen")
    return 2 * size


class Run:
    def __init__(self, sizes: list[int], *, deadly: int | None = None) -> None:
        here, elsewhere = NotedWorkers(), NotedWorkers(deadly)
        workers = SizedWorkers(here=here, elsewhere=elsewhere, size_of=lambda size: None if size == 7 else size)
        found = dict(workers.run(double, dict(enumerate(sizes))))
        self.answers = [found[index] for index in range(len(sizes))]
        self.here, self.elsewhere = here.calls, elsewhere.calls


def test_small_tasks_are_done_here_and_large_or_dangerous_ones_elsewhere() -> None:
    sizes = [1, SMALL_TASK_BYTES, SMALL_TASK_BYTES + 1, 7, 13]
    run = Run(sizes)
    assert run.here == [[1, SMALL_TASK_BYTES, 13]]
    assert run.elsewhere == [[SMALL_TASK_BYTES + 1, 7]]
    assert run.answers[:4] == [2 * size for size in sizes[:4]]
    assert isinstance(run.answers[4], Invalid)


def test_many_small_tasks_are_done_here_while_large_ones_are_under_way_elsewhere() -> None:
    here, elsewhere = NotedWorkers(), NotedWorkers()
    workers = SizedWorkers(here=here, elsewhere=elsewhere, size_of=lambda size: size)
    large = workers.run(double, {0: SMALL_TASK_BYTES + 1, 1: SMALL_TASK_BYTES + 2})
    next(large)
    many = dict.fromkeys(range(MOST_HERE + 1), 100)
    assert len(dict(workers.run(double, many))) == len(many)
    assert [len(call) for call in here.calls] == [len(many)]
    assert len(list(large)) == 1
    assert len(dict(workers.run(double, many))) == len(many)
    assert len(here.calls) == 1
    assert len(elsewhere.calls) == 2


def test_many_small_tasks_go_elsewhere_in_groups() -> None:
    sizes = [100 + number for number in range(MOST_HERE + 1)]
    run = Run([*sizes, 13])
    assert run.here == []
    assert [len(group) for group in run.elsewhere[0]] == [16, 16, 2]
    assert run.answers[:-1] == [2 * size for size in sizes]
    assert isinstance(run.answers[-1], Invalid)
    assert len(Run(sizes[:-1]).here[0]) == MOST_HERE


def test_small_tasks_that_are_much_together_go_elsewhere() -> None:
    count = MOST_BYTES_HERE // SMALL_TASK_BYTES
    assert len(Run([SMALL_TASK_BYTES] * count).here) == 1
    assert Run([SMALL_TASK_BYTES] * (count + 1)).here == []


def test_task_that_ends_its_process_costs_no_other_of_its_group() -> None:
    sizes = [100 + number for number in range(40)]
    run = Run(sizes, deadly=105)
    assert run.elsewhere[1] == sizes[:16]
    assert isinstance(run.answers[5], Unavailable)
    assert [answer for number, answer in enumerate(run.answers) if number != 5] == [
        2 * size for size in sizes if size != 105
    ]


def test_nothing_to_do_asks_nobody() -> None:
    run = Run([])
    assert (run.here, run.elsewhere) == ([], [])
