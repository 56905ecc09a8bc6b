"""Commits to one table by several processes at once, each with a partition of its own, on SQLite and on REST."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from pyiceberg.table import CommitTableResponse

from bench.measurement import Measurement
from engine.clock import SystemClock
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.session import COMMIT_ATTEMPTS
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from tests.engine.table.table_examples import TOPIC, TOPIC_ID, append_of, ensure_table
from tests.support.rest_catalog import RestCatalogServer

WRITERS = (1, 3, 10)
CATALOGS = {"sqlite": "SQLite", "rest": "REST"}
_RANGE_OFFSETS = 10
_START_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """All commits of one turn: how long each caller waited, how many attempts each took, and the whole."""

    wait_ms: tuple[float, ...]
    attempts: tuple[int, ...]
    wall_seconds: float

    @property
    def per_minute(self) -> float:
        return 60 * len(self.wait_ms) / self.wall_seconds


def measure(
    folder: Path, *, commits: int, writers: Sequence[int] = WRITERS, kinds: Sequence[str] = tuple(CATALOGS)
) -> list[Measurement]:
    """Every turn begins with a table of its own and makes about ``commits`` commits, so that their histories are alike.

    Asserts that every range has landed once and that no writer came near the bound of its attempts.
    """
    found: list[Measurement] = []
    for kind in kinds:
        with _catalog(kind, folder / kind) as properties:
            for count in writers:
                run = _turn(properties, namespace=f"writers{count}", writers=count, each=max(1, commits // count))
                assert max(run.attempts) < COMMIT_ATTEMPTS, f"{kind}, {count} writers: {max(run.attempts)} attempts"
                found += _figures(kind, count, run)
    return found


@contextmanager
def _catalog(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    if kind == "rest":
        with RestCatalogServer(folder) as server:
            yield server.properties
    else:
        yield embedded_catalog_properties(folder)


def _turn(properties: Mapping[str, str], *, namespace: str, writers: int, each: int) -> CommitRun:
    ensure_table(TableWriter(open_catalog(properties), SystemClock(), namespace=namespace))
    # One process pays for the imports; the writers are its forks.
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload([__name__])
    answers: Queue[Any] = forkserver.Queue()
    ready = forkserver.Barrier(writers + 1)
    processes = [
        forkserver.Process(target=_write, args=(dict(properties), namespace, partition, each, ready, answers))
        for partition in range(writers)
    ]
    for process in processes:
        process.start()
    ready.wait(_START_TIMEOUT_SECONDS)
    began = time.perf_counter()
    told = [answers.get(timeout=_START_TIMEOUT_SECONDS) for _ in processes]
    wall_seconds = time.perf_counter() - began
    for process in processes:
        process.join(_START_TIMEOUT_SECONDS)
        assert process.exitcode == 0, "a writer failed"
    table = TableWriter(open_catalog(properties), SystemClock(), namespace=namespace).open(TOPIC, TOPIC_ID)
    assert table is not None, "the table was made above"
    assert {entry.end for entry in table.ledger.values()} == {each * _RANGE_OFFSETS}, "every range has landed"
    return CommitRun(
        wait_ms=tuple(wait for waits, _ in told for wait in waits),
        attempts=tuple(attempts for _, counted in told for attempts in counted),
        wall_seconds=wall_seconds,
    )


def _write(
    properties: dict[str, str], namespace: str, partition: int, count: int, ready: Barrier, answers: Queue[Any]
) -> None:
    """One process. The files are written beforehand: what is measured is what the catalog makes of them."""
    catalog, asked = open_catalog(properties), 0
    real_commit = catalog.commit_table

    def counted(*arguments: Any) -> CommitTableResponse:
        nonlocal asked
        asked += 1
        return real_commit(*arguments)

    catalog.commit_table = counted
    writer = TableWriter(catalog, SystemClock(), namespace=namespace)
    table = ensure_table(writer)
    starts = range(0, count * _RANGE_OFFSETS, _RANGE_OFFSETS)
    appends = [append_of(table, start, start + _RANGE_OFFSETS, partition=partition) for start in starts]
    waits_ms, attempts = [], []
    ready.wait(_START_TIMEOUT_SECONDS)
    for append in appends:
        before, asked_before = time.perf_counter(), asked
        result = writer.commit(table, [append])
        waits_ms.append((time.perf_counter() - before) * 1000)
        attempts.append(asked - asked_before)
        assert [item.outcome for item in result.results] == [Outcome.COMMITTED], "nobody else has this partition"
    answers.put((waits_ms, attempts))


def _figures(kind: str, writers: int, run: CommitRun) -> list[Measurement]:
    many = f"{writers} writer{'s' if writers > 1 else ''} to one table, {CATALOGS[kind]}"
    name = f"{kind}_{writers}"
    return [
        Measurement(
            key=f"commits.per_minute_{name}",
            title=f"Commits a minute, {many}",
            unit="1/min",
            samples=(run.per_minute,),
            higher_is_better=True,
        ),
        Measurement(
            key=f"commits.wait_ms_{name}",
            title=f"Wait for a commit, {many}",
            unit="ms",
            samples=run.wait_ms,
            higher_is_better=False,
        ),
        Measurement(
            key=f"commits.wait_p95_ms_{name}",
            title=f"Wait for a commit, {many}: 95th percentile",
            unit="ms",
            samples=(float(np.percentile(run.wait_ms, 95)),),
            higher_is_better=False,
        ),
        Measurement(
            key=f"commits.most_attempts_{name}",
            title=f"Attempts of the unluckiest commit, {many}",
            unit="attempts",
            samples=(float(max(run.attempts)),),
            higher_is_better=False,
            goal=f"< {COMMIT_ATTEMPTS}",
        ),
    ]
