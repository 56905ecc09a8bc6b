"""What each door shows, for the auditor: the table's files, the log door, a consumer, the broker's own disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record import MemoryRecords
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyiceberg.catalog import Catalog

from engine.errors import FloebergError
from engine.offset_range import OffsetRange
from engine.reading.log_reader import LogReader
from engine.table.proof.verifier import Verifier
from engine.table.properties import LAYOUT_PROPERTY, TOPIC_PROPERTY
from engine.table.topic_table import TopicTable
from tests.support.auditor import Dropped, Place, Record, Sight

LEDGER = "floeberg.ledger."
CONSUMER_PATIENCE_S = 120.0
"""Without a single record; a broker whose daemon is just being killed answers nothing for a while."""


def table_sights(catalog: Catalog, identifier: tuple[str, ...]) -> list[Sight]:
    """One a partition of the ledger: the rows of its files, as pyarrow reads them, where the ledger says they are,
    from the table's horizon on.

    For topics kept as ``raw`` or ``string``. A row of a partition without a ledger line has a sight of its own, in
    which everything lies outside.
    """
    table = catalog.load_table(identifier)
    properties = table.metadata.properties
    topic = properties[TOPIC_PROPERTY]
    assert json.loads(properties[LAYOUT_PROPERTY])["prefix"] == "kafka_", "the auditor reads default layouts only"
    rows: dict[int, list[tuple[int, Record]]] = {}
    for path in sorted(task.file.file_path for task in table.scan().plan_files()):
        for partition, offset, record in _rows(path):
            rows.setdefault(partition, []).append((offset, record))
    within = {}
    for key, text in properties.items():
        if key.startswith(LEDGER):
            line = json.loads(text)
            start = max(line["start"], line.get("table_start", 0))
            within[int(key.removeprefix(LEDGER))] = OffsetRange(start=start, end=line["end"])
    return [
        Sight(
            door="table",
            place=(topic, partition),
            within=within.get(partition, OffsetRange(start=0, end=0)),
            records=rows.get(partition, ()),
        )
        for partition in sorted(rows.keys() | within.keys())
    ]


def _rows(path: str) -> Iterator[tuple[int, int, Record]]:
    local = unquote(urlparse(path).path) if "://" in path else path
    # A file on its own: a folder named p=0 would be read as a column.
    table = pq.ParquetFile(local).read()
    timestamp_ms = (value // 1000 for value in table["kafka_timestamp"].cast(pa.int64()).to_pylist())
    columns = [
        table[name].to_pylist() if name in table.column_names else [None] * table.num_rows
        for name in (
            "kafka_partition",
            "kafka_offset",
            "kafka_key",
            "kafka_key_raw",
            "value",
            "kafka_value_raw",
            "kafka_is_null",
            "kafka_headers",
        )
    ]
    for ms, (partition, offset, key, key_raw, value, value_raw, is_null, headers) in zip(
        timestamp_ms, zip(*columns, strict=True), strict=True
    ):
        record = Record(
            key=_bytes(key) if key_raw is None else key_raw,
            value=None if is_null else _bytes(value) if value_raw is None else value_raw,
            timestamp_ms=ms,
            headers=tuple((header["key"], header["value"]) for header in headers or ()),
        )
        yield partition, offset, record


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def log_door_sight(table: TopicTable, partition: int, *, reader: LogReader, within: OffsetRange | None = None) -> Sight:
    """The record batches that the engine makes of ``within`` (the ledger's range), read by aiokafka's own parser."""
    entry = table.ledger[partition]
    wanted = within or OffsetRange(start=max(entry.start, entry.log_start), end=entry.end)
    content = b"".join(reader.read(table, partition, offsets=wanted, start=wanted.start))
    return Sight(
        door="log door", place=(table.topic, partition), within=wanted, records=list(records_of_batches(content))
    )


def records_of_batches(content: bytes) -> Iterator[tuple[int, Record]]:
    """What a consumer is shown of batches one after the other, in their order."""
    batches = MemoryRecords(content)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch is not None
        assert batch.validate_crc(), f"a batch at offset {batch.base_offset} has a wrong CRC"
        if batch.is_control_batch:
            continue
        for record in batch:
            yield record.offset, Record(record.key, record.value, record.timestamp, tuple(record.headers))


def consumer_sight(
    bootstrap: str, place: Place, *, within: OffsetRange | None = None, patience_s: float = CONSUMER_PATIENCE_S
) -> Sight:
    """What a consumer of committed records reads through the broker, from the log start to the end (``within``)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "auditor",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[tuple[int, Record]] = []
    try:
        if within is None:
            low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=patience_s)
            within = OffsetRange(start=low, end=high)
        consumer.assign([TopicPartition(*place, within.start)])
        at = within.start
        deadline = time.monotonic() + patience_s
        while at < within.end:
            messages = consumer.consume(2000, 1.0)
            assert messages or time.monotonic() < deadline, f"{place} delivers nothing behind {at} of {within}"
            for message in messages:
                error = message.error()
                if error is None:
                    found.append((message.offset(), _record(message)))
                    at = message.offset() + 1
                    deadline = time.monotonic() + patience_s
                elif error.code() == KafkaError._PARTITION_EOF:
                    at = message.offset()
                else:
                    raise AssertionError(f"a consumer of {place} at offset {at} was told {error}")
    finally:
        consumer.close()
    records = [item for item in found if item[0] < within.end]
    return Sight(door="consumer", place=place, within=within, records=records)


def _record(message: Any) -> Record:
    return Record(message.key(), message.value(), message.timestamp()[1], tuple(message.headers() or ()))


def dropped_by_broker(
    log_dirs: Sequence[Path], place: Place, table: TopicTable | None, *, log_start: int = 0
) -> Dropped | None:
    """What one broker (``log_dirs`` are all of its) has of a partition no more, proven by reading the table's files
    again; None when it has everything from ``log_start`` on."""
    topic, partition = place
    folders = [log_dir / f"{topic}-{partition}" for log_dir in log_dirs]
    local_start = min(int(path.stem) for folder in folders if folder.is_dir() for path in folder.glob("*.log"))
    if local_start <= log_start:
        return None
    dropped = OffsetRange(start=log_start, end=local_start)
    return Dropped(place=place, range=dropped, problem=_unproven(table, partition, dropped))


def _unproven(table: TopicTable | None, partition: int, dropped: OffsetRange) -> str:
    if table is None:
        return "the topic has no table"
    try:
        if Verifier().verified_range(table, partition, dropped) is None:
            return f"the ledger says {table.ledger.get(partition)}"
    except FloebergError as error:
        return str(error)
    return ""
