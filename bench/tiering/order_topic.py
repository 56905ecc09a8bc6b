"""A topic of sample orders on a real broker, written by a real producer as most producers are set up: zstd, 64 KiB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_orders

_FLUSH_TIMEOUT_SECONDS = 120.0
_POLL_EVERY_ORDERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTopic:
    """What was produced: ``order_count`` records with ``value_bytes`` of values, evenly over the partitions."""

    name: str
    partition_count: int
    order_count: int
    value_bytes: int


def produce_orders(
    bootstrap: str, name: str, *, count: int, partition_count: int, config: Mapping[str, str], seed: int = 1
) -> OrderTopic:
    """Create the topic and write ``count`` orders, round robin by partition, awaiting every delivery.

    ``config`` is the topic's; old timestamps stay because ``retention.ms`` is -1 unless it says otherwise.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partition_count, 1, config={"retention.ms": "-1", **config})
    admin.create_topics([topic])[name].result(timeout=30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "zstd",
            "linger.ms": 50,
            "batch.size": 65_536,
            "queue.buffering.max.messages": 500_000,
            "enable.idempotence": True,
        }
    )
    value_bytes = 0
    for number, (key, value, timestamp_ms) in enumerate(sample_orders(count, seed=seed)):
        value_bytes += len(value)
        while True:
            try:
                producer.produce(name, value, key, number % partition_count, timestamp=timestamp_ms)
                break
            except BufferError:
                producer.poll(0.1)
        if number % _POLL_EVERY_ORDERS == 0:
            producer.poll(0)
    left = producer.flush(_FLUSH_TIMEOUT_SECONDS)
    assert left == 0, f"{left} orders were not delivered within {_FLUSH_TIMEOUT_SECONDS:.0f} s"
    return OrderTopic(name=name, partition_count=partition_count, order_count=count, value_bytes=value_bytes)


def write_schema_folder(folder: Path) -> Path:
    """The orders' schema as ``<id>.avsc``, what a topic's ``schemas`` setting names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{ORDER_SCHEMA_ID}.avsc").write_text(ORDER_SCHEMA)
    return folder
