"""``floeberg cat``: the records of a topic as a consumer would read them, from the table and, on request, beyond it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import Invalid, Unavailable
from engine.offset_range import OffsetRange
from floeberg.cat.offset_choice import OffsetChoice
from floeberg.commands.context import CommandContext

if TYPE_CHECKING:
    from engine.reading.log_reader import LogReader
    from engine.records.records import Records
    from engine.table.topic_table import TopicTable
    from floeberg.cat.record_printer import RecordPrinter
    from streams.live_topic import LiveTopic


def cat(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[int | None, typer.Option("-p", "--partition", help="One partition; all without.")] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--offset",
            metavar="OFFSET",
            help="beginning, end, an offset, -N, s@TIME or e@TIME, as kcat has them.",
        ),
    ] = None,
    start: Annotated[int | None, typer.Option("--from", min=0, help="First offset; the first stored without.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Offset to stop before.")] = None,
    tail: Annotated[int | None, typer.Option(min=1, help="The last so many records of each partition.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what the broker gets, until Ctrl-C.")] = False,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="At most so many records.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records of this key, as it is shown.")] = None,
    form: Annotated[
        str | None,
        typer.Option("-f", "--format", metavar="FORMAT", help="kcat's format string: %k %s %o %p %t %T %h …, \\n."),
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B,…", help="Only these columns of the table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print the records of a topic: what a consumer would read, decoded."""
    CommandContext.of(context).compile_kernels()
    from engine.reading.file_index import FileIndex
    from engine.reading.log_reader import LogReader
    from floeberg.cat.record_printer import RecordPrinter

    choice = OffsetChoice.of(offsets or (), start=start, end=end)
    _check(choice, tail=tail, follow=follow, form=form, decoded=as_json or columns is not None)
    command = CommandContext.of(context)
    table = command.tables.named(topic)
    names = [name.strip() for name in columns.split(",")] if columns is not None else []
    printer = RecordPrinter.of(table, form=form, columns=names, as_json=as_json, key=key)
    with ExitStack() as opened:
        reader = opened.enter_context(closing(LogReader(file_index=FileIndex())))
        live = opened.enter_context(closing(_live(command, topic))) if follow else None
        source = _Source(command=command, reader=reader, table=table, live=live, choice=choice, tail=tail)
        try:
            _print(source.pieces(partition, printer), printer, limit, flushed=follow)
        except KeyboardInterrupt:
            if not follow:
                raise


def _check(choice: OffsetChoice, *, tail: int | None, follow: bool, form: str | None, decoded: bool) -> None:
    if tail is not None and (choice.start, choice.before_end, choice.start_ms) != (None, None, None):
        raise Invalid("There are two starts", next_step="give one of --from, --tail and -o")
    if follow and (choice.end is not None or choice.end_ms is not None):
        raise Invalid("--follow has no end", next_step="leave --follow, or --to and -o e@… out")
    if form is not None and decoded:
        raise Invalid("--format says all of a line", next_step="leave --format, or --json and --columns out")


def _live(command: CommandContext, topic: str) -> LiveTopic:
    from streams.live_topic import LiveTopic

    broker = command.settings.broker
    return LiveTopic(topic, bootstrap=broker.bootstrap, security=broker.security)


def _print(pieces: Iterator[tuple[int, Records]], printer: RecordPrinter, limit: int | None, *, flushed: bool) -> None:
    out, left = sys.stdout.buffer, limit
    for partition, records in pieces:
        lines = list(islice(printer.lines(partition, records), left))
        out.writelines(lines)
        if flushed:
            out.flush()
        if left is not None:
            left -= len(lines)
            if not left:
                break
    out.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Records in the order of partitions and offsets; then, where ``live`` is there, as they come."""

    command: CommandContext
    reader: LogReader
    table: TopicTable
    live: LiveTopic | None
    choice: OffsetChoice
    tail: int | None

    def pieces(self, partition: int | None, printer: RecordPrinter) -> Iterator[tuple[int, Records]]:
        from floeberg.cat.stored_records import stored_records

        there = {} if self.live is None else self.live.ranges()
        numbers = sorted(self.table.ledger.keys() | there.keys())
        if partition is not None and partition not in numbers:
            raise Invalid(
                "The table has nothing of this partition",
                topic=self.table.topic,
                partition=partition,
                next_step=f"partitions in the table: {', '.join(map(str, numbers)) or 'none'}",
            )
        positions: dict[int, int] = {}
        for number in numbers if partition is None else [partition]:
            wanted, positions[number] = self._wanted(number, there.get(number), printer)
            if not wanted.is_empty:
                yield from stored_records(self.reader, self.table, number, wanted)
        if self.live is not None:
            yield from self._followed(self.live, positions)

    def _wanted(self, partition: int, there: OffsetRange | None, printer: RecordPrinter) -> tuple[OffsetRange, int]:
        """What is wanted out of the table, and where it is gone on live: where the table ends, or later."""
        from floeberg.cat.stored_records import start_of_last
        from streams.start import first_since

        entry, choice = self.table.ledger.get(partition), self.choice
        if entry is not None:
            stored = OffsetRange(start=max(entry.log_start, entry.start), end=entry.end)
        else:
            assert there is not None, "the partition is in the table or at the broker"
            stored = OffsetRange(start=there.start, end=there.start)
        last = stored.end if there is None else max(stored.end, there.end)

        def since(timestamp_ms: int) -> int:
            found = first_since(self.reader, self.table, partition, stored, timestamp_ms)
            if found is None and self.live is not None:
                found = self.live.first_since(partition, timestamp_ms)
            return last if found is None else max(found, stored.start)

        start = stored.start
        if self.tail is not None:
            start = start_of_last(self.reader, self.table, partition, stored, self.tail, printer.rows)
        elif choice.start is not None:
            start = min(max(start, choice.start), last)
        elif choice.before_end is not None:
            start = max(start, last - choice.before_end)
        elif choice.start_ms is not None:
            start = since(choice.start_ms)
        stop = stored.end
        if choice.end is not None:
            stop = min(stop, choice.end)
        elif choice.end_ms is not None:
            stop = min(stop, since(choice.end_ms))
        return OffsetRange(start=min(start, stop), end=stop), max(start, stored.end)

    def _followed(self, live: LiveTopic, positions: dict[int, int]) -> Iterator[tuple[int, Records]]:
        """Each record once: ``positions`` are where the table ended when it was read."""
        from floeberg.cat.stored_records import stored_records
        from streams.live_topic import OffsetGone

        live.go_on_at(positions)
        while True:
            try:
                for partition, records in live.take():
                    yield partition, records
                    positions[partition] = int(records.offset[-1]) + 1
            except OffsetGone as gone:
                # While what was in the table was read, or nothing was, Kafka's retention went by: the table goes on.
                table = self.command.tables.named(self.table.topic)
                entry = table.ledger.get(gone.partition)
                if table.topic_id != self.table.topic_id or entry is None or entry.end <= gone.offset:
                    raise Unavailable(
                        "The broker no longer has the records from here on, and the table doesn't have them yet",
                        topic=self.table.topic,
                        partition=gone.partition,
                        offset=gone.offset,
                        next_step="floeberg status",
                    ) from gone
                missed = OffsetRange(start=gone.offset, end=entry.end)
                yield from stored_records(self.reader, table, gone.partition, missed)
                positions[gone.partition] = entry.end
                live.go_on_at(positions)
