"""``floeberg erase``: records of some keys, or of a condition, leave a topic's table for good (docs/erasure.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn

from engine.clock import SystemClock
from engine.errors import Invalid
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import err, out, print_json
from floeberg.daemon.log_output import configure_logging
from serving.status.page import size_text

if TYPE_CHECKING:
    from engine.table.topic_table import TopicTable
    from floeberg.tables.erasure import Eraser
    from retention.erasure_condition import Condition
    from retention.erasure_finding import FileMatches, Found
    from retention.erasure_holders import LocalCopy
    from retention.erasure_report import ErasureReport
    from retention.erasure_scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was given to find records by: ``keys`` as the records have them, or ``where``."""

    keys: frozenset[bytes] = frozenset()
    where: str | None = None

    def condition(self, table: TopicTable) -> Condition:
        """Raises Invalid."""
        if self.where is not None:
            from floeberg.sql.duckdb_condition import DuckdbCondition

            return DuckdbCondition(table, self.where)
        from retention.erasure_condition import KeyCondition

        return KeyCondition(table, self.keys)

    def __bool__(self) -> bool:
        return bool(self.keys) or self.where is not None


def erase(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    key: Annotated[list[str] | None, typer.Option(help="A record's key; may be given again.")] = None,
    key_hex: Annotated[list[str] | None, typer.Option(help="A key that is no text, as its bytes in hex.")] = None,
    keys_file: Annotated[Path | None, typer.Option(help="A file of keys, one a line.")] = None,
    where: Annotated[str | None, typer.Option(help="A condition on the table's columns, in SQL.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be erased.")] = False,
    report: Annotated[str | None, typer.Option(help="Show the report of an erasure, by its id.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="With --report: read every file of the table for what was erased.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take the records of some keys, or of a condition, out of a topic's table and its history."""
    command = CommandContext.of(context)
    configure_logging(level="error", log_format="text")
    table = command.tables.named(topic)
    asked = _Asked(keys=_keys(table, key or [], key_hex or [], keys_file), where=where)
    if asked.keys and where is not None:
        raise Invalid("Keys and a condition are given", topic=topic, next_step="erase by the one, then by the other")
    if verify and report is None:
        raise Invalid("--verify needs the erasure to look for", topic=topic, next_step="--report ID --verify")
    if report is not None:
        is_good = _show_report(command, table, report, asked, verify=verify, as_json=as_json)
    elif not asked:
        raise Invalid("Nothing says which records", topic=topic, next_step="give --key, --keys-file or --where")
    elif dry_run:
        is_good = _tell(command, table, asked, as_json=as_json)
    else:
        is_good = _erase(command, table, asked, as_json=as_json)
    if not is_good:
        exit_with(FOUND_SOMETHING)


def _keys(table: TopicTable, texts: list[str], in_hex: list[str], file: Path | None) -> frozenset[bytes]:
    from retention.erasure_condition import key_bytes

    if file is not None:
        try:
            texts = [*texts, *(line for line in file.read_text(encoding="utf-8").splitlines() if line)]
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"the keys can't be read: {error}", file=str(file)) from error
    try:
        keys = {bytes.fromhex(digits) for digits in in_hex}
    except ValueError as error:
        raise Invalid(f"a key's bytes are given by two hexadecimal digits each: {error}") from error
    return frozenset(keys.union(*(key_bytes(table, text) for text in texts)))


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """A callable that counts files."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed} files"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(escape(what), total=None)
        yield lambda: progress.advance(task)


def _eraser(command: CommandContext, on_file: Callable[[], object]) -> Eraser:
    from engine.table.commit.writer import TableWriter
    from floeberg.settings.rooms import sweep_limits
    from floeberg.tables.erasure import Eraser

    settings, clock = command.settings, SystemClock()
    writer = TableWriter(command.catalog, clock, namespace=settings.namespace, history=settings.history.limits)
    return Eraser(catalog=command.catalog, writer=writer, clock=clock, sweep=sweep_limits(settings), on_file=on_file)


def _tell(command: CommandContext, table: TopicTable, asked: _Asked, *, as_json: bool) -> bool:
    from engine.table.history import MAY_BE_UNANSWERED_MS
    from retention.erasure_finding import Finder

    history_until_ms = SystemClock().now_ms() + MAY_BE_UNANSWERED_MS
    with _progress(f"erase {table.topic}") as on_file:
        gone_by_ms = _eraser(command, on_file).gone_by_ms(history_until_ms)
        found = Finder(condition=asked.condition(table), on_file=on_file).look(table)
    left = [str(error) for error in found.unreadable.values()]
    if as_json:
        print_json(
            {
                "good": not left,
                "dry_run": True,
                "topic": table.topic,
                "records": found.record_count,
                "files_read": found.read,
                "files_left_out": found.pruned,
                "records_without_columns": found.untyped,
                "history_until_ms": history_until_ms,
                "gone_by_ms": gone_by_ms,
                "partitions": [_told(number, matches) for number, matches in _by_partition(found)],
                "left": left,
            }
        )
        return not left
    files = f"{found.read:,} files were read, {found.pruned:,} can't hold any"
    out.print(f"[bold]{escape(table.topic)}[/bold]  {found.record_count:,} records would go; {files}", soft_wrap=True)
    for number, matches in _by_partition(found):
        told = _told(number, matches)
        extent = f"[{told['start']}, {told['end']})"
        written = f"{told['records']:,} records in {told['files']:,} files ({size_text(told['size_bytes'])})"
        out.print(f"    partition {number} {extent}  {written}", soft_wrap=True, markup=False)
    if asked.where is not None and found.untyped:
        out.print(f"    {found.untyped:,} records have no columns for a condition to look at (kafka_error)")
    _print_times(history_until_ms, gone_by_ms)
    _print_left(left)
    return not left


def _by_partition(found: Found) -> list[tuple[int, list[FileMatches]]]:
    from retention.erasure_finding import by_partition

    return sorted(by_partition((*found.matches, *found.adopted)).items())


def _told(number: int, matches: list[FileMatches]) -> dict[str, Any]:
    return {
        "partition": number,
        "records": sum(len(one.offsets) for one in matches),
        "files": len(matches),
        "size_bytes": sum(one.file.size_bytes for one in matches),
        "start": matches[0].extent.start,
        "end": matches[-1].extent.end,
    }


def _print_left(left: list[str]) -> None:
    for line in left:
        out.print(f"    [red]left[/]  {escape(line)}", soft_wrap=True)


def _erase(command: CommandContext, table: TopicTable, asked: _Asked, *, as_json: bool) -> bool:
    with _progress(f"erase {table.topic}") as on_file:
        eraser = _eraser(command, on_file)
        report = eraser.erase(table, asked.condition(table), keys=asked.keys, where=asked.where)
    copies = _local_copies(command, report)
    good = not report.left and not report.kept_by
    if as_json:
        print_json({"good": good, **report.to_value(), "local": [str(copy) for copy in copies]})
    else:
        _print_report(report, copies)
    return good


def _local_copies(command: CommandContext, report: ErasureReport) -> list[LocalCopy]:
    from retention.erasure_holders import local_copies

    erased = {number: (one.extent,) for number, one in report.partitions.items() if one.extent is not None}
    return list(local_copies(command.settings.broker.log_dirs, report.topic_id, erased))


def _show_report(
    command: CommandContext, table: TopicTable, name: str, asked: _Asked, *, verify: bool, as_json: bool
) -> bool:
    from floeberg.tables.erasure import Eraser
    from retention.erasure_report import ErasureReports
    from retention.erasure_scan import Matcher, scan

    reports = ErasureReports(warehouse=table.warehouse, location=table.location, topic=table.topic)
    report = reports.get(name)
    named = Eraser.still_named(command.catalog, table, report)
    found: Scan | None = None
    if verify:
        _check_asked(report, asked)
        matcher = Matcher(table, report, asked.condition(table) if asked else None)
        with _progress(f"look for {table.topic}") as on_file:
            found = scan(table, matcher, asked.keys, on_file=on_file)
    copies = _local_copies(command, report)
    good = report.ended_ms is not None and not report.left and (found is None or found.is_clean)
    if as_json:
        looked = None if found is None else _scan_value(found)
        value = {"named_by": named, "local": [str(copy) for copy in copies], "scan": looked}
        print_json({"good": good, **report.to_value(), **value})
        return good
    _print_report(report, copies)
    for line in named:
        out.print(f"    [yellow]now[/]   {escape(line)}", soft_wrap=True)
    if found is not None:
        _print_scan(found)
    return good


def _check_asked(report: ErasureReport, asked: _Asked) -> None:
    """What is given again is what was asked then. Raises Invalid."""
    given = {report.hashed(key) for key in asked.keys}
    strange = given - set(report.keys)
    is_other = asked.where is not None and report.hashed(asked.where.encode()) != report.condition
    if strange or is_other:
        raise Invalid("what is given is not what was erased then", topic=report.topic)


def _scan_value(found: Scan) -> dict[str, Any]:
    return {
        "clean": found.is_clean,
        "files": found.files,
        "records": found.records,
        "bytes_in": found.bytes_in,
        "unread": found.unread,
    }


def _print_report(report: ErasureReport, copies: list[LocalCopy]) -> None:
    ended = "not ended" if report.ended_ms is None else f"ended {_moment(report.ended_ms)}"
    mark = "[bold green]ok[/]" if report.ended_ms is not None and not report.left else "[bold red]not all[/]"
    what = f"{report.record_count:,} records erased, {len(report.files):,} files replaced, {ended}"
    out.print(f"{mark}  [bold]{escape(report.table)}[/bold]  {what}", soft_wrap=True)
    out.print(f"    report {report.erasure_id}", soft_wrap=True, markup=False)
    for number, one in sorted(report.partitions.items()):
        extent = "nothing" if one.extent is None else f"{one.records:,} records of {one.extent}"
        out.print(f"    partition {number}  {extent}; no match below offset {one.up_to}", soft_wrap=True, markup=False)
    if report.gone_by_ms is not None:
        _print_times(report.history_until_ms, report.gone_by_ms)
    for line in (*report.kept_by, *map(str, copies)):
        out.print(f"    [yellow]still[/] {escape(line)}", soft_wrap=True)
    _print_left(list(report.left))


def _print_times(history_until_ms: int | None, gone_by_ms: int) -> None:
    if history_until_ms is not None:
        out.print(f"    old snapshots may go at {_moment(history_until_ms)}: the next commit, or floeberg expire")
    out.print(f"    old files are gone by {_moment(gone_by_ms)}, where a daemon sweeps", soft_wrap=True)


def _print_scan(found: Scan) -> None:
    mark = "[bold green]ok[/]" if found.is_clean else "[bold red]found[/]"
    out.print(f"{mark}  {found.files:,} files were looked through", soft_wrap=True)
    for path, count in found.records.items():
        out.print(f"    {count:,} of the records are in {path}", soft_wrap=True, markup=False)
    for path in found.bytes_in:
        out.print(f"    the bytes of a key are in {path}", soft_wrap=True, markup=False)
    for path, why in found.unread.items():
        out.print(f"    not looked through: {path}: {why}", soft_wrap=True, markup=False)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
