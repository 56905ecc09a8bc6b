"""The status page as it is sent: problems and totals in words, for those who run no script, which fills in the rest
(docs/status_page.md). And what page and command line have in common: the words for sizes, times and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from string import Template
from typing import Any

from serving.status.daemon_status import CompactionStatus, LatestStatus, TableSweepStatus
from topics.gone_topic_status import GoneTopicStatus


def status_page(template: str, head: Mapping[str, Any], addresses: Mapping[str, str]) -> str:
    """The page as HTML text: ``head`` as ``overview.head_of`` makes it, ``addresses`` of the page's files by the names
    that ``template`` has for them. Everything that comes from outside (topic names, messages) is escaped."""
    texts = {name: escape(text) for name, text in head["texts"].items()}
    problems = "".join(_problem(one) for one in head["problems"])
    return Template(template).substitute(
        texts, mood="good" if head["healthy"] else "bad", problems=problems, **addresses
    )


def _problem(problem: Mapping[str, Any]) -> str:
    where, step = problem["where"], problem["next_step"]
    parts = [f"<h3>{escape(problem['text'])}</h3>"]
    parts += [f"<p class='where'>{escape(where)}</p>"] if where else []
    parts += [f"<p class='step'><b>What to do:</b> {escape(step)}</p>"] if step else []
    parts.append(f"<p><a href='runbook#{escape(problem['entry'])}'>What it means, in the runbook</a></p>")
    return f"<li class='problem'>{''.join(parts)}</li>"


def compaction_lines(compaction: CompactionStatus, *, now_ms: int) -> tuple[str, ...]:
    """What compaction has to do and did, for a person."""
    last = compaction.last_run_ms
    when = "nothing since the start" if last is None else f"last {duration_text(now_ms - last)} ago"
    waiting = f"{compaction.backlog_files:,} files, {size_text(compaction.backlog_bytes)}, are to be merged"
    done = f"{compaction.files:,} files became {compaction.merges:,}, {size_text(compaction.written_bytes)}; {when}"
    written = compaction.write_amplification
    beside = f"{compaction.conflicts:,} conflicts, {compaction.given_up:,} given up, {compaction.failures:,} failed"
    times = "" if written is None else f"a byte is written {written:.2f} times; "
    return waiting, done, times + beside


def sweep_lines(sweep: TableSweepStatus, *, now_ms: int) -> Iterator[str]:
    """What becomes of a table's files that nothing names, for a person."""
    if sweep.held is not None:
        yield f"nothing is removed: {sweep.held}"
    for reason, count in sweep.waiting.items():
        yield f"{count:,} files stay: {reason}"
    if sweep.removed_files:
        yield f"{sweep.removed_files:,} files, {size_text(sweep.removed_bytes)}, removed since the start"
    if sweep.goes_next_ms is not None:
        yield f"the next go in {duration_text(max(0, sweep.goes_next_ms - now_ms))}"
    if sweep.put_off is not None:
        yield f"put off: {sweep.put_off}"


def gone_line(gone: GoneTopicStatus, *, now_ms: int) -> str:
    """What becomes of the table of a topic that the broker has no more, for a person."""
    what = f"{gone.table}, of the topic {gone.topic} ({gone.topic_id})"
    if gone.is_dropped:
        return f"{what}: dropped, since the topic is gone from the broker; its files go when their grace is over"
    seen = "seems to be gone" if gone.since_ms is None else f"gone for {duration_text(now_ms - gone.since_ms)}"
    if gone.drops_at_ms is None:
        return f"{what}, {seen}: kept, {gone.kept}"
    return f"{what}, {seen}: dropped in {duration_text(max(0, gone.drops_at_ms - now_ms))}"


def latest_lines(latest: LatestStatus, *, now_ms: int) -> tuple[str, ...]:
    """How the tables of the newest records are doing, for a person; nothing where there are none."""
    if not latest.tables:
        return ()
    last = latest.last_commit_ms
    when = "nothing since the start" if last is None else f"last {duration_text(now_ms - last)} ago"
    return (
        f"{latest.tables:,} tables, {latest.behind_offsets:,} offsets behind",
        f"{latest.rows:,} rows in {latest.commits:,} commits, {latest.builds:,} partitions built whole; {when}",
    )


def count_text(count: int, one: str) -> str:
    """``1 topic``, ``2,000 topics``."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def size_text(size_bytes: float) -> str:
    """Bytes for a person: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def duration_text(duration_ms: int) -> str:
    """A duration for a person, two units at most: ``3 min 20 s``."""
    seconds = max(0, duration_ms) // 1000
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[tuple[int, str]] = []
    for name, length in units:
        count, seconds = divmod(seconds, length)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count) or "0 s"
