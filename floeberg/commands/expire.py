"""``floeberg expire``: old snapshots go, and files that nothing names; beside a running daemon or without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from engine.clock import Clock, SystemClock
from engine.errors import FloebergError
from floeberg.commands.context import CommandContext
from floeberg.commands.each_table import each_table, end_with
from floeberg.console import out
from floeberg.daemon.log_output import configure_logging
from serving.status.daemon_status import FILE_REASONS
from serving.status.page import duration_text, size_text

if TYPE_CHECKING:
    from engine.table.commit.writer import TableWriter
    from engine.table.topic_table import TopicTable
    from retention.sweep_planner import Verdict
    from retention.table_sweep import SweepTurn, TableSweep

_NOTES = {
    "live": "the table names them, or needs them",
    "history": "only older snapshots name them",
    "erased": "only snapshots from before an erasure name them",
    "grace": "nothing names them, and they stay for a while",
    "unreferenced": "nothing has named them for the whole grace",
    "foreign": "another program's: never touched",
}


@dataclass(slots=True)
class _Summary:
    """One table: ``expired`` snapshots that went, or would; ``files`` judged in a dry run, none else; ``latest`` the
    same of its ``__latest`` table, where it has one, whose own commits let its snapshots go."""

    topic: str
    table: str
    dry_run: bool
    expired: int = 0
    turn: SweepTurn | None = None
    files: list[Verdict] = field(default_factory=list)
    problem: FloebergError | None = None
    latest: list[_Summary] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.problem is None and not (self.turn and self.turn.hindered)

    def to_dict(self) -> dict[str, Any]:
        turn = self.turn
        return {
            "good": self.is_good,
            "topic": self.topic,
            "table": self.table,
            "dry_run": self.dry_run,
            "snapshots_expired": self.expired,
            "held": None if turn is None else turn.held,
            "amounts": {}
            if turn is None
            else {
                str(reason): {"files": amount.files, "bytes": amount.size_bytes}
                for reason, amount in turn.amounts.items()
            },
            "files_removed": 0 if turn is None else turn.removed.files,
            "bytes_removed": 0 if turn is None else turn.removed.size_bytes,
            "waiting": {} if turn is None else dict(turn.waiting),
            "not_removed": {} if turn is None else dict(turn.hindered),
            "goes_next_ms": None if turn is None else turn.goes_next_ms,
            "files": [
                {
                    "path": one.file.path,
                    "size_bytes": one.file.size_bytes,
                    "reason": str(one.reason),
                    "until_ms": one.until_ms,
                }
                for one in self.files
            ],
            "problem": None if self.problem is None else str(self.problem),
        }


def expire(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic; without, all that have a table.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell why each file is there; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let old snapshots go, and remove files that nothing has named for the whole grace."""
    command, clock = CommandContext.of(context), SystemClock()
    configure_logging(level="error", log_format="text")
    found: list[_Summary] = []
    for table in each_table(command, topic, "expire"):
        summary = _Summary(topic=table.topic, table=".".join(table.identifier), dry_run=dry_run)
        try:
            _expire(command, table, summary, clock)
        except FloebergError as error:
            summary.problem = error
        found += (summary, *summary.latest)
        if not as_json:
            for one in (summary, *summary.latest):
                _show(one, now_ms=clock.now_ms())
    end_with(found, as_json=as_json)


def _expire(command: CommandContext, table: TopicTable, summary: _Summary, clock: Clock) -> None:
    """Raises FloebergError."""
    from engine.table.catalog import access as catalogs
    from engine.table.commit.writer import TableWriter
    from engine.table.history import expired

    limits = command.settings.history.limits
    writer = TableWriter(command.catalog, clock, namespace=command.settings.namespace, history=limits)
    if summary.dry_run:
        loaded = catalogs.load(command.catalog, table.identifier)
        if loaded is not None:
            metadata = loaded.metadata
            summary.expired = len(expired(metadata.snapshots, metadata.refs, limits, clock.now_ms()))
    else:
        while gone := writer.expire(table).expired:
            summary.expired += gone
    _sweep(_sweep_of(command, table, writer, clock), summary)
    if summary.turn is not None and summary.turn.latest is not None:
        latest = _Summary(topic=table.topic, table=summary.turn.latest, dry_run=summary.dry_run)
        summary.latest.append(latest)
        _sweep(_sweep_of(command, table, writer, clock, is_latest=True), latest)


def _sweep(sweep: TableSweep, summary: _Summary) -> None:
    summary.turn = sweep.preview(summary.files.append) if summary.dry_run else sweep.turn()


def _sweep_of(
    command: CommandContext, table: TopicTable, writer: TableWriter, clock: Clock, *, is_latest: bool = False
) -> TableSweep:
    from floeberg.settings.rooms import sightings_folder, sweep_limits
    from retention.table_sweep import TableSweep

    return TableSweep(
        topic=table.topic,
        topic_id=table.topic_id,
        catalog=command.catalog,
        namespace=command.settings.namespace,
        writer=writer,
        clock=clock,
        limits=sweep_limits(command.settings),
        folder=sightings_folder(command.settings),
        is_latest=is_latest,
    )


def _show(summary: _Summary, *, now_ms: int) -> None:
    mark = "[bold green]ok[/]" if summary.is_good else "[bold red]not all[/]"
    turn = summary.turn
    removed = "" if turn is None else f"; {turn.removed.files:,} files, {size_text(turn.removed.size_bytes)}, removed"
    done = f"{summary.expired:,} snapshots gone{removed}"
    if summary.dry_run:
        done = f"{summary.expired:,} snapshots would go now, and nothing is changed"
    out.print(f"{mark}  [bold]{escape(summary.table)}[/bold]  {done}", soft_wrap=True)
    if turn is not None:
        for line in _lines(summary, turn, now_ms):
            # Through the console: what goes past it while the progress is shown ends on the terminal, folded.
            out.print(f"    {line}", soft_wrap=True, markup=False)
    if summary.problem is not None:
        out.print(f"    [red]problem[/]  {escape(str(summary.problem))}", soft_wrap=True)


def _lines(summary: _Summary, turn: SweepTurn, now_ms: int) -> Iterator[str]:
    """Totals by reason, each with its files in a dry run; then what waits, and why."""
    if turn.held is not None:
        yield f"nothing is removed: {turn.held}"
    amounts = {str(reason): amount for reason, amount in turn.amounts.items()}
    for reason in FILE_REASONS:
        amount = amounts.get(reason)
        if amount is None or not amount.files:
            continue
        yield f"{reason:<13} {amount.files:>9,} files {size_text(amount.size_bytes):>10}  {_NOTES[reason]}"
        for one in summary.files:
            if one.reason == reason:
                left = "" if one.until_ms is None or one.until_ms <= now_ms else _left(one.until_ms - now_ms)
                yield f"    {size_text(one.file.size_bytes):>10}  {one.file.path}{left}"
    for why, count in turn.waiting.items():
        yield f"{count:,} files whose grace is over stay: {why}"
    for path, problem in turn.hindered.items():
        yield f"not removed: {path}: {problem}"


def _left(left_ms: int) -> str:
    return f"  for {duration_text(left_ms)}"
