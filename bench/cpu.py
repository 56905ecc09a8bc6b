"""CPU-seconds of a whole process tree: a JVM, its Python workers, and those that have ended already."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

GIB = 2**30
MIB = 2**20
_LOOK_SECONDS = 1.0
"""A look takes some milliseconds, which are measured too."""


def own_cpu_seconds(pid: int) -> float:
    """User and system time of one process with all its threads, without its children, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@dataclass(slots=True)
class _Times:
    """CPU-seconds of a process when it was last seen: its own, and its children's for which it has waited (proc(5))."""

    parent: psutil.Process | None
    own: float
    waited_for: float
    waited_for_at_first: float


class ProcessTree:
    """CPU-seconds, to a clock tick (10 ms), of a process and all its descendants, those that have ended included.

    A process that ended counts as its parent saw it end; where nobody waited for it, or its parent is gone too, as it
    was last seen here. ``look`` often enough for that.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: dict[psutil.Process, _Times] = {}
        self.look()

    def look(self) -> None:
        """See every process as it is now, those included that have lost their parent."""
        listed = dict.fromkeys((self._root, *self._root.children(recursive=True), *self._seen))
        for process in listed:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended: what was seen of it stays
                times, before = process.cpu_times(), self._seen.get(process)
                waited_for = float(times.children_user + times.children_system)
                self._seen[process] = _Times(
                    parent=before.parent if before else process.parent(),
                    own=float(times.user + times.system),
                    waited_for=waited_for,
                    waited_for_at_first=before.waited_for_at_first if before else waited_for,
                )

    @property
    def cpu_seconds(self) -> float:
        """Since each process began, as of the last look."""
        ended: defaultdict[psutil.Process | None, list[psutil.Process]] = defaultdict(list)
        counted = []
        for process, times in self._seen.items():
            if process.is_running() or times.parent not in self._seen:
                counted.append(process)
            else:
                ended[times.parent].append(process)

        def seconds(process: psutil.Process) -> float:
            times = self._seen[process]
            seen_of_ended = times.waited_for_at_first + sum(map(seconds, ended[process]))
            return times.own + max(times.waited_for, seen_of_ended)

        return sum(map(seconds, counted))


def tree_resident_bytes(pid: int) -> int:
    """Memory a process and its descendants hold: proportional set sizes, so that shared pages count once."""
    root = psutil.Process(pid)
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


class Spent:
    """What the body of ``measured`` took: ``cpu_seconds`` and ``wall_seconds``, set at its end."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


@contextmanager
def measured(pid: int | None = None) -> Iterator[Spent]:
    """Measure the body: the tree of ``pid``, or with None this process and all its threads (to the microsecond).

    A process of the tree that ends during the body counts with what it had used (``ProcessTree``).
    """
    spent = Spent()
    gc.collect()
    if pid is None:
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        yield spent
        spent.cpu_seconds = time.process_time() - cpu_before
        spent.wall_seconds = time.perf_counter() - wall_before
        return
    tree, wall_before = ProcessTree(pid), time.perf_counter()
    cpu_before = tree.cpu_seconds
    ended = threading.Event()
    watch = threading.Thread(target=_look_until, args=(tree, ended), name="cpu-watch", daemon=True)
    watch.start()
    try:
        yield spent
    finally:
        ended.set()
        watch.join()
    tree.look()
    spent.wall_seconds = time.perf_counter() - wall_before
    spent.cpu_seconds = tree.cpu_seconds - cpu_before


def _look_until(tree: ProcessTree, ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        tree.look()


@contextmanager
def bound_to_one_core() -> Iterator[None]:
    """Threads would else run side by side and slow each other's cores down."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
