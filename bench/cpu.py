"""CPU-seconds of a whole process tree: a JVM, its Python workers, and those that have ended already."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

GIB = 2**30
MIB = 2**20


def tree_cpu_seconds(pid: int | None = None) -> float:
    """User and system time of process ``pid`` (default: this one) and all its descendants so far, in seconds.

    Children that ended count through the parent that waited for them (``cutime`` and ``cstime`` of proc(5)), so a
    difference of two readings misses nothing. Resolution: one clock tick, 10 ms.
    """
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            # It ended between listing and reading; its parent's reading, taken later than its end, may already
            # hold it. A benchmark reads while nothing starts or ends.
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


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
    """Measure the body: the tree of ``pid``, or with None this process and all its threads (to the microsecond)."""
    spent = Spent()
    read: Callable[[], float] = time.process_time if pid is None else lambda: tree_cpu_seconds(pid)
    gc.collect()
    cpu_before, wall_before = read(), time.perf_counter()
    yield spent
    spent.cpu_seconds = read() - cpu_before
    spent.wall_seconds = time.perf_counter() - wall_before
