"""``floeberg status``: what is tiered, what waits and why; from the daemon, or from the tables when none runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from engine.clock import SystemClock
from engine.errors import FloebergError, Unavailable
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json
from floeberg.settings import Settings
from floeberg.version import program_version
from serving.status.daemon_status import DaemonStatus, Phase
from serving.status.page import compaction_lines, duration_text, size_text
from topics.partition_status import PartitionStatus

if TYPE_CHECKING:
    from engine.table.topic_table import TopicTable
    from floeberg.topic_tables import TopicTables

_ANSWER_TIMEOUT_SECONDS = 10.0
_MOST_FOOTERS = 256
"""Files of a table whose footers are read for what they lack: a command is to end in a second or two."""


def status(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show what is in the tables, what waits and why."""
    command = CommandContext.of(context)
    answer = ask_daemon(command.settings)
    found = answer or _from_tables(command.tables)
    if as_json:
        print_json({"daemon": answer is not None, **found.to_dict()})
    else:
        _show(found, daemon_runs=answer is not None)
    if not found.is_healthy:
        exit_with(FOUND_SOMETHING)


def ask_daemon(settings: Settings) -> DaemonStatus | None:
    """The running daemon's status; None when nothing listens at the table door's address.

    Raises ``Unavailable`` when something listens there that gives no status.
    """
    import httpx

    url = f"{settings.table_door.listen.url}/status"
    try:
        answer = httpx.get(url, timeout=_ANSWER_TIMEOUT_SECONDS)
        answer.raise_for_status()
        return DaemonStatus.from_dict(answer.json())
    except httpx.ConnectError:
        return None
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(
            f"What listens at {settings.table_door.listen} gives no status: {error}",
            next_step="see whether it is a Floeberg daemon, or set another [table_door] listen",
        ) from error


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
    for number, entry in sorted(table.ledger.items()):
        rows = kept.get(number, KeptRows())
        yield PartitionStatus(
            topic=table.topic,
            partition=number,
            table=".".join(table.identifier),
            tiered_start=entry.start,
            tiered_end=entry.end,
            log_start=entry.log_start,
            rows=entry.digest.record_count,
            reason_rows=rows.with_reason,
            awaiting_rows=rows.awaiting_schema,
            problem=None if problem is None else str(problem.located(table.topic, number)),
        )


def _show(found: DaemonStatus, *, daemon_runs: bool) -> None:
    if daemon_runs:
        mood = "[green]healthy[/green]" if found.is_healthy else "[red]needs a look[/red]"
        uptime = duration_text(found.uptime_ms)
        out.print(f"{found.phase} for {uptime}, {mood}; {found.cycle_count} cycles, {found.commit_count} commits")
    else:
        out.print("[yellow]no daemon runs here[/yellow]; this is what the tables say")
    # A daemon's partitions have their problem beside them.
    of_partitions = () if daemon_runs else (part.problem for part in found.partitions if part.problem is not None)
    for problem in (*found.all_problems, *of_partitions):
        out.print(f"[red]problem:[/red] {escape(problem)}", soft_wrap=True)
    if not found.partitions:
        out.print("nothing is in a table yet")
        return
    out.print(_partition_table(found, daemon_runs=daemon_runs))
    for line in _kept_rows(found):
        out.print(line, soft_wrap=True)
    if daemon_runs:
        out.print(f"compaction: {'; '.join(compaction_lines(found.compaction, now_ms=found.now_ms))}", soft_wrap=True)
        for reason in found.compaction.held:
            out.print(f"[yellow]not merged for now:[/yellow] {escape(reason)}", soft_wrap=True)
    near = [bound for bound in found.bounds if bound.share >= 0.8]
    for bound in near:
        out.print(f"[yellow]{escape(bound.name)}: {bound.share:.0%} of its bound is in use[/yellow]")


def _partition_table(found: DaemonStatus, *, daemon_runs: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("topic")
    for name in ("partition", "from", "to"):
        table.add_column(name, justify="right")
    if daemon_runs:
        for name in ("lag", "local log", "spool", "bytes kept"):
            table.add_column(name, justify="right")
        table.add_column("mode")
        table.add_column("state", overflow="fold")
    for partition in found.partitions:
        cells = [escape(partition.topic), str(partition.partition), _offset(partition.tiered_start)]
        cells.append(_offset(partition.tiered_end))
        if daemon_runs:
            cells += [f"{partition.lag_records:,}", size_text(partition.local_log_bytes)]
            cells += [size_text(partition.spool_bytes), f"{partition.reason_rows:,}"]
            cells += ["native" if partition.native else "watch", _state(partition)]
        table.add_row(*cells)
    return table


def _kept_rows(found: DaemonStatus) -> Iterator[str]:
    """What can be done, by topic, about rows that keep their bytes for a reason."""
    for topic in sorted({partition.topic for partition in found.partitions if partition.reason_rows}):
        parts = [partition for partition in found.partitions if partition.topic == topic]
        awaiting = sum(partition.awaiting_rows for partition in parts)
        for_good = sum(partition.reason_rows for partition in parts) - awaiting
        shown = escape(topic)
        if awaiting:
            yield (
                f"[yellow]{awaiting:,} records of {shown} have no columns for want of a schema:[/yellow] they get them "
                f"once it is there; floeberg repair {shown} tries now and names it"
            )
        if for_good:
            yield f"{for_good:,} records of {shown} keep their bytes for good, with the reason in kafka_error"


def _offset(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def _state(partition: PartitionStatus) -> str:
    if partition.problem:
        return f"[red]{escape(partition.problem)}[/red]"
    if partition.at_risk_bytes:
        return f"[red]{size_text(partition.at_risk_bytes)} at risk: the spool is full[/red]"
    return f"[dim]{escape(partition.waiting or '')}[/dim]"
