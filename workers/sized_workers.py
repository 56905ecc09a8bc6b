"""Sends work where it costs least: small tasks are done here, many small ones together elsewhere, large ones each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from engine.errors import FloebergError
from workers.workers import Answer, Answered, Key, Task, Workers, answers

SMALL_TASK_BYTES = 4 << 20
"""What a task reads, up to which it is small: two Spark jobs cost as much as it or more (docs/tiering.md)."""

MOST_HERE = 32
"""Small tasks of one call that this process does itself. Its interpreter also answers fetches, and most of a small
task is Python: more of them would hold it for longer than a second."""

MOST_BYTES_HERE = 8 << 20
"""What those read together."""

_TOGETHER = 16
"""Small tasks that are one task elsewhere: Spark takes 4 ms for each of its own."""


class SizedWorkers:
    """``here`` does small tasks, ``elsewhere`` large ones; ``size_of`` says how many bytes a task reads, None for one
    that must not be done here whatever its size."""

    def __init__(self, *, here: Workers, elsewhere: Workers, size_of: Callable[[Any], int | None]) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._size_of = size_of
        self._large_calls = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        self._here.start()
        self._elsewhere.start()

    def stop(self) -> None:
        self._here.stop()
        self._elsewhere.stop()

    def run(self, work: Callable[[Task], Answer], tasks: Mapping[Key, Task]) -> Iterator[tuple[Key, Answered[Answer]]]:
        small: dict[Key, Task] = {}
        size_bytes = 0
        for key, task in tasks.items():
            size = self._size_of(task)
            if size is not None and size <= SMALL_TASK_BYTES:
                small[key] = task
                size_bytes += size
        large = {key: task for key, task in tasks.items() if key not in small}
        # Elsewhere they would wait until a large task has ended.
        if self._large_calls or (len(small) <= MOST_HERE and size_bytes <= MOST_BYTES_HERE):
            yield from self._here.run(work, small)
        else:
            yield from self._together(work, small)
        if large:
            with self._large_under_way():
                yield from self._elsewhere.run(work, large)

    @contextmanager
    def _large_under_way(self) -> Iterator[None]:
        with self._lock:
            self._large_calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._large_calls -= 1

    def _together(
        self, work: Callable[[Task], Answer], tasks: Mapping[Key, Task]
    ) -> Iterator[tuple[Key, Answered[Answer]]]:
        """Several as one task, whose members fail on their own; where it ends its process, each of them alone."""
        keys = list(tasks)
        groups = [keys[at : at + _TOGETHER] for at in range(0, len(keys), _TOGETHER)]
        gathered = {number: [tasks[key] for key in keys] for number, keys in enumerate(groups)}
        alone: dict[Key, Task] = {}
        for number, found in self._elsewhere.run(partial(_each, work), gathered):
            if isinstance(found, FloebergError):
                alone.update({key: tasks[key] for key in groups[number]})
            else:
                yield from zip(groups[number], found, strict=True)
        yield from self._elsewhere.run(work, alone)


def _each(work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answered[Answer]]:
    return [answer for _, answer in answers(work, enumerate(tasks))]
