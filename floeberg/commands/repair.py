"""``floeberg repair``: records that were stored without columns get them, beside a running daemon or without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from engine.clock import Clock, SystemClock
from engine.errors import FloebergError
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.commands.kept_reasons import REASONS_SHOWN, show_kept_reasons
from floeberg.commands.own_hands import own_hands
from floeberg.console import err, out, print_json
from floeberg.daemon.log_output import configure_logging

if TYPE_CHECKING:
    from compaction.topic_repair import RepairTurn, TopicRepair
    from floeberg.settings.schema_sources import SchemaSources

FILES_A_COMMIT, BYTES_A_COMMIT = 16, 1 << 30
"""What is done again when the command is ended; each commit makes a snapshot and a metadata file."""

SOURCE_PATIENCE_MS = 20_000
"""How long a source of schemas may take until the command goes on without it."""

_SOURCE_PAUSE_MS = 500


@dataclass(slots=True)
class _Summary:
    """``missing`` and ``missing_keys``: records by the id of the schema that nobody has; ``reasons``: rows that keep
    their bytes, by why."""

    topic: str
    table: str
    dry_run: bool
    found: int = 0
    tried: int = 0
    replaced: int = 0
    gone: int = 0
    repaired_records: int = 0
    adopted_ranges: int = 0
    missing: dict[int, int] = field(default_factory=dict)
    missing_keys: dict[int, int] = field(default_factory=dict)
    problems: dict[str, FloebergError] = field(default_factory=dict)
    source_problem: FloebergError | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, turn: RepairTurn) -> None:
        self.found = max(self.found, turn.found)
        self.tried += turn.tried
        self.replaced += turn.replaced
        self.gone += turn.gone
        self.repaired_records += turn.gained
        self.adopted_ranges = turn.adopted
        self.missing, self.missing_keys = dict(turn.wanted.value), dict(turn.wanted.key)
        self.source_problem = turn.source_problem
        self.problems |= {str(problem): problem for problem in turn.problems}

    @property
    def is_good(self) -> bool:
        """Nothing is left that a repair, this one or a later one, could do."""
        would_try = self.dry_run and self.tried
        return not (self.all_problems or self.missing or self.missing_keys or would_try)

    @property
    def all_problems(self) -> list[FloebergError]:
        return [*self.problems.values(), *([] if self.source_problem is None else [self.source_problem])]

    def to_dict(self) -> dict[str, Any]:
        return {
            "good": self.is_good,
            "topic": self.topic,
            "table": self.table,
            "dry_run": self.dry_run,
            "files_with_reasons": self.found,
            "files_tried": self.tried,
            "files_replaced": self.replaced,
            "files_replaced_by_others": self.gone,
            "records_repaired": self.repaired_records,
            "ranges_of_other_programs": self.adopted_ranges,
            "records_left": sum(self.reasons.values()),
            "reasons": dict(self.reasons.most_common()),
            "missing_schemas": {str(schema_id): rows for schema_id, rows in sorted(self.missing.items())},
            "missing_key_schemas": {str(schema_id): rows for schema_id, rows in sorted(self.missing_keys.items())},
            "problems": [str(problem) for problem in self.all_problems],
        }


def repair(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give records their columns that were stored without, now that their schema is there or a bug is mended."""
    from floeberg.settings.schema_sources import SchemaSources

    command, clock = CommandContext.of(context), SystemClock()
    configure_logging(level="error", log_format="text")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
    with (
        closing(SchemaSources(command.settings.data_dir, clock)) as sources,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress,
    ):
        shown = progress.add_task(f"repair {escape(topic)}", total=None)
        work = _open(command, topic, sources, clock, on_file=lambda: progress.advance(shown))
        summary = _Summary(topic=topic, table=".".join(work.table.identifier), dry_run=dry_run)
        _await_source(work, clock)
        foreseen = work.foresee()
        progress.update(shown, total=foreseen.tried)
        if dry_run:
            summary.add(foreseen)
        else:
            _repair(work, summary)
        for reasons in work.reasons():
            summary.reasons += reasons
    if as_json:
        print_json(summary.to_dict())
    else:
        _show(summary)
    if not summary.is_good:
        exit_with(FOUND_SOMETHING)


def _open(
    command: CommandContext, topic: str, sources: SchemaSources, clock: Clock, *, on_file: Callable[[], object]
) -> TopicRepair:
    """Raises Invalid: no table, no rule, or a rule of another format; Unavailable; Corrupt."""
    from compaction.repair_limits import RepairLimits
    from compaction.topic_repair import TopicRepair

    table = command.tables.named(topic)
    hands = own_hands(command, table, sources, clock, on_file=on_file)
    work = TopicRepair(
        table,
        hands.schemas,
        replacer=hands.replacer,
        clock=clock,
        limits=RepairLimits(files_per_turn=FILES_A_COMMIT, bytes_per_turn=BYTES_A_COMMIT),
    )
    work.reopen()
    return work


def _repair(work: TopicRepair, summary: _Summary) -> None:
    """Turns, until one finds nothing to try."""
    while True:
        turn = work.turn()
        summary.add(turn)
        is_asking = turn.unasked > 0 and turn.source_problem is None
        if not (turn.tried or turn.left or is_asking):
            return


def _await_source(work: TopicRepair, clock: Clock) -> None:
    """A registry is asked by a thread of its own: wait for its answers, but not for ever."""
    began_ms = clock.monotonic_ms()
    while work.foresee().source_problem is not None and clock.monotonic_ms() - began_ms < SOURCE_PATIENCE_MS:
        clock.sleep(_SOURCE_PAUSE_MS)


def _show(summary: _Summary) -> None:
    mark = "[bold green]ok[/]" if summary.is_good else "[bold yellow]not all[/]"
    if summary.dry_run:
        done = f"{summary.tried} of {summary.found} files would be tried, for {summary.repaired_records:,} records"
    else:
        done = f"{summary.repaired_records:,} records repaired in {summary.replaced} of {summary.found} files"
    out.print(f"{mark}  [bold]{escape(summary.table)}[/bold]  {done}", soft_wrap=True)
    if summary.gone:
        out.print(f"    {summary.gone} files were replaced by somebody else meanwhile")
    if summary.adopted_ranges:
        out.print(f"    {summary.adopted_ranges} ranges were rewritten by another program, and are left as they are")
    for what, missing in (("schema", summary.missing), ("key schema", summary.missing_keys)):
        for schema_id, rows in sorted(missing.items(), key=lambda item: -item[1])[:REASONS_SHOWN]:
            waiting = f"{rows:,} records for {what} {schema_id}, which the schema source does not have"
            out.print(f"    [yellow]waiting[/]  {waiting}", soft_wrap=True)
    for problem in summary.all_problems:
        out.print(f"    [red]problem[/]  {escape(str(problem))}", soft_wrap=True)
    show_kept_reasons(summary.reasons)
