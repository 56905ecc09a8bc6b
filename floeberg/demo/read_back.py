"""The demo's consumer: confluent-kafka as anyone uses it, at the broker's own address, checking every record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException

from engine.errors import Corrupt, Unavailable
from floeberg.demo.orders import PARTITIONS, TOPIC, Fingerprints, fingerprint

_SILENCE_SECONDS = 60.0
_LIVE_RECORDS = 100
"""Records of the trickle to see beyond the end that was there when reading began: then it is the live tail."""

CONSUMER_SETTINGS = {
    "group.id": "floeberg-demo",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "max.partition.fetch.bytes": 8 << 20,
    "fetch.max.bytes": 32 << 20,
    "queued.max.messages.kbytes": 65_536,
    "log_level": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What was read: all of it, of which ``tiered_count`` records were no longer on the broker's disk."""

    record_count: int
    tiered_count: int
    live_count: int
    size_bytes: int
    seconds: float


def read_everything(
    bootstrap: str,
    sent: Sequence[Fingerprints],
    local_start: Sequence[int],
    on_progress: Callable[[int, int], None],
) -> ReadBack:
    """Read the topic from offset 0 into the live tail. ``local_start`` is the first local offset by partition.

    Raises ``Corrupt`` for a record that is missing, doubled, out of order or different; ``Unavailable`` when nothing
    comes any more.
    """
    reader = _Reader(sent)
    target = [len(partition) for partition in sent]
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER_SETTINGS})
    started = last_record = time.monotonic()
    try:
        consumer.subscribe([TOPIC])
        while not (reader.has_reached(target) and reader.count >= sum(target) + _LIVE_RECORDS):
            messages = consumer.consume(10_000, timeout=0.5)
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                reader.take(message)
            now = time.monotonic()
            last_record = now if messages else last_record
            if now - last_record > _SILENCE_SECONDS:
                raise Unavailable(f"The consumer has had no record for {_SILENCE_SECONDS:.0f} s", topic=TOPIC)
            on_progress(reader.count, sum(target))
    except KafkaException as error:
        raise Unavailable(f"The consumer got an error: {error}", topic=TOPIC) from error
    finally:
        consumer.close()
    seconds = time.monotonic() - started
    reader.compare()
    return ReadBack(
        record_count=reader.count,
        tiered_count=sum(min(count, start) for count, start in zip(reader.next_offset, local_start, strict=True)),
        live_count=reader.count - sum(target),
        size_bytes=reader.size_bytes,
        seconds=seconds,
    )


class _Reader:
    def __init__(self, sent: Sequence[Fingerprints]) -> None:
        self.next_offset = [0] * PARTITIONS
        self.count = 0
        self.size_bytes = 0
        self._sent = sent
        self._crc = [0] * PARTITIONS

    def take(self, message: object) -> None:
        partition, offset = message.partition(), message.offset()  # type: ignore[attr-defined]
        if offset != self.next_offset[partition]:
            raise Corrupt(
                f"The consumer got offset {offset} where {self.next_offset[partition]} comes next",
                topic=TOPIC,
                partition=partition,
                offset=offset,
            )
        key, value, timestamp = message.key(), message.value(), message.timestamp()  # type: ignore[attr-defined]
        self._crc[partition] = fingerprint(self._crc[partition], key, value, timestamp[1])
        self.next_offset[partition] = offset + 1
        self.count += 1
        self.size_bytes += len(value)

    def has_reached(self, target: Sequence[int]) -> bool:
        return all(have >= want for have, want in zip(self.next_offset, target, strict=True))

    def compare(self) -> None:
        for partition, (count, crc) in enumerate(zip(self.next_offset, self._crc, strict=True)):
            if self._sent[partition].after(count) != crc:
                raise Corrupt(
                    f"The {count} records that were read are not those that were produced",
                    topic=TOPIC,
                    partition=partition,
                )
