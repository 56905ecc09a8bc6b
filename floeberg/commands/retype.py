"""``floeberg table retype``: a table's values get another format, beside a running daemon or without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from engine.clock import SystemClock
from engine.errors import Invalid
from engine.formats.format_facts import AUTO
from floeberg.commands.context import CommandContext
from floeberg.commands.kept_reasons import show_kept_reasons
from floeberg.commands.own_hands import own_replacer
from floeberg.console import err, out, print_json
from floeberg.daemon.log_output import configure_logging
from serving.status.page import size_text

if TYPE_CHECKING:
    from engine.file_lock import FileLock
    from engine.table.topic_table import TopicTable
    from floeberg.settings.topic import TopicSettings
    from topics.topic_rule import TopicRule


@dataclass(slots=True, kw_only=True)
class _Summary:
    """``files`` with ``size_bytes`` and ``records``: of the table, before; ``written_files`` that a retype had written
    which was ended; ``reasons``: rows that keep their bytes, by why, of the files written now."""

    topic: str
    table: str
    before: str
    after: str
    dry_run: bool
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    written_files: int = 0
    new_bytes: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "table": self.table,
            "from": self.before,
            "to": self.after,
            "dry_run": self.dry_run,
            "files": self.files,
            "bytes": self.size_bytes,
            "records": self.records,
            "files_written_before": self.written_files,
            "new_bytes": self.new_bytes,
            "reasons": dict(self.reasons.most_common()),
        }


def retype(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    value: Annotated[
        str | None, typer.Option("--value", help="The format, in place of the one that the settings say.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give a topic's table another value format.

    The one that the settings say now: every record is decoded again. All files are written anew and proven, then one
    commit puts them in place with the new columns. No record is lost, and consumers read the same bytes throughout.
    Ended before that, nothing has changed, and the next call goes on.
    """
    from floeberg.settings.schema_sources import SchemaSources

    command, clock = CommandContext.of(context), SystemClock()
    configure_logging(level="error", log_format="text")
    table = command.tables.named(topic)
    with closing(SchemaSources(command.settings.data_dir, clock)) as sources, _locked(command, table):
        rule = _wanted_rule(command, table, value, sources)
        if _is_made_for(table, rule):
            out.print(f"The table of {escape(topic)} has {rule.value_format} values already")
            return
        summary = _worked(command, table, rule, clock, dry_run=dry_run)
    if as_json:
        print_json(summary.to_dict())
    else:
        _show(summary, is_set=value is None or _setting(command, topic) in {value, AUTO})


def _worked(
    command: CommandContext, table: TopicTable, rule: TopicRule, clock: SystemClock, *, dry_run: bool
) -> _Summary:
    from compaction.topic_retype import TopicRetype

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        shown = progress.add_task(f"retype {escape(table.topic)}", total=None)
        work = TopicRetype(
            table,
            rule,
            replacer=own_replacer(command, clock),
            clock=clock,
            on_file=lambda: progress.advance(shown),
        )
        found = work.foresee()
        progress.update(shown, total=found.files, completed=found.written_files)
        summary = _Summary(
            topic=table.topic,
            table=".".join(table.identifier),
            before=table.codec.name,
            after=rule.value_format,
            dry_run=dry_run,
            files=found.files,
            size_bytes=found.size_bytes,
            records=found.records,
            written_files=found.written_files,
        )
        if not dry_run:
            done = work.run()
            summary.files, summary.records, summary.new_bytes = done.files, done.records, done.size_bytes
            summary.reasons = done.reasons
    return summary


def _locked(command: CommandContext, table: TopicTable) -> FileLock:
    """One at a time. Raises Invalid."""
    from engine.file_lock import FileLock

    command.settings.data_dir.mkdir(parents=True, exist_ok=True)
    lock = FileLock(command.settings.data_dir / f"retype-{table.topic_id}.lock")
    if not lock.take():
        lock.release()
        raise Invalid("Another retype of this table is under way", topic=table.topic)
    return lock


def _wanted_rule(command: CommandContext, table: TopicTable, value: str | None, sources: Any) -> TopicRule:
    """The settings' rule for the topic, of the format ``value`` where it is said. Raises Invalid, Unavailable."""
    from floeberg.settings.rooms import topic_rules
    from floeberg.settings.topic import with_value
    from topics.topic_rule import rule_of

    settings = command.settings
    if value is not None:
        kept = next(_settings_of(command, table.topic), None)
        topics = (with_value(one, value) if one is kept else one for one in settings.topics)
        settings = settings.model_copy(update={"topics": tuple(topics)})
    rule = rule_of(table.topic, topic_rules(settings, sources))
    if rule is None:
        raise Invalid("No [[topics]] names the topic", topic=table.topic)
    made = table.layout, None if table.key_codec is None else table.key_codec.name
    if made != (rule.layout, None if rule.key_codec is None else rule.key_codec.name):
        raise Invalid(
            "The table's key or column_prefix is another than the settings say, and only its values can get another "
            "format",
            topic=table.topic,
            next_step="set key and column_prefix back",
        )
    return _found(table, rule) if rule.is_open else rule


def _settings_of(command: CommandContext, topic: str) -> Iterator[TopicSettings]:
    """Those that match, of which the first counts."""
    from topics.topic_rule import name_matches

    return (one for one in command.settings.topics if name_matches(one.name, topic))


def _setting(command: CommandContext, topic: str) -> str | None:
    return next((one.value for one in _settings_of(command, topic)), None)


def _found(table: TopicTable, rule: TopicRule) -> TopicRule:
    """The rule with the format that the table's first values show."""
    from engine.reading.file_index import FileIndex
    from engine.reading.log_reader import LogReader
    from topics.format_search import find_format
    from topics.value_sample import sample_values

    reader = LogReader(file_index=FileIndex())
    with closing(reader):
        blocks = (
            records
            for partition, entry in sorted(table.ledger.items())
            for records in reader.records(table, partition, entry.held)
        )
        guess = find_format(rule, table.topic, sample_values(blocks).values, is_all=True)
    if guess is None:
        raise Invalid("The table's values don't tell their format", topic=table.topic, next_step="say it: --value")
    return rule.settled_as(guess)


def _is_made_for(table: TopicTable, rule: TopicRule) -> bool:
    try:
        rule.check_table(table)
    except Invalid:
        return False
    return True


def _show(summary: _Summary, *, is_set: bool) -> None:
    what = f"{summary.files} files, {size_text(summary.size_bytes)}, {summary.records:,} records"
    name, formats = escape(summary.table), f"{summary.before} to {summary.after}"
    if summary.dry_run:
        out.print(f"[bold]{name}[/]  would go from {formats}: {what} to write again", soft_wrap=True)
        if summary.written_files:
            out.print(f"    {summary.written_files} files were written by a retype that was ended")
        return
    out.print(f"[bold green]ok[/]  [bold]{name}[/]  went from {formats}: {what}", soft_wrap=True)
    show_kept_reasons(summary.reasons)
    if not is_set:
        said = f'[[topics]] name = "{summary.topic}", value = "{summary.after}"'
        out.print(f"    the settings must say so, too: {said}", soft_wrap=True, markup=False)
    out.print("    a daemon that was started with another format tiers nothing of the topic until it is started again")
