"""A producer that costs next to nothing: record batches that were compressed beforehand, sent as they are.

librdkafka in Python takes a core for 30 MiB/s of small records, of the two that broker and daemon have; what would be
measured is how little is left for them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from engine.kafka_log.batch_writer import encode_batches
from engine.kafka_log.compression import Compression
from engine.records.records import Records
from floeberg.demo.sample_orders import sample_order_blocks

_BATCH_BYTES: Final = 64 << 10
_TIMEOUT_SECONDS: Final = 60.0
_PRODUCE, _VERSION = 0, 7
_HEAD: Final = struct.Struct(">hhihhhi")
"""API key, version, correlation id; no client id, no transactional id, acks of the leader, its time-out (KIP-98)."""
_ANSWER: Final = struct.Struct(">ihqqq")
"""Of a partition: itself, an error, the first offset, the time of an append, the log's start."""


@dataclass(frozen=True, slots=True)
class PrebuiltBatch:
    """A record batch (format v2, zstd): ``value_bytes`` of values in ``record_count`` records."""

    data: bytes
    record_count: int
    value_bytes: int


def prebuilt_orders(count: int) -> list[PrebuiltBatch]:
    """Sample orders as producers batch them, some 64 KiB each before compression."""
    batches = []
    for block in sample_order_blocks(count):
        size = len(block.value)
        rows = max(1, size * _BATCH_BYTES // block.value.size_bytes)
        for start in range(0, size, rows):
            some = slice(start, min(start + rows, size))
            number = some.stop - some.start
            records = Records(
                offset=np.arange(number),
                timestamp_ms=block.timestamp_ms[some],
                timestamp_type=np.zeros(number, np.int8),
                leader_epoch=np.full(number, -1, np.int32),
                key=block.key.select(some),
                value=block.value.select(some),
                headers=None,
            )
            (batch,) = encode_batches(records, target_bytes=1 << 30, compression=Compression.ZSTD)
            batches.append(PrebuiltBatch(data=bytes(batch), record_count=number, value_bytes=records.value.size_bytes))
    return batches


class PrebuiltProducer:
    """One connection to the one broker of a cluster; a context manager. Each request is answered before the next."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = struct.pack(">h", len(topic)) + topic.encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, batches: Mapping[int, PrebuiltBatch]) -> dict[int, int]:
        """Append a batch to each of these partitions; the offset of each one's last record."""
        parts = [_HEAD.pack(_PRODUCE, _VERSION, 0, -1, -1, 1, int(_TIMEOUT_SECONDS * 1000))]
        parts += [struct.pack(">i", 1), self._topic, struct.pack(">i", len(batches))]
        for partition, batch in batches.items():
            parts += [struct.pack(">ii", partition, len(batch.data)), batch.data]
        request = b"".join(parts)
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        answer = self._received(struct.unpack(">i", self._received(4))[0])
        at = 4 + 4 + len(self._topic) + 4  # correlation id, one topic, its name, how many partitions
        last_offsets = {}
        for partition, error, first_offset, _, _ in _ANSWER.iter_unpack(answer[at:-4]):
            assert error == 0, f"the broker answers with error {error} for partition {partition}"
            last_offsets[partition] = first_offset + batches[partition].record_count - 1
        return last_offsets

    def _received(self, size_bytes: int) -> bytes:
        found = b""
        while len(found) < size_bytes:
            more = self._socket.recv(size_bytes - len(found))
            assert more, "the broker closed the connection"
            found += more
        return found
