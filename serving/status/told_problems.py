"""Problems as people are shown them: alike ones together, with what to do and the entry of the runbook."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from serving.status.copy_wait import copy_problems
from serving.status.daemon_status import DaemonStatus
from topics.partition_status import PartitionStatus

_STEP = " Next: "
_WHERE = re.compile(r" \(((?:topic|partition|offset|file) [^\n]*)\)$")

MOST_PLACES = 3
"""Named of those that have one problem; the others are counted."""

REMEMBERED = 50
"""Problems that are told of after they are over; the one that was not seen for longest goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldProblem:
    """``text`` without its coordinates; ``entry`` of the runbook, an anchor; ``places`` of ``count`` that have it."""

    text: str
    next_step: str | None
    entry: str
    kind: str | None = None
    places: tuple[str, ...] = ()
    count: int = 1

    @property
    def key(self) -> tuple[str, str]:
        return self.entry, self.text

    @classmethod
    def of(cls, told: str, *, entry: str, kind: str | None = None) -> ToldProblem:
        """From a ``FloebergError`` as text, or any other text."""
        text, _, step = told.partition(_STEP)
        text = text.removesuffix(".")
        where = _WHERE.search(text)
        return cls(
            text=text if where is None else text[: where.start()],
            next_step=step or None,
            entry=entry,
            kind=kind,
            places=() if where is None else (where.group(1),),
        )


def told_problems(status: DaemonStatus) -> tuple[ToldProblem, ...]:
    """Everything that makes the daemon unhealthy: what concerns the whole of it first, then what most have."""
    whole = _together(_of_daemon(status))
    parts = sorted(_together(problems_of_partitions(status.partitions)), key=lambda one: -one.count)
    return (*whole, *parts)


def _of_daemon(status: DaemonStatus) -> Iterator[ToldProblem]:
    kinds = dict(zip(status.problems, status.problem_kinds, strict=False))
    for told in status.problems:
        yield ToldProblem.of(told, entry="daemon-problem", kind=kinds.get(told))
    told_by = {
        "damage": status.all_damages,
        "compaction-behind": status.compaction.problems,
        "horizon-stuck": status.horizon_problems,
        "latest-per-key-behind": status.latest.problems,
        "files-are-not-removed": [sweep.problem for sweep in status.sweeps if sweep.problem is not None],
        "schema-registry-away": [one.problem for one in status.schema_sources if one.problem is not None],
        "no-copies-asked-for": copy_problems(status.partitions),
    }
    for entry, problems in told_by.items():
        for told in problems:
            yield ToldProblem.of(told, entry=entry)


def problems_of_partitions(partitions: Iterable[PartitionStatus]) -> Iterator[ToldProblem]:
    for one in partitions:
        if one.problem is None and not one.at_risk_bytes:
            continue
        place = f"topic {one.topic}, partition {one.partition}"
        if one.problem is not None:
            yield problem_of_partition(one.problem, one.problem_kind, place)
        if one.at_risk_bytes:
            text = "the spool is full: Kafka's retention may delete records that are in no table"
            yield ToldProblem(text=text, next_step=None, entry="at-risk", places=(place,))


def problem_of_partition(told: str, kind: str | None, place: str) -> ToldProblem:
    entry = "partition-failing" if kind in {"unavailable", "commit_unknown"} else "partition-stopped"
    problem = ToldProblem.of(told, entry=entry, kind=kind)
    return problem if problem.places else replace(problem, places=(place,))


def _together(problems: Iterable[ToldProblem]) -> list[ToldProblem]:
    """Those of one text as one, in the order in which each came first."""
    found: dict[tuple[str, str], ToldProblem] = {}
    for problem in problems:
        known = found.get(problem.key)
        if known is None:
            found[problem.key] = problem
        else:
            places = (*known.places, *problem.places)[:MOST_PLACES]
            found[problem.key] = replace(known, places=places, count=known.count + 1)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedProblem:
    """Milliseconds since the epoch."""

    problem: ToldProblem
    first_ms: int
    last_ms: int


class ProblemMemory:
    """The newest problems, those included that are over. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], RememberedProblem] = {}

    def note(self, problems: Iterable[ToldProblem], now_ms: int) -> None:
        """They are there now."""
        with self._lock:
            for problem in problems:
                known = self._seen.pop(problem.key, None)
                first_ms = now_ms if known is None else known.first_ms
                self._seen[problem.key] = RememberedProblem(problem=problem, first_ms=first_ms, last_ms=now_ms)
            while len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]

    def newest(self) -> tuple[RememberedProblem, ...]:
        """The one that was seen last comes first."""
        with self._lock:
            return tuple(reversed(self._seen.values()))
