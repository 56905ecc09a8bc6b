"""``floeberg compact``: small files become large ones, beside a running daemon or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from engine.clock import Clock, SystemClock
from engine.errors import FloebergError
from floeberg.commands.context import CommandContext
from floeberg.commands.each_table import each_table, end_with
from floeberg.commands.own_hands import own_hands
from floeberg.console import out
from floeberg.daemon.log_output import configure_logging
from serving.status.page import size_text

if TYPE_CHECKING:
    from compaction.planner import MergeGroup, MergePlan
    from compaction.topic_merge import MergeTurn, TopicMerge
    from engine.table.manifests import TableFile
    from engine.table.topic_table import TopicTable
    from floeberg.settings.schema_sources import SchemaSources


@dataclass(slots=True)
class _Summary:
    """One table: ``plan`` before anything was done, and what was."""

    topic: str
    table: str
    dry_run: bool
    plan: MergePlan | None = None
    merges: int = 0
    files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    given_up: int = 0
    problems: dict[str, FloebergError] = field(default_factory=dict)

    def add(self, turn: MergeTurn) -> None:
        self.merges += turn.merged
        self.files += turn.files
        self.read_bytes += turn.read_bytes
        self.written_bytes += turn.written_bytes
        self.given_up += turn.gone
        self.problems |= {str(problem): problem for problem in turn.problems}

    @property
    def is_good(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        groups, left = ((), ()) if self.plan is None else (self.plan.groups, self.plan.left)
        return {
            "good": self.is_good,
            "topic": self.topic,
            "table": self.table,
            "dry_run": self.dry_run,
            "merges": self.merges,
            "files_merged": self.files,
            "bytes_read": self.read_bytes,
            "bytes_written": self.written_bytes,
            "groups_changed_by_others": self.given_up,
            "groups": [_group(group) for group in groups],
            "left": [{**_file(one.file), "reason": one.reason.name.lower(), "why": str(one)} for one in left],
            "problems": list(self.problems),
        }


def compact(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic; without, all that have a table.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell why each file would be merged or not.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put small files together, as far as that at least doubles them."""
    from floeberg.settings.schema_sources import SchemaSources

    command, clock = CommandContext.of(context), SystemClock()
    configure_logging(level="error", log_format="text")
    found: list[_Summary] = []
    with closing(SchemaSources(command.settings.data_dir, clock)) as sources:
        for table in each_table(command, topic, "compact"):
            summary = _Summary(topic=table.topic, table=".".join(table.identifier), dry_run=dry_run)
            found.append(summary)
            try:
                _compact(_open(command, table, sources, clock), summary)
            except FloebergError as error:
                summary.problems[str(error)] = error
            if not as_json:
                _show(summary)
    end_with(found, as_json=as_json)


def _open(command: CommandContext, table: TopicTable, sources: SchemaSources, clock: Clock) -> TopicMerge:
    """Raises Invalid: no rule, or a rule of another format; Unavailable; Corrupt."""
    from compaction.topic_merge import TopicMerge
    from floeberg.settings.rooms import compaction_limits

    hands, limits = own_hands(command, table, sources, clock), compaction_limits(command.settings).merge
    work = TopicMerge(table, hands.schemas, replacer=hands.replacer, clock=clock, limits=limits, is_asked=True)
    work.reopen()
    return work


def _compact(work: TopicMerge, summary: _Summary) -> None:
    """Turns, until one finds nothing to merge; or none."""
    summary.plan = work.plan()
    while not summary.dry_run:
        turn = work.turn()
        summary.add(turn)
        if not turn.tried:
            return


def _file(file: TableFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "partition": file.partition,
        "start": file.range.start,
        "end": file.range.end,
        "size_bytes": file.size_bytes,
    }


def _group(group: MergeGroup) -> dict[str, Any]:
    return {
        "partition": group.partition,
        "start": group.range.start,
        "end": group.range.end,
        "size_bytes": group.size_bytes,
        "reason": group.reason.name.lower(),
        "why": str(group.reason),
        "files": [_file(file) for file in group.files],
    }


def _show(summary: _Summary) -> None:
    mark = "[bold red]not all[/]" if summary.problems else "[bold green]ok[/]"
    if summary.dry_run and summary.plan is not None:
        files = sum(len(group.files) for group in summary.plan.groups)
        done = f"{files:,} files would become {len(summary.plan.groups):,}; {len(summary.plan.left):,} would stay"
    else:
        done = f"{summary.files:,} files became {summary.merges:,}, {size_text(summary.written_bytes)}"
    out.print(f"{mark}  [bold]{escape(summary.table)}[/bold]  {done}", soft_wrap=True)
    if summary.given_up:
        out.print(f"    {summary.given_up} groups were changed by somebody else meanwhile")
    for line in _reasons(summary.plan) if summary.dry_run and summary.plan is not None else ():
        out.print(f"    {escape(line)}", soft_wrap=True, highlight=False)
    for problem in summary.problems:
        out.print(f"    [red]problem[/]  {escape(problem)}", soft_wrap=True)


def _reasons(plan: MergePlan) -> Iterator[str]:
    """Each group with its files, and each other file, in the order of partitions and offsets."""
    told = [(group.files[0], list(_told_group(group))) for group in plan.groups]
    told += [(one.file, [f"{_name(one.file)}  stays: {one}"]) for one in plan.left]
    for _, lines in sorted(told, key=lambda item: item[0]):
        yield from lines


def _told_group(group: MergeGroup) -> Iterator[str]:
    become = f"{len(group.files)} files, {size_text(group.size_bytes)}, become one: {group.reason}"
    yield f"partition {group.partition} {group.range}  {become}"
    yield from (f"    {_name(file)}" for file in group.files)


def _name(file: TableFile) -> str:
    return f"partition {file.partition} {file.range}  {size_text(file.size_bytes)}  {file.path.rpartition('/')[2]}"
