"""``floeberg cat``: the records of a topic as the table gives them back, offset by offset."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from floeberg.commands.context import CommandContext
from floeberg.console import print_line
from floeberg.plain_value import plain

if TYPE_CHECKING:
    from engine.formats.codec import Decoded, ValueCodec
    from engine.reading.log_reader import LogReader
    from engine.records.records import ByteSpans, Records
    from engine.table.rows.rows import RowCodecs
    from engine.table.topic_table import TopicTable

_ROWS_AT_ONCE = 1024
"""Rows turned into Python objects at a time: little memory, and the first line comes soon."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def cat(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[int | None, typer.Option("-p", "--partition", help="One partition; all without.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="First offset; the first stored without.")] = None,
    end: Annotated[int | None, typer.Option("--to", help="Offset to stop before.")] = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="At most so many records.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print the records of a topic from the table: what a consumer would read, decoded."""
    from engine.reading.file_index import FileIndex
    from engine.reading.log_reader import LogReader

    command = CommandContext.of(context)
    table = command.tables.named(topic)
    reader = LogReader(file_index=FileIndex())
    try:
        for line in islice(_lines(table, reader, _ranges(table, partition, start, end), as_json=as_json), limit):
            print_line(line)
    finally:
        reader.close()


def _ranges(
    table: TopicTable, partition: int | None, start: int | None, end: int | None
) -> Iterator[tuple[int, OffsetRange]]:
    if partition is not None and partition not in table.ledger:
        raise Invalid(
            "The table has nothing of this partition",
            topic=table.topic,
            partition=partition,
            next_step=f"partitions in the table: {', '.join(map(str, sorted(table.ledger))) or 'none'}",
        )
    for number, entry in sorted(table.ledger.items()):
        if partition in {None, number}:
            first = max(entry.log_start, entry.start, start or 0)
            stop = entry.end if end is None else min(entry.end, end)
            if first < stop:
                yield number, OffsetRange(start=first, end=stop)


def _lines(
    table: TopicTable, reader: LogReader, ranges: Iterator[tuple[int, OffsetRange]], *, as_json: bool
) -> Iterator[str]:
    from engine.table.rows.rows import RowCodecs

    codecs = RowCodecs.of(table)
    for partition, offsets in ranges:
        for block in reader.records(table, partition, offsets):
            for first in range(0, len(block), _ROWS_AT_ONCE):
                records = block.slice(first, min(len(block), first + _ROWS_AT_ONCE))
                for record in _plain_records(records, partition, codecs):
                    yield json.dumps(record, ensure_ascii=False) if as_json else _line(record)


def _plain_records(records: Records, partition: int, codecs: RowCodecs) -> Iterator[dict[str, Any]]:
    """Records as plain values. Values and typed keys are decoded where they can be, else text, else base64."""
    from engine.table.rows.metadata_columns import error_column

    value, key = codecs.decode(records)
    is_single = [field.name for field in codecs.value.fields] == ["value"] and codecs.value.name in {"raw", "string"}
    values = _decoded(records.value, None if is_single else value, codecs.value)
    keys, schema_ids = _decoded(records.key, key, codecs.key), value.schema_id.to_pylist()
    key_schema_ids = None if key is None else key.schema_id.to_pylist()
    errors = error_column(value, key).to_pylist()
    for row in range(len(records)):
        yield {
            "partition": partition,
            "offset": int(records.offset[row]),
            "timestamp_ms": int(records.timestamp_ms[row]),
            "timestamp_type": "log append" if int(records.timestamp_type[row]) == 1 else "create",
            "leader_epoch": int(records.leader_epoch[row]),
            "key": keys[row],
            "value": values[row],
            "headers": [] if records.headers is None else _headers(records.headers.of_record(row)),
            "schema_id": schema_ids[row],
            **({} if key_schema_ids is None else {"key_schema_id": key_schema_ids[row]}),
            "error": errors[row],
        }


def _decoded(content: ByteSpans, decoded: Decoded | None, codec: ValueCodec | None) -> list[Any]:
    """Each string as its columns where these are all of it, else as text."""
    from engine.formats.format_facts import facts_of

    texts = [_text(content[row]) for row in range(len(content))]
    if decoded is None:
        return texts
    columns = decoded.columns.to_pylist()
    if codec is not None:
        facts = facts_of(codec.name)
        unshown = {facts.rest_column, *facts.spelling_columns}
        columns = [row and {name: part for name, part in row.items() if name not in unshown} for row in columns]
    is_whole = [text is not None and decoded.reason_of(row) is None for row, text in enumerate(texts)]
    return [plain(column) if whole else text for column, whole, text in zip(columns, is_whole, texts, strict=True)]


def _headers(pairs: list[tuple[bytes, bytes | None]]) -> list[list[Any]]:
    return [[_text(key), _text(value)] for key, value in pairs]


def _text(value: bytes | None) -> Any:
    """Text where the bytes are UTF-8, else ``{"base64": …}``."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _line(record: dict[str, Any]) -> str:
    when = "-"
    if record["timestamp_ms"] >= 0:
        try:
            moment = _EPOCH + datetime.timedelta(milliseconds=record["timestamp_ms"])
            when = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        except OverflowError:
            when = f"{record['timestamp_ms']} ms"
    value = record["value"]
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    headers = f"  {json.dumps(record['headers'], ensure_ascii=False)}" if record["headers"] else ""
    error = f"  ({record['error']})" if record["error"] else ""
    return f"{record['partition']}/{record['offset']}  {when}  {_shown_key(record['key'])}  {shown}{headers}{error}"


def _shown_key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)
