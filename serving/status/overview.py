"""What the page asks for: plain values for JSON, small enough to be fetched every few seconds (docs/status_page.md).

Times that go on by themselves are told as moments, not as durations: what nothing happened to stays the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

from serving.status.daemon_status import FILE_REASONS, DaemonStatus
from serving.status.head_texts import daemon_texts, total_texts
from serving.status.history import STEP_MS, SUMS, Sample
from serving.status.page import gone_line, size_text
from serving.status.told_problems import RememberedProblem, ToldProblem, problems_of_partitions, told_problems
from topics.partition_status import PartitionStatus

Row: TypeAlias = tuple[Any, ...]

MOST_PROBLEMS: Final = 20
"""Shown at a time, alike ones counted once."""

TOPIC_COLUMNS: Final = (
    "topic",
    "format",
    "mode",
    "partitions",
    "led",
    "troubled",
    "expired",
    "stored",
    "verified",
    "local",
    "behind",
    "waits_since_s",
    "behind_since_s",
    "log_bytes",
    "file_bytes",
    "local_log_bytes",
    "reason_rows",
    "awaiting_rows",
    "live_bytes",
    "records_per_s",
)
"""``expired`` to ``local`` count offsets, and ``_since_s`` are seconds since the epoch."""

_ADDED: Final = [name for name in TOPIC_COLUMNS[3:] if not name.endswith(("_since_s", "_per_s"))]

PARTITION_COLUMNS: Final = (
    "partition",
    "led",
    "expired_end",
    "tiered_start",
    "tiered_end",
    "verified_start",
    "verified_end",
    "table_start",
    "stable_end",
    "behind_since_s",
    "local_log_bytes",
    "spool_bytes",
    "awaiting_rows",
    "waiting",
    "problem",
    "entry",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the page shows beside the status: problems that may be over, and of the history the newest sample and what
    the last ``day`` came to."""

    remembered: Sequence[RememberedProblem] = ()
    last: Sample | None = None
    day: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(sorted(SUMS), 0))


NO_SURROUNDINGS: Final = Surroundings()


def head_of(status: DaemonStatus, rows: Sequence[Row], around: Surroundings = NO_SURROUNDINGS) -> dict[str, Any]:
    """Everything but the topics. ``rows`` are those of ``topic_rows``."""
    problems = told_problems(status)
    shown = {problem.key for problem in problems}
    since_ms = {one.problem.key: one.first_ms for one in around.remembered}
    over = [one for one in around.remembered if one.problem.key not in shown]
    files = files_of(status)
    totals = total_texts(
        totals_of(rows, around), around.day, now_ms=status.now_ms, are_sizes_known=files["looked_at"] > 0
    )
    return {
        "now_ms": status.now_ms,
        "healthy": status.is_healthy,
        "texts": daemon_texts(status) | totals,
        "problems": [_told(one, since_ms=since_ms.get(one.key)) for one in problems[:MOST_PROBLEMS]],
        "more_problems": max(0, len(problems) - MOST_PROBLEMS),
        "over": [_told(one.problem, since_ms=one.first_ms, last_ms=one.last_ms) for one in over[:MOST_PROBLEMS]],
        "loops": [asdict(loop) | {"now": _loop_now(loop.name, status)} for loop in status.loops],
        "held": [*status.compaction.held[:MOST_PROBLEMS]],
        "files": files,
        "bounds": [[bound.name, bound.used, bound.limit] for bound in status.bounds],
    }


