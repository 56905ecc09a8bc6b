"""What the page is answered with: made every two seconds at most for all who look, and only what changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.clock import Clock, SystemClock
from serving.status.daemon_status import DaemonStatus
from serving.status.history import STEP_MS, SUMS, History
from serving.status.overview import TOPIC_COLUMNS, Row, Surroundings, head_of, partition_rows, topic_rows
from serving.status.told_problems import ProblemMemory, told_problems

FRESH_MS = 2_000
"""How old an answer may be at least: whoever looks within it gets the one that was made for another."""

SHARE = 50
"""An answer that takes long to make stays fresh for so many times as long: the page takes a fiftieth of a core."""

MOST_PARTITIONS = 200
"""In one answer."""

DRAWN = ("records", "log_bytes", "file_bytes", "fetched_bytes", "lag_records", "behind_records")
"""Columns of the history that the page has charts of."""

_TROUBLED, _BEHIND = (TOPIC_COLUMNS.index(name) for name in ("troubled", "behind"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One state of the daemon. ``changed`` by topic: the version in which its row became what it is."""

    status: DaemonStatus
    head: Mapping[str, Any]
    rows: Mapping[str, Row]
    changed: Mapping[str, int]
    version: int
    gone_at: int
    fresh_until_ms: int


class PageSource:
    """Safe to use from several threads."""

    def __init__(
        self,
        status: Callable[[], DaemonStatus],
        *,
        clock: Clock | None = None,
        history: History | None = None,
        problems: ProblemMemory | None = None,
        rates: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._status = status
        self._clock = clock or SystemClock()
        self._history = history or History()
        self._problems = problems or ProblemMemory()
        self._rates = rates
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        # Versions of another daemon, or of this one before it was started again, mean nothing here.
        self._name = self._clock.new_id()[:8]

    def seen(self) -> Seen:
        """As it is now, or was up to two seconds ago."""
        with self._lock:
            began_ms, known = self._clock.monotonic_ms(), self._seen
            if known is None or began_ms >= known.fresh_until_ms:
                made = self._made(known)
                took_ms = self._clock.monotonic_ms() - began_ms
                fresh_until_ms = began_ms + max(FRESH_MS, SHARE * took_ms)
                known = self._seen = replace(made, fresh_until_ms=fresh_until_ms)
            return known

    def overview(self, since: str | None, *, most: int | None = None) -> dict[str, Any]:
        """All but the partitions. Of the topics, those whose rows changed after ``since``, the version of an earlier
        answer; where that is none, or where topics have gone, the ``most`` that need a look first, None for all."""
        seen = self.seen()
        known = self._version(since, seen)
        if known is None:
            rows = sorted(seen.rows.values(), key=_worst_first)[:most]
        else:
            rows = [row for topic, row in seen.rows.items() if seen.changed[topic] > known]
        return {
            **seen.head,
            "version": f"{self._name}-{seen.version}",
            "whole": known is None,
            "all": len(seen.rows),
            "columns": TOPIC_COLUMNS,
            "topics": rows,
        }

    def partitions(self, topic: str, *, first: int, count: int) -> dict[str, Any]:
        """A page of one topic's partitions."""
        return partition_rows(self.seen().status, topic, first=first, count=min(count, MOST_PARTITIONS))

    def history(self, length_ms: int) -> dict[str, Any]:
        """What is drawn of the last ``length_ms``: columns of points ``step_ms`` apart, from ``begin_ms`` on. What was
        done is told as an amount a second."""
        points = self._history.points(now_ms=self._clock.now_ms(), length_ms=length_ms)
        begin_ms, *later_ms = points["time_ms"]
        assert begin_ms is not None, "every point has its time"
        step_ms = (later_ms[0] or 0) - begin_ms if later_ms else STEP_MS
        return {"begin_ms": begin_ms, "step_ms": step_ms} | {
            name: [_a_second(value, step_ms) for value in points[name]] if name in SUMS else points[name]
            for name in DRAWN
        }

    def _version(self, since: str | None, seen: Seen) -> int | None:
        name, _, number = (since or "").partition("-")
        if name != self._name or not number.isdecimal() or not seen.gone_at <= int(number) <= seen.version:
            return None
        return int(number)

    def _made(self, before: Seen | None) -> Seen:
        status, rates = self._status(), self._rates()
        self._problems.note(told_problems(status), status.now_ms)
        rows = {row[0]: row for row in topic_rows(status, rates)}
        around = Surroundings(
            remembered=self._problems.newest(),
            last=self._history.last(status.now_ms),
            day=self._history.day(status.now_ms),
        )
        version = 1 if before is None else before.version + 1
        has_lost = before is None or not before.rows.keys() <= rows.keys()
        changed = {
            topic: before.changed[topic] if before is not None and before.rows.get(topic) == row else version
            for topic, row in rows.items()
        }
        return Seen(
            status=status,
            head=head_of(status, list(rows.values()), around),
            rows=rows,
            changed=changed,
            version=version,
            gone_at=version if before is None or has_lost else before.gone_at,
            fresh_until_ms=0,
        )


def _worst_first(row: Row) -> tuple[int, int, str]:
    """As the page sorts topics that nobody sorted otherwise."""
    return -row[_TROUBLED], -row[_BEHIND], row[0]


def _a_second(value: int | None, step_ms: int) -> float | None:
    if value is None:
        return None
    rate = value * 1000 / step_ms
    return round(rate) if rate >= 100 or rate == round(rate) else round(rate, 1)
