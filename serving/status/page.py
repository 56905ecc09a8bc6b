"""The status page: one HTML document, no script, that loads itself again every few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from serving.status.daemon_status import (
    FILE_REASONS,
    BoundUse,
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    TableSweepStatus,
)
from topics.partition_status import PartitionStatus

REFRESH_SECONDS = 5
_NEAR_BOUND_SHARE = 0.8

_STYLE = """
:root { color-scheme: light dark; --soft: #8884; --bad: #c0392b; --good: #27804a; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--soft); vertical-align: top; }
th { font-weight: 600; } .text { text-align: left; } .soft { opacity: .65; }
.bad { color: var(--bad); } .good { color: var(--good); } nav a { margin-right: 1rem; }
"""


def status_page(status: DaemonStatus) -> str:
    """The page as HTML text. Everything that comes from outside (topic names, messages) is escaped."""
    mood = '<span class="good">healthy</span>' if status.is_healthy else '<span class="bad">needs a look</span>'
    uptime = duration_text(status.uptime_ms)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Floeberg</title>",
        f"<meta http-equiv='refresh' content='{REFRESH_SECONDS}'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Floeberg <span class='soft'>{escape(status.version)}</span></h1>",
        f"<p>{escape(status.phase)} for {uptime}, {mood}. {status.cycle_count} cycles, {status.commit_count} commits.",
        f"<span class='soft'>Cluster {escape(status.cluster_id or 'not known yet')}.</span></p>",
        "<nav><a href='metrics'>metrics</a><a href='status'>status as JSON</a>",
        "<a href='v1/namespaces'>catalog</a></nav>",
        _problems(status),
        "<h2>Partitions</h2>",
        _partitions(status.partitions),
        "<h2>Compaction</h2>",
        _compaction(status.compaction, now_ms=status.now_ms),
        "<h2>Files</h2>",
        _sweeps(status.sweeps, now_ms=status.now_ms),
        *_latest(status.latest, now_ms=status.now_ms),
        "<h2>Bounds</h2>",
        _bounds(status.bounds),
        "</body></html>",
    ]
    return "\n".join(parts)


def _problems(status: DaemonStatus) -> str:
    found = [escape(problem) for problem in status.all_problems]
    if not found:
        return ""
    return "<h2>Problems</h2><ul class='bad'>" + "".join(f"<li>{problem}</li>" for problem in found) + "</ul>"


def _partitions(partitions: Sequence[PartitionStatus]) -> str:
    if not partitions:
        return "<p class='soft'>No topic matches the settings, or none has been seen yet.</p>"
    head = (
        "Topic",
        "Partition",
        "Mode",
        "In the table",
        "Lag",
        "Local log",
        "Spool",
        "Bytes kept",
        "Awaiting schema",
        "State",
    )
    return _table(head, (_partition_row(partition) for partition in partitions), text_columns={0, 2, 9})


def _partition_row(partition: PartitionStatus) -> tuple[str, ...]:
    stored = "nothing yet"
    if partition.tiered_end is not None:
        stored = f"{partition.tiered_start or 0:,} to {partition.tiered_end:,}"
    lag = f"{partition.lag_records:,}"
    if partition.lag_ms:
        lag += f" <span class='soft'>({duration_text(partition.lag_ms)})</span>"
    if partition.behind_ms:
        lag += f" <span class='bad'>behind for {duration_text(partition.behind_ms)}</span>"
    state = f"<span class='soft'>{escape(partition.waiting or '')}</span>"
    if partition.at_risk_bytes:
        state = f"<span class='bad'>{size_text(partition.at_risk_bytes)} at risk: the spool is full</span>"
    if partition.problem:
        state = f"<span class='bad'>{escape(partition.problem)}</span>"
    return (
        escape(partition.topic),
        str(partition.partition),
        "native" if partition.native else "watch",
        stored,
        lag,
        size_text(partition.local_log_bytes),
        size_text(partition.spool_bytes),
        f"{partition.reason_rows:,}",
        f"{partition.awaiting_rows:,}",
        state,
    )


def _compaction(compaction: CompactionStatus, *, now_ms: int) -> str:
    said = "".join(f"<br>{escape(line)}" for line in compaction_lines(compaction, now_ms=now_ms))
    held = "".join(f"<li>{escape(reason)}</li>" for reason in compaction.held)
    return f"<p>{said.removeprefix('<br>')}</p>" + (f"<ul class='soft'>{held}</ul>" if held else "")


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


def _sweeps(sweeps: Sequence[TableSweepStatus], *, now_ms: int) -> str:
    if not sweeps:
        return "<p class='soft'>No table is swept here.</p>"
    rows = (
        (
            escape(sweep.topic),
            *(size_text(sweep.bytes[reason]) if sweep.bytes else "-" for reason in FILE_REASONS),
            escape("; ".join(sweep_lines(sweep, now_ms=now_ms))),
        )
        for sweep in sweeps
    )
    return _table(
        ("Topic", *(reason.capitalize() for reason in FILE_REASONS), ""), rows, text_columns={0, len(FILE_REASONS) + 1}
    )


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


def _latest(latest: LatestStatus, *, now_ms: int) -> Iterator[str]:
    lines = latest_lines(latest, now_ms=now_ms)
    if lines:
        yield "<h2>Latest per key</h2>"
        yield f"<p>{'<br>'.join(map(escape, lines))}</p>"


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


def _bounds(bounds: Sequence[BoundUse]) -> str:
    if not bounds:
        return "<p class='soft'>None reported yet.</p>"
    rows = (
        (
            escape(bound.name),
            _amount(bound.name, bound.used),
            _amount(bound.name, bound.limit),
            f"<span class='{'bad' if bound.share >= _NEAR_BOUND_SHARE else 'soft'}'>{bound.share:.0%}</span>",
        )
        for bound in bounds
    )
    return _table(("Bound", "Used", "Limit", "Share"), rows, text_columns={0})


def _amount(name: str, value: int) -> str:
    return size_text(value) if name.endswith("bytes") else f"{value:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: set[int]) -> str:
    """Cells are HTML already; columns are numbers unless listed."""

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (
            f"<{tag}{' class=text' if index in text_columns else ''}>{cell}</{tag}>" for index, cell in enumerate(cells)
        )
        return f"<tr>{''.join(marked)}</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


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
