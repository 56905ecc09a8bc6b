"""A topic of orders at a real broker, its table, and tiering that is done when a test says so."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import floeberg
from engine.clock import SystemClock
from engine.table.topic_table import TopicTable
from floeberg.arrow_stream import ArrowStream
from floeberg.commands.context import CommandContext
from floeberg.daemon.assembly import assemble_tiering
from floeberg.processes.local_broker import LocalBroker

PATIENCE_SECONDS = 120.0
PLAIN, WITH_COUPON = 1, 2
FIELDS: list[dict[str, Any]] = [
    {"name": "number", "type": "long"},
    {"name": "country", "type": "string"},
    {"name": "price", "type": "double"},
]
COUPON: dict[str, Any] = {"name": "coupon", "type": ["null", "string"], "default": None}
SCHEMAS = {
    PLAIN: {"type": "record", "name": "Order", "fields": FIELDS},
    WITH_COUPON: {"type": "record", "name": "Order", "fields": [*FIELDS, COUPON]},
}
COUNTRIES = ("DE", "FR", "NL")


class LiveWorld:
    """``partitions`` of a topic; orders are numbered from 0 on, over all partitions."""

    def __init__(self, folder: Path, broker: LocalBroker, topic: str, *, partitions: int = 2) -> None:
        self.topic = topic
        self.folder = folder
        self.broker = broker
        self.config = folder / "floeberg.toml"
        self._numbers = itertools.count()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        schemas = folder / "schemas"
        schemas.mkdir(parents=True)
        for schema_id, schema in SCHEMAS.items():
            (schemas / f"{schema_id}.avsc").write_text(json.dumps(schema))
        log_dirs = json.dumps([str(log_dir) for log_dir in broker.log_dirs])
        self.config.write_text(
            f'[broker]\nbootstrap = "{broker.bootstrap}"\nlog_dirs = {log_dirs}\n[table_door]\nlisten = "127.0.0.1:1"\n'
            f'[[topics]]\nname = "{topic}"\nvalue = "avro"\nschemas = "{schemas}"\nfreshness_ms = 1\n'
        )
        broker.create_topic(topic, partitions=partitions, config={"retention.ms": "-1"})

    def produce(self, count: int, *, partition: int = 0, schema_id: int = PLAIN) -> None:
        """Acknowledged by the broker when this returns."""
        for number in itertools.islice(self._numbers, count):
            order: dict[str, Any] = {"number": number, "country": COUNTRIES[number % 3], "price": number / 4}
            if schema_id == WITH_COUPON:
                order["coupon"] = f"coupon {number}"
            value = io.BytesIO()
            value.write(b"\0" + schema_id.to_bytes(4, "big"))
            fastavro.schemaless_writer(value, SCHEMAS[schema_id], order)
            self._producer.produce(
                self.topic, value.getvalue(), f"key {number}", partition, timestamp=1_000_000 + number
            )
        assert self._producer.flush(60) == 0

    @property
    def table(self) -> TopicTable:
        return CommandContext(config=self.config).tables.named(self.topic)

    def tier(self) -> TopicTable:
        """All that the broker has into the table."""
        ends = {partition: at for partition, at in self.ends().items() if at}
        deadline = time.monotonic() + PATIENCE_SECONDS
        settings = CommandContext(config=self.config).settings
        with closing(assemble_tiering(settings, SystemClock(), in_process=True)) as assembly:
            while True:
                report = assembly.loop.cycle()
                assert time.monotonic() < deadline, report
                if (
                    report.commits
                    and (table := self.table)
                    and all(
                        partition in table.ledger and table.ledger[partition].end >= at
                        for partition, at in ends.items()
                    )
                ):
                    return table

    def ends(self) -> dict[int, int]:
        with closing(self._consumer()) as consumer:
            partitions = consumer.list_topics(self.topic, timeout=30).topics[self.topic].partitions
            asked = {partition: TopicPartition(self.topic, partition) for partition in sorted(partitions)}
            return {number: consumer.get_watermark_offsets(each, timeout=30)[1] for number, each in asked.items()}

    def consumed(self) -> dict[int, list[tuple[int, bytes]]]:
        """What a consumer of committed records gets: offset and key by partition that has some."""
        found: dict[int, list[tuple[int, bytes]]] = {}
        with closing(self._consumer()) as consumer:
            for partition, end in ((partition, end) for partition, end in self.ends().items() if end):
                found[partition] = []
                consumer.assign([TopicPartition(self.topic, partition, 0)])
                while not found[partition] or found[partition][-1][0] < end - 1:
                    message = consumer.poll(30)
                    assert message is not None
                    found[partition].append((message.offset(), message.key()))
        return found

    def stream(self, **arguments: Any) -> ArrowStream:
        stream: ArrowStream = floeberg.stream(self.topic, config=self.config, **arguments)
        return stream

    def _consumer(self) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "any", "isolation.level": "read_committed"}
        )


async def rows_until(stream: ArrowStream, count: int) -> list[dict[str, Any]]:
    """The next rows, at least so many, as they come."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        batch = await asyncio.wait_for(anext(stream), PATIENCE_SECONDS)
        found += batch.to_pylist()
    return found


async def all_batches(stream: ArrowStream) -> list[pa.RecordBatch]:
    """Of a stream that ends."""
    async with stream:
        return [batch async for batch in stream]


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def by_partition(rows: Sequence[dict[str, Any]]) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and key, in the order in which they came."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    for row in rows:
        found.setdefault(row["kafka_partition"], []).append((row["kafka_offset"], row["kafka_key"].encode()))
    return found
