"""``floeberg status``: what is tiered, what waits and why; from the daemon, or from the tables when none runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from engine.clock import SystemClock
from engine.errors import Unavailable
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json
from floeberg.settings import Settings
from floeberg.version import program_version
from serving.status.daemon_status import DaemonStatus, PartitionStatus, Phase
from serving.status.page import duration_text, size_text

if TYPE_CHECKING:
    from floeberg.topic_tables import TopicTables

_ANSWER_TIMEOUT_SECONDS = 10.0


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
    """What the ledgers alone say."""
    now_ms = SystemClock().now_ms()
    partitions = tuple(
        PartitionStatus(
            topic=table.topic,
            partition=number,
            table=".".join(table.identifier),
            tiered_start=entry.start,
            tiered_end=entry.end,
            log_start=entry.log_start,
            rows=entry.digest.record_count,
        )
        for table in tables.all()
        for number, entry in sorted(table.ledger.items())
    )
    return DaemonStatus(
        version=program_version(), phase=Phase.STOPPED, started_ms=now_ms, now_ms=now_ms, partitions=partitions
    )


def _show(found: DaemonStatus, *, daemon_runs: bool) -> None:
    if daemon_runs:
        mood = "[green]healthy[/green]" if found.is_healthy else "[red]needs a look[/red]"
        uptime = duration_text(found.uptime_ms)
        out.print(f"{found.phase} for {uptime}, {mood}; {found.cycle_count} cycles, {found.commit_count} commits")
    else:
        out.print("[yellow]no daemon runs here[/yellow]; this is what the tables say")
    for problem in found.all_problems:
        out.print(f"[red]problem:[/red] {escape(problem)}", soft_wrap=True)
    if not found.partitions:
        out.print("nothing is in a table yet")
        return
    out.print(_partition_table(found, daemon_runs=daemon_runs))
    lacking = {escape(partition.topic) for partition in found.partitions if partition.undecodable_rows}
    for topic in sorted(lacking):
        out.print(f"[yellow]records of {topic} were stored without columns:[/yellow] floeberg repair {topic}")
    near = [bound for bound in found.bounds if bound.share >= 0.8]
    for bound in near:
        out.print(f"[yellow]{escape(bound.name)}: {bound.share:.0%} of its bound is in use[/yellow]")


def _partition_table(found: DaemonStatus, *, daemon_runs: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("topic")
    for name in ("partition", "from", "to"):
        table.add_column(name, justify="right")
    if daemon_runs:
        for name in ("lag", "local log", "spool", "undecodable"):
            table.add_column(name, justify="right")
        table.add_column("mode")
        table.add_column("state", overflow="fold")
    for partition in found.partitions:
        cells = [escape(partition.topic), str(partition.partition), _offset(partition.tiered_start)]
        cells.append(_offset(partition.tiered_end))
        if daemon_runs:
            cells += [f"{partition.lag_records:,}", size_text(partition.local_log_bytes)]
            cells += [size_text(partition.spool_bytes), f"{partition.undecodable_rows:,}"]
            cells += ["native" if partition.native else "watch", _state(partition)]
        table.add_row(*cells)
    return table


def _offset(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def _state(partition: PartitionStatus) -> str:
    if partition.problem:
        return f"[red]{escape(partition.problem)}[/red]"
    if partition.at_risk_bytes:
        return f"[red]{size_text(partition.at_risk_bytes)} at risk: the spool is full[/red]"
    return f"[dim]{escape(partition.waiting or '')}[/dim]"
