"""The header of a record batch, format v2: 61 bytes, big-endian. docs/batch_format.md has the byte table.

Source: Kafka's ``DefaultRecordBatch`` and KIP-98; the CRC is CRC-32C over everything after the CRC field.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from engine.kafka_log.compression import Compression

HEADER_SIZE_BYTES: Final = 61
MAGIC: Final = 2
# Base offset and length come before the part that ``length`` counts; no batch is shorter than that and its magic.
LENGTH_PREFIX_BYTES: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
# The CRC covers from here to the end of the batch, so that the broker can set the leader epoch without touching it.
CRC_COVERS_FROM: Final = 21

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20

NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP_MS: Final = -1
# The last offset is stored as an int32 above the base offset: what one batch can cover.
MAX_LAST_OFFSET_DELTA: Final = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER_SIZE_BYTES, "the layout below must fill the header exactly"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The fields of one batch header. ``length_bytes`` counts what follows the length field, as on the wire."""

    base_offset: int
    length_bytes: int
    leader_epoch: int
    magic: int = MAGIC
    crc32c: int = 0
    attributes: int = 0
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return LENGTH_PREFIX_BYTES + self.length_bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset that this batch does not cover."""
        return self.last_offset + 1

    @property
    def compression_id(self) -> int:
        """The codec's number, which may be one that Kafka has not defined (5 to 7)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def compression(self) -> Compression:
        """Errors: ValueError for a number that Kafka has not defined."""
        return Compression(self.compression_id)

    @property
    def timestamp_type(self) -> int:
        """0 create time, 1 log append time; under 1 every record's timestamp is ``max_timestamp_ms``."""
        return 1 if self.attributes & TIMESTAMP_TYPE_FLAG else 0


def parse_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the 61 bytes at ``position`` as they are. Errors: struct.error when they are not there."""
    fields = _HEADER.unpack_from(data, position)
    return BatchHeader(
        base_offset=fields[0],
        length_bytes=fields[1],
        leader_epoch=fields[2],
        magic=fields[3],
        crc32c=fields[4],
        attributes=fields[5],
        last_offset_delta=fields[6],
        base_timestamp_ms=fields[7],
        max_timestamp_ms=fields[8],
        producer_id=fields[9],
        producer_epoch=fields[10],
        base_sequence=fields[11],
        record_count=fields[12],
    )
