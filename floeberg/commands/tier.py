"""``floeberg tier --once``: what is ready now into the tables, then the end; for cron jobs and for a look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from engine.clock import SystemClock
from engine.errors import Invalid
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json
from floeberg.daemon.data_dir_lock import lock_data_dir
from floeberg.daemon.log_output import configure_logging

if TYPE_CHECKING:
    from tiering.cycle_report import CycleReport


@dataclass(slots=True, kw_only=True)
class _Totals:
    records: int = 0
    files: int = 0
    commits: int = 0
    ranges: dict[str, list[list[int]]] = field(default_factory=dict)

    def add(self, report: CycleReport) -> None:
        self.records += report.records
        self.files += report.files
        self.commits += report.commits
        for partition, added in report.committed.items():
            self.ranges.setdefault(str(partition), []).extend([one.start, one.end] for one in added)


def tier(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Required: one round over what is ready now.")] = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark, in this process.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tier what is ready now, and end."""
    if not once:
        raise Invalid("tier runs once: say so with --once", next_step="floeberg run tiers for as long as it runs")
    settings = CommandContext.of(context).settings
    configure_logging(level="warning", log_format="text")
    CommandContext.of(context).compile_kernels()
    from floeberg.daemon.assembly import assemble_tiering

    totals = _Totals()
    with (
        lock_data_dir(settings.data_dir),
        closing(assemble_tiering(settings, SystemClock(), in_process=in_process)) as assembly,
    ):
        report = assembly.loop.cycle()
        totals.add(report)
        while report.commits and report.more:
            report = assembly.loop.cycle()
            totals.add(report)
    if as_json:
        print_json(_plain(totals, report))
    else:
        _show(totals, report)
    if not report.is_good:
        exit_with(FOUND_SOMETHING)


def _problems(report: CycleReport) -> Iterator[str]:
    yield from map(str, report.problems)
    for partition in report.partitions:
        if partition.problem is not None:
            yield str(partition.problem)
        if partition.status.at_risk_bytes:
            yield f"{partition.status.at_risk_bytes} bytes of {partition.partition} are at risk: the spool is full"


def _plain(totals: _Totals, report: CycleReport) -> dict[str, Any]:
    return {
        "good": report.is_good,
        "records": totals.records,
        "files": totals.files,
        "commits": totals.commits,
        "committed": totals.ranges,
        "waiting": {
            str(partition.partition): str(partition.waiting)
            for partition in report.partitions
            if partition.waiting is not None
        },
        "problems": list(_problems(report)),
    }


def _show(totals: _Totals, report: CycleReport) -> None:
    out.print(f"{totals.records:,} records in {totals.files} files, {totals.commits} commits")
    for partition in report.partitions:
        stored = (
            "nothing yet" if partition.status.tiered_end is None else f"up to offset {partition.status.tiered_end:,}"
        )
        waiting = f", {partition.waiting}" if partition.waiting is not None else ""
        out.print(f"  {escape(str(partition.partition))}: {stored}[dim]{escape(waiting)}[/dim]", soft_wrap=True)
    for problem in _problems(report):
        out.print(f"[red]problem:[/red] {escape(problem)}", soft_wrap=True)
