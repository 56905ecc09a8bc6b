"""``floeberg status``: what is tiered, what waits and why; from the daemon, or from the tables when none runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.text import Text

from engine.clock import SystemClock
from engine.errors import FloebergError, Invalid, Unavailable
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.commands.topic_status import leaving_text, offset_text, state_text, topic_in_detail
from floeberg.console import Column, fitted, out, print_json
from floeberg.daemon.client import ask_daemon
from floeberg.tables.stored_status import stored_partitions
from floeberg.version import program_version
from serving.status.backlog import backlog_line
from serving.status.daemon_status import FILE_REASONS, DaemonStatus, Phase
from serving.status.page import (
    compaction_lines,
    count_text,
    duration_text,
    gone_line,
    latest_lines,
    size_text,
    sweep_lines,
)
from topics.partition_status import PartitionStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from engine.table.topic_table import TopicTable
    from floeberg.tables.topic_tables import TopicTables

_MOST_FOOTERS = 256
"""Files of a table whose footers are read for what they lack: a command is to end in a second or two."""

_NEAR_BOUND_SHARE = 0.8


def status(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="One topic in detail; all without it.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks of --watch.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is in the tables, what waits and why."""
    if watch and as_json:
        raise Invalid("--watch is for people", next_step="a program asks again: floeberg status --json")
    command = CommandContext.of(context)
    if watch:
        _watch(command, topic, pause_ms=round(interval * 1000))
        return
    found, daemon_runs = _look(command, topic)
    if as_json:
        print_json({"daemon": daemon_runs, **found.to_dict()})
    else:
        for part in shown(found, daemon_runs=daemon_runs, topic=topic, width=out.width):
            out.print(part, soft_wrap=isinstance(part, str))
    if not found.is_healthy:
        exit_with(FOUND_SOMETHING)


def _look(command: CommandContext, topic: str | None) -> tuple[DaemonStatus, bool]:
    """The status, of one topic where it is named, and whether a daemon gave it. Raises Unavailable, Invalid."""
    answer = ask_daemon(command.settings)
    found = answer or _from_tables(command.tables)
    if topic is not None:
        partitions = tuple(partition for partition in found.partitions if partition.topic == topic)
        if not partitions:
            names = ", ".join(sorted({partition.topic for partition in found.partitions})) or "none yet"
            raise Invalid("Nothing is known of this topic", topic=topic, next_step=f"topics that are known: {names}")
        found = replace(found, partitions=partitions)
    return found, answer is not None


def _watch(command: CommandContext, topic: str | None, *, pause_ms: int) -> None:
    """Repaints in place; where the output is no terminal, one look comes after the other."""
    from rich.console import Group
    from rich.live import Live

    clock = SystemClock()
    # What is longer than the terminal is cut at its end: problems stand first.
    with suppress(KeyboardInterrupt), Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            try:
                found, daemon_runs = _look(command, topic)
                seen = Group(*shown(found, daemon_runs=daemon_runs, topic=topic, width=out.width))
            except Unavailable as error:
                seen = Group(f"[red]{escape(str(error))}[/red]")
            if out.is_terminal:
                live.update(seen, refresh=True)
            else:
                out.print(seen)
            clock.sleep(pause_ms)


def _from_tables(tables: TopicTables) -> DaemonStatus:
    """What the tables alone say."""
    now_ms = SystemClock().now_ms()
    listed = tables.listed()
    whole = (one.table for one in listed if one.table is not None)
    return DaemonStatus(
        version=program_version(),
        phase=Phase.STOPPED,
        started_ms=now_ms,
        now_ms=now_ms,
        partitions=tuple(partition for table in whole for partition in _partitions_of(table)),
        problems=tuple(f"{'.'.join(one.identifier)}: {one.error}" for one in listed if one.error is not None),
    )


def _partitions_of(table: TopicTable) -> Iterator[PartitionStatus]:
    from engine.table.merge.candidates import KeptRows, RepairCandidates

    problem: FloebergError | None = None
    kept: Mapping[int, KeptRows] = {}
    try:
        kept = RepairCandidates().look(table, max_footers=_MOST_FOOTERS).kept
    except FloebergError as error:
        problem = error
    yield from stored_partitions(table, kept, problem)


def shown(found: DaemonStatus, *, daemon_runs: bool, topic: str | None, width: int) -> Iterator[RenderableType]:
    """For a person: problems first. ``found`` is of one topic where ``topic`` names it, which is shown whole."""
    if daemon_runs:
        mood = "[green]healthy[/green]" if found.is_healthy else "[red]needs a look[/red]"
        uptime = duration_text(found.uptime_ms)
        counts = f"{count_text(found.cycle_count, 'cycle')}, {count_text(found.commit_count, 'commit')}"
        yield f"{found.phase} for {uptime}, {mood}; {counts}"
        if found.backlog is not None:
            yield f"backlog: {backlog_line(found.backlog)}"
    else:
        yield "[yellow]no daemon runs here[/yellow]; this is what the tables say"
    # A daemon's partitions have their problem beside them.
    of_partitions = () if daemon_runs else (part.problem for part in found.partitions if part.problem is not None)
    for problem in (*found.all_problems, *of_partitions):
        yield f"[red]problem:[/red] {escape(problem)}"
    for gone in (one for one in found.gone_topics if topic in {None, one.topic}):
        yield f"[yellow]deleted topic:[/yellow] {escape(gone_line(gone, now_ms=found.now_ms))}"
    if topic is not None:
        yield from topic_in_detail(topic, found.partitions, daemon_runs=daemon_runs, now_ms=found.now_ms)
        for sweep in (sweep for sweep in found.sweeps if sweep.topic == topic):
            sizes = (f"{reason} {size_text(size)}" for reason, size in sweep.bytes.items())
            yield escape(f"files: {'; '.join((', '.join(sizes), *sweep_lines(sweep, now_ms=found.now_ms)))}")
    elif found.partitions:
        yield from _partition_table(found, daemon_runs=daemon_runs, width=width)
    else:
        yield "nothing is in a table yet"
        return
    yield from _kept_rows(found)
    if topic is None:
        yield from _next_to_leave(found)
        yield from _whole_daemon(found) if daemon_runs else ()


