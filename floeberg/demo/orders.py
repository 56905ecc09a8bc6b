"""The demo's producer: a million orders at full speed, then a trickle, and a fingerprint of every record sent."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import crc32c
from confluent_kafka import KafkaError, Producer

from engine.errors import Unavailable
from floeberg.demo.sample_orders import FIRST_ORDER_ID, sample_orders

TOPIC = "orders"
PARTITIONS = 3
TRICKLE_PER_SECOND = 200
_FLUSH_TIMEOUT_SECONDS = 60.0
_BATCH = 5_000
_MOST_QUEUED = 200_000
"""Messages in the producer's own queue; beyond it the burst waits for the broker."""

PRODUCER_SETTINGS = {
    "compression.type": "zstd",
    "linger.ms": 20,
    "batch.size": 131_072,
    "queue.buffering.max.messages": 500_000,
    # Without it a retry may change the order, and the demo checks the order.
    "enable.idempotence": True,
    "log_level": 2,
}


_Message = tuple[bytes, bytes, int, int]
"""Key, value, partition, timestamp in milliseconds."""


def fingerprint(crc: int, key: bytes, value: bytes, timestamp_ms: int) -> int:
    """CRC-32C of a partition's records so far, with one more."""
    return int(crc32c.crc32c(b"%d %s %s" % (timestamp_ms, key, value), crc))


class Fingerprints:
    """Of one partition: what the CRC was after each record, so that a reader may stop anywhere and compare."""

    def __init__(self) -> None:
        self._after = array("I")
        self._crc = 0

    def __len__(self) -> int:
        return len(self._after)

    def add(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        self._crc = fingerprint(self._crc, key, value, timestamp_ms)
        self._after.append(self._crc)

    def after(self, record_count: int) -> int:
        """The CRC of the first ``record_count`` records."""
        return self._after[record_count - 1] if record_count else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedOrders:
    """What a burst came to."""

    record_count: int
    value_bytes: int
    seconds: float


class OrderProducer:
    """Sends orders round robin to the partitions of ``TOPIC``. The trickle runs in a thread until ``stop``."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = [Fingerprints() for _ in range(PARTITIONS)]
        self._producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER_SETTINGS, "error_cb": self._note_failure})
        self._orders_made = 0
        self._failure: KafkaError | None = None
        self._stopping = threading.Event()
        self._trickle: threading.Thread | None = None

    @property
    def next_order_id(self) -> int:
        return FIRST_ORDER_ID + self._orders_made

    def burst(self, count: int, on_progress: Callable[[int], None]) -> ProducedOrders:
        """Send ``count`` orders as fast as it goes; returns when all of them are acknowledged.

        Raises ``Unavailable`` when the broker did not take one.
        """
        started, value_bytes = time.monotonic(), 0
        orders = sample_orders(count)
        while batch := [self._message(order) for order in islice(orders, _BATCH)]:
            value_bytes += sum(len(message[1]) for message in batch)
            self._send(batch)
            on_progress(self._orders_made)
        self._flush()
        on_progress(count)
        return ProducedOrders(record_count=count, value_bytes=value_bytes, seconds=time.monotonic() - started)

    def start_trickle(self) -> None:
        """Go on with new orders, ``TRICKLE_PER_SECOND`` of them, stamped with the present time."""
        self._trickle = threading.Thread(target=self._run_trickle, name="trickle", daemon=True)
        self._trickle.start()

    def stop(self) -> None:
        """End the trickle; returns when everything sent is acknowledged."""
        self._stopping.set()
        if self._trickle is not None:
            self._trickle.join()
            self._trickle = None
        self._flush()

    def abandon(self) -> None:
        """End the trickle without waiting for what was sent: the broker may be gone."""
        self._stopping.set()
        if self._trickle is not None:
            self._trickle.join(1.0)
        self._producer.purge()

    def _run_trickle(self) -> None:
        for order in live_orders(self.next_order_id):
            self._send([self._message(order)])
            if self._stopping.wait(1 / TRICKLE_PER_SECOND):
                return

    def _message(self, order: tuple[bytes, bytes, int]) -> _Message:
        """The next message, already in its partition's fingerprint: a reader may have it as soon as it is sent."""
        key, value, timestamp_ms = order
        partition = self._orders_made % PARTITIONS
        self._orders_made += 1
        self.sent[partition].add(key, value, timestamp_ms)
        return key, value, partition, timestamp_ms

    def _send(self, messages: list[_Message]) -> None:
        while len(self._producer) > _MOST_QUEUED:
            self._producer.poll(0.05)
        produce = self._producer.produce
        # One by one: produce_batch takes no timestamps.
        for key, value, partition, timestamp_ms in messages:
            produce(TOPIC, value, key, partition, timestamp=timestamp_ms)
        self._producer.poll(0)

    def _note_failure(self, error: KafkaError) -> None:
        # librdkafka mends most of what it tells of by itself; flush finds out about the rest.
        self._failure = error

    def _flush(self) -> None:
        left = self._producer.flush(_FLUSH_TIMEOUT_SECONDS)
        if left:
            raise Unavailable(f"The broker did not take {left} of the orders: {self._failure or 'no answer'}")


def live_orders(first_order_id: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Orders without end, stamped with the present time."""
    now_ms = time.time_ns() // 1_000_000
    for key, value, _ in sample_orders(None, first_order_id=first_order_id, first_timestamp_ms=now_ms):
        yield key, value, time.time_ns() // 1_000_000
