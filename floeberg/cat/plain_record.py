"""Records as plain values, decoded where they can be, and as lines for a person."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import Invalid
from engine.formats.format_facts import facts_of
from engine.table.rows.metadata_columns import error_column
from floeberg.sql.plain_value import plain

if TYPE_CHECKING:
    from engine.formats.codec import Decoded, ValueCodec
    from engine.records.records import ByteSpans, Records
    from engine.table.rows.rows import RowCodecs
    from engine.table.topic_table import TopicTable

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def plain_records(records: Records, partition: int, codecs: RowCodecs) -> Iterator[dict[str, Any]]:
    """Records as plain values. Values and typed keys are decoded where they can be, else text, else base64."""
    value, key = codecs.decode(records)
    is_single = facts_of(codecs.value.name).plain_key is not None
    values = decoded_or_text(records.value, None if is_single else value, codecs.value)
    keys, schema_ids = decoded_or_text(records.key, key, codecs.key), value.schema_id.to_pylist()
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


def key_texts(records: Records, codecs: RowCodecs) -> list[str]:
    """Keys as they are shown."""
    _, key = codecs.decode(records)
    return [cell_text(one) for one in decoded_or_text(records.key, key, codecs.key)]


def decoded_or_text(content: ByteSpans, decoded: Decoded | None, codec: ValueCodec | None) -> list[Any]:
    """Each string as its columns where these are all of it, else as text."""
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


def record_line(record: dict[str, Any]) -> str:
    when = _moment(record["timestamp_ms"]) or "-"
    headers = f"  {json.dumps(record['headers'], ensure_ascii=False)}" if record["headers"] else ""
    error = f"  ({record['error']})" if record["error"] else ""
    key, value = cell_text(record["key"]), cell_text(record["value"])
    return f"{record['partition']}/{record['offset']}  {when}  {key}  {value}{headers}{error}"


def _moment(timestamp_ms: int) -> str | None:
    """In ISO 8601; milliseconds where no date has them, None for no timestamp."""
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def column_getters(table: TopicTable, names: Sequence[str]) -> Mapping[str, Callable[[dict[str, Any]], Any]]:
    """What a plain record has in the columns ``names`` of its table. Raises Invalid for a column that there is not."""
    layout = table.layout
    known: dict[str, Callable[[dict[str, Any]], Any]] = {
        layout.partition: lambda record: record["partition"],
        layout.offset: lambda record: record["offset"],
        layout.timestamp: lambda record: _moment(record["timestamp_ms"]),
        layout.timestamp_type: lambda record: record["timestamp_type"],
        layout.leader_epoch: lambda record: record["leader_epoch"],
        layout.key_column: lambda record: record["key"],
        layout.headers: lambda record: record["headers"],
        layout.schema_id: lambda record: record["schema_id"],
        layout.error: lambda record: record["error"],
        **({layout.key_schema_id: lambda record: record["key_schema_id"]} if layout.key_has_schemas else {}),
    }
    facts = facts_of(table.codec.name)
    unshown = {facts.rest_column, *facts.spelling_columns}
    fields = [field.name for field in table.value_fields if field.name not in unshown]
    if facts.plain_key is not None:
        known["value"] = lambda record: record["value"]
    else:
        known |= {name: _member(name) for name in fields}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(
            f"There is no column {', '.join(unknown)}", topic=table.topic, next_step=f"there are {', '.join(known)}"
        )
    return {name: known[name] for name in names}


def _member(name: str) -> Callable[[dict[str, Any]], Any]:
    """NULL where the value has no columns."""
    return lambda record: record["value"].get(name) if isinstance(record["value"], dict) else None


def cell_text(value: Any) -> str:
    """A value among others in a line: text as it is, what is nested and null as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