def totals_of(rows: Sequence[Row], around: Surroundings = NO_SURROUNDINGS) -> dict[str, Any]:
    """Of all topics together, by the names of their columns; and what the last step of the history was like."""
    columns = (
        dict(zip(TOPIC_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(TOPIC_COLUMNS, ())
    )
    totals: dict[str, Any] = {name: sum(columns[name]) for name in _ADDED}
    for name in ("waits_since_s", "behind_since_s"):
        totals[name] = min((moment for moment in columns[name] if moment is not None), default=None)
    step_s = STEP_MS / 1000
    last = around.last
    return totals | {
        "topics": len(rows),
        "records_per_s": None if last is None else round(last.records / step_s, 1),
        "bytes_per_s": None if last is None else round(last.log_bytes / step_s),
        "fetches_per_s": None if last is None else round(last.fetches / step_s, 1),
    }


def files_of(status: DaemonStatus) -> dict[str, Any]:
    """Bytes of all tables by why their files are there, and what there is to say of some."""
    sweeps = status.sweeps
    notes = [f"{sweep.table}: {note}" for sweep in sweeps for note in (sweep.held, sweep.put_off) if note is not None]
    notes += [gone_line(one, now_ms=status.now_ms) for one in status.gone_topics]
    return {
        "bytes": {reason: sum(sweep.bytes.get(reason, 0) for sweep in sweeps) for reason in FILE_REASONS},
        "files": {reason: sum(sweep.files.get(reason, 0) for sweep in sweeps) for reason in FILE_REASONS},
        "removed_bytes": sum(sweep.removed_bytes for sweep in sweeps),
        "removed_files": sum(sweep.removed_files for sweep in sweeps),
        "looked_at": sum(bool(sweep.bytes) for sweep in sweeps),
        "tables": len(sweeps),
        "goes_next_ms": min((sweep.goes_next_ms for sweep in sweeps if sweep.goes_next_ms is not None), default=None),
        "notes": notes[:MOST_PROBLEMS],
    }


def topic_rows(status: DaemonStatus, rates: Mapping[str, float] | None = None) -> list[Row]:
    """A row of ``TOPIC_COLUMNS`` each, by name."""
    live_bytes: dict[str, int] = {}
    for sweep in status.sweeps:
        live_bytes[sweep.topic] = live_bytes.get(sweep.topic, 0) + sweep.bytes.get("live", 0)
    rates = rates or {}
    ordered = sorted(status.partitions, key=lambda one: one.topic)
    return [
        _topic_row(topic, list(partitions), status.now_ms, live_bytes.get(topic, 0), rates.get(topic))
        for topic, partitions in groupby(ordered, key=lambda one: one.topic)
    ]


def _topic_row(topic: str, parts: Sequence[PartitionStatus], now_ms: int, live_bytes: int, rate: float | None) -> Row:
    led, troubled, expired, stored, verified, local, behind, *amounts = map(
        sum, zip(*map(_amounts, parts), strict=True)
    )
    modes = {part.native for part in parts}
    return (
        topic,
        next((part.value_format for part in parts if part.value_format is not None), None),
        "both" if len(modes) > 1 else _mode(parts[0]),
        len(parts),
        led,
        troubled,
        expired,
        stored,
        verified,
        local,
        behind,
        _since_s(now_ms, max(part.lag_ms for part in parts)),
        _since_s(now_ms, max(part.behind_ms for part in parts)),
        *amounts,
        live_bytes,
        None if rate is None else round(rate, 1),
    )


def _amounts(part: PartitionStatus) -> tuple[int, ...]:
    """What is added up for a topic, in the order of ``TOPIC_COLUMNS``."""
    return (
        part.leader_here,
        _is_troubled(part),
        _expired_end(part),
        (part.tiered_end or 0) - (part.tiered_start or 0),
        (part.verified_end or 0) - (part.verified_start or 0),
        part.lag_records,
        part.behind_records,
        part.log_bytes,
        part.file_bytes,
        part.local_log_bytes,
        part.reason_rows,
        part.awaiting_rows,
    )


def partition_rows(status: DaemonStatus, topic: str, *, first: int, count: int) -> dict[str, Any]:
    """One page of a topic's partitions, those with a problem before all others."""
    parts = [part for part in status.partitions if part.topic == topic]
    parts.sort(key=lambda one: (not _is_troubled(one), one.partition))
    rows = [_partition_row(part, status.now_ms) for part in parts[first : first + count]]
    return {"topic": topic, "columns": PARTITION_COLUMNS, "first": first, "all": len(parts), "partitions": rows}


def _partition_row(part: PartitionStatus, now_ms: int) -> Row:
    told = next(problems_of_partitions((part,)), None)
    return (
        part.partition,
        part.leader_here,
        _expired_end(part),
        part.tiered_start,
        part.tiered_end,
        part.verified_start,
        part.verified_end,
        part.table_start,
        part.stable_end,
        _since_s(now_ms, part.behind_ms),
        part.local_log_bytes,
        part.spool_bytes,
        part.awaiting_rows,
        part.waiting,
        None if told is None else told.text + (f". Next: {told.next_step}" if told.next_step else ""),
        None if told is None else told.entry,
    )


def _told(problem: ToldProblem, *, since_ms: int | None, last_ms: int | None = None) -> dict[str, Any]:
    more = problem.count - len(problem.places)
    places = [*problem.places, *([f"and {more:,} more"] if more > 0 and problem.places else [])]
    told = {
        "text": problem.text,
        "where": "; ".join(places),
        "next_step": problem.next_step,
        "entry": problem.entry,
        "since_ms": since_ms,
    }
    return told if last_ms is None else told | {"last_ms": last_ms}


def _loop_now(name: str, status: DaemonStatus) -> str:
    """What a loop has to do and did, in words that stay true."""
    compaction, latest, swept = status.compaction, status.latest, status.sweeps
    removed = sum(sweep.removed_bytes for sweep in swept)
    words = {
        "tiering": f"cycles: {status.cycle_count:,}; commits: {status.commit_count:,}",
        "compaction": f"to be merged: {compaction.backlog_files:,} files, {size_text(compaction.backlog_bytes)}; "
        f"{compaction.files:,} became {compaction.merges:,}",
        "repair": f"records that await a schema: {sum(part.awaiting_rows for part in status.partitions):,}",
        "sweeps": f"tables: {len(swept):,}; removed: {size_text(removed)}",
        "latest": f"tables: {latest.tables:,}; offsets behind: {latest.behind_offsets:,}",
        "horizons": f"bounded partitions: {sum(part.next_to_leave is not None for part in status.partitions):,}",
    }
    return words.get(name, "")


def _is_troubled(part: PartitionStatus) -> bool:
    return part.problem is not None or part.at_risk_bytes > 0


def _expired_end(part: PartitionStatus) -> int:
    """Below it, neither consumers nor SQL see anything."""
    horizons = [start for start in (part.stream_start, part.table_start) if start is not None]
    return min(horizons) if horizons else part.tiered_start or part.log_start or 0


def _mode(part: PartitionStatus) -> str:
    return "native" if part.native else "watch"


def _since_s(now_ms: int, duration_ms: int) -> int | None:
    """To the second: as a moment, the same however often it is looked at."""
    return round((now_ms - duration_ms) / 1000) if duration_ms else None
