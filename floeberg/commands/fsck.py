"""``floeberg fsck``: the proof over the tables."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from engine.errors import Unavailable
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import err, out, print_json
from serving.status.page import size_text

if TYPE_CHECKING:
    from engine.fsck.check import FsckProgress
    from engine.fsck.report import FsckReport
    from engine.table.topic_table import TopicTable
    from floeberg.settings import Settings
    from floeberg.tables.survey import TableSurvey


_ASK_TIMEOUT_MS = 5_000
"""The proof also works while the broker is away; it must not wait long to find that out."""


def fsck(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="One topic; all without it.")] = None,
    with_log: Annotated[bool, typer.Option(help="Compare with what the broker's log directories still have.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prove that tables hold every record exactly once, that their files are whole, and that the log agrees; and that a
    table of the newest records shows those."""
    command = CommandContext.of(context)
    command.compile_kernels()
    from floeberg.settings.rooms import sightings_folder
    from floeberg.sql.duckdb_latest import latest_findings
    from floeberg.tables.survey import survey_tables
    from retention.gone_store import GoneStore

    dropped = GoneStore(sightings_folder(command.settings)).load().dropped.values()
    survey = survey_tables(lambda: command.catalog, command.settings.namespace, topic=topic, dropped=dropped)
    reports = list(survey.reports)
    log_dirs = command.settings.broker.log_dirs if with_log else ()
    topics = [table.topic for table in survey.tables]
    compacted = _compacted(command.settings, topics) if log_dirs and topics else frozenset()
    if not as_json:
        for report in reports:
            show_report(report)
    for table in survey.tables:
        report = _check(survey, table, log_dirs, may_be_compacted=table.topic in compacted)
        # Of a table that is damaged itself, the second one can say nothing more.
        more = latest_findings(command.catalog, table) if report.is_healthy else ()
        reports.append(replace(report, findings=(*report.findings, *more)))
        if not as_json:
            show_report(reports[-1])
    if as_json:
        print_json({"healthy": all(report.is_healthy for report in reports), "tables": [r.to_dict() for r in reports]})
    elif not reports:
        out.print("There is no table yet.")
    if not all(report.is_healthy for report in reports):
        exit_with(FOUND_SOMETHING)


def _compacted(settings: Settings, topics: list[str]) -> frozenset[str]:
    """Topics whose log may hold fewer records than their table; all of them where the broker can't be asked."""
    from engine.broker import KafkaBroker

    broker = KafkaBroker(
        bootstrap=settings.broker.bootstrap, security=settings.broker.security, timeout_ms=_ASK_TIMEOUT_MS
    )
    try:
        configs = broker.topic_configs(topics)
    except Unavailable as error:
        err.print(f"[yellow]note[/] {escape(str(error))} A log with fewer records than its table counts as compacted.")
        return frozenset(topics)
    finally:
        broker.close()
    return frozenset(name for name, config in configs.items() if "compact" in config.get("cleanup.policy", ""))


def _check(survey: TableSurvey, table: TopicTable, log_dirs: tuple[Path, ...], *, may_be_compacted: bool) -> FsckReport:
    from tiering.spool import spooled_ranges

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(f"fsck {escape(table.topic)}", total=None)

        def show(done: FsckProgress) -> None:
            progress.update(task, completed=done.done_bytes, total=done.total_bytes)

        return survey.check(
            table,
            log_dirs=log_dirs,
            may_be_compacted=may_be_compacted,
            held=spooled_ranges(log_dirs, table.topic_id),
            parallelism=os.cpu_count() or 1,
            on_progress=show,
        )


def show_report(report: FsckReport) -> None:
    """One table's report for a person: a line that sums it up, then every finding with its next step."""
    compared = sum(part.offset_count for partition in report.partitions for part in partition.compared)
    against_log = f", {compared:,} offsets compared with the log" if compared else ""
    erased_count = sum(partition.erased_count for partition in report.partitions)
    erased = f", {erased_count:,} erased" if erased_count else ""
    summary = (
        f"{report.record_count:,} records, {report.file_count} files, {size_text(report.size_bytes)},"
        f" {len(report.partitions)} partitions{against_log}{erased}"
    )
    mark = "[bold green]ok[/]" if report.is_healthy else f"[bold red]{len(report.findings)} findings[/]"
    out.print(f"{mark}  [bold]{escape(report.table)}[/bold]  {summary}", soft_wrap=True)
    for finding in report.findings:
        out.print(f"    {escape(str(finding))}", soft_wrap=True)
