"""CPU-seconds of a whole process tree: a JVM, its Python workers, and those that have ended already."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

GIB = 2**30
MIB = 2**20


def own_cpu_seconds(pid: int) -> float:
    """User and system time of one process with all its threads, without its children, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _tree_times(root: psutil.Process) -> dict[int, float]:
    """CPU-seconds of each process of a tree, to a clock tick (10 ms), children it waited for included (proc(5))."""
    found: dict[int, float] = {}
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it ended since it was listed; ``measured`` notices when it was counted before
        found[process.pid] = times.user + times.system + times.children_user + times.children_system
    return found


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

    A process of the tree that ends during the body makes an assertion fail: whether its time reached its parent
    depends on who waited for it, and a figure that may be too good is none.
    """
    spent = Spent()
    gc.collect()
    if pid is None:
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        yield spent
        spent.cpu_seconds = time.process_time() - cpu_before
        spent.wall_seconds = time.perf_counter() - wall_before
        return
    root = psutil.Process(pid)
    before, wall_before = _tree_times(root), time.perf_counter()
    yield spent
    after = _tree_times(root)
    spent.wall_seconds = time.perf_counter() - wall_before
    ended = before.keys() - after.keys()
    assert not ended, f"processes {sorted(ended)} ended while they were measured"
    spent.cpu_seconds = sum(after.values()) - sum(before.values())


@contextmanager
def bound_to_one_core() -> Iterator[None]:
    """Threads would else run side by side and slow each other's cores down."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