def _next_to_leave(found: DaemonStatus) -> Iterator[str]:
    """Of each topic whose table is bounded, what leaves it first."""
    bounded = [partition for partition in found.partitions if partition.next_to_leave is not None]
    for topic in sorted({partition.topic for partition in bounded}):
        parts = [partition for partition in bounded if partition.topic == topic]
        first = min(parts, key=lambda one: (one.leaves_at_ms is None, one.leaves_at_ms or 0))
        next_one = leaving_text(first, found.now_ms)
        yield f"leaves the table of {escape(topic)} next: partition {first.partition}, {escape(next_one)}"


def _whole_daemon(found: DaemonStatus) -> Iterator[str]:
    yield f"compaction: {'; '.join(compaction_lines(found.compaction, now_ms=found.now_ms))}"
    if lines := latest_lines(found.latest, now_ms=found.now_ms):
        yield f"latest per key: {'; '.join(lines)}"
    for reason in found.compaction.held:
        yield f"[yellow]not merged for now:[/yellow] {escape(reason)}"
    yield from _files(found)
    for bound in found.bounds:
        if bound.share >= _NEAR_BOUND_SHARE:
            yield f"[yellow]{escape(bound.name)}: {bound.share:.0%} of its bound is in use[/yellow]"


def _files(found: DaemonStatus) -> Iterator[str]:
    """Bytes by reason, of all tables that are swept here; and of each, what stays although it might go."""
    sizes = {reason: sum(sweep.bytes.get(reason, 0) for sweep in found.sweeps) for reason in FILE_REASONS}
    removed = sum(sweep.removed_bytes for sweep in found.sweeps)
    said = ", ".join(f"{reason} {size_text(size)}" for reason, size in sizes.items())
    goes_next = min((sweep.goes_next_ms for sweep in found.sweeps if sweep.goes_next_ms is not None), default=None)
    when = "" if goes_next is None else f"; the next go in {duration_text(max(0, goes_next - found.now_ms))}"
    yield f"files: {said}; removed {size_text(removed)}{when}"
    for sweep in found.sweeps:
        reason = sweep.held or sweep.put_off
        if reason is not None:
            yield f"[yellow]not swept for now:[/yellow] {escape(sweep.table)}: {escape(reason)}"


_OF_TABLES = (
    Column(name="topic", is_number=False, folded=True),
    Column(name="partition"),
    Column(name="from", gives_way=5),
    Column(name="to"),
)
_OF_DAEMON = (
    *_OF_TABLES,
    Column(name="lag"),
    Column(name="local log", gives_way=4),
    Column(name="spool", gives_way=3),
    Column(name="bytes kept", gives_way=2),
    Column(name="mode", is_number=False, gives_way=1),
    Column(name="state", is_number=False, folded=True),
)


def _partition_table(found: DaemonStatus, *, daemon_runs: bool, width: int) -> Iterator[RenderableType]:
    rows: list[list[str | Text]] = []
    for partition in found.partitions:
        cells: list[str | Text] = [partition.topic, str(partition.partition)]
        cells += [offset_text(partition.tiered_start), offset_text(partition.tiered_end)]
        if daemon_runs:
            cells += [f"{partition.lag_records:,}", size_text(partition.local_log_bytes)]
            cells += [size_text(partition.spool_bytes), f"{partition.reason_rows:,}"]
            cells += ["native" if partition.native else "watch", state_text(partition)]
        rows.append(cells)
    yield from fitted(_OF_DAEMON if daemon_runs else _OF_TABLES, rows, width=width)


def _kept_rows(found: DaemonStatus) -> Iterator[str]:
    """What can be done, by topic, about rows that keep their bytes for a reason."""
    for topic in sorted({partition.topic for partition in found.partitions if partition.reason_rows}):
        parts = [partition for partition in found.partitions if partition.topic == topic]
        awaiting = sum(partition.awaiting_rows for partition in parts)
        for_good = sum(partition.reason_rows for partition in parts) - awaiting
        name = escape(topic)
        if awaiting:
            yield (
                f"[yellow]{awaiting:,} records of {name} have no columns for want of a schema:[/yellow] they get them "
                f"once it is there; floeberg repair {name} tries now and names it"
            )
        if for_good:
            yield f"{for_good:,} records of {name} keep their bytes for good, with the reason in kafka_error"
