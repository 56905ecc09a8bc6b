"""What a follower needs to bootstrap from tiered storage: leader epochs and producers' state (KIP-405).

The same bytes are the body of a copy request and the object in the warehouse. Byte table in docs/log_door.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import crc32c

from engine.errors import Corrupt

MAGIC = b"FLAX"
VERSION = 1
NO_SNAPSHOT = -1
MAX_SIZE_BYTES = 64 << 20
"""Bound of one object. A producer snapshot grows by some 50 bytes a producer: this is a million of them."""
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryState:
    """``leader_epochs``: text of the leader epoch checkpoint up to the segment's end. ``producer_snapshot``: Kafka's
    ``.snapshot`` file for the offset after the segment; None where the broker had none."""

    leader_epochs: bytes
    producer_snapshot: bytes | None

    def to_bytes(self) -> bytes:
        snapshot = self.producer_snapshot
        content = b"".join(
            (
                MAGIC,
                _INT32.pack(VERSION),
                _INT32.pack(len(self.leader_epochs)),
                self.leader_epochs,
                _INT32.pack(NO_SNAPSHOT if snapshot is None else len(snapshot)),
                snapshot or b"",
            )
        )
        return content + _UINT32.pack(crc32c.crc32c(content))

    @classmethod
    def from_bytes(cls, content: bytes) -> AuxiliaryState:
        """Raises ``Corrupt`` when the bytes are anything but what ``to_bytes`` writes."""
        # Views: these are up to 64 MiB.
        body, checksum = memoryview(content)[:-4], memoryview(content)[-4:]
        if len(checksum) < 4 or body[:4] != MAGIC:
            raise Corrupt("The auxiliary state of a segment does not begin with its magic")
        if _UINT32.unpack(checksum)[0] != crc32c.crc32c(body):
            raise Corrupt("The auxiliary state of a segment has a wrong CRC")
        version, at = _int32(body, 4)
        if version != VERSION:
            raise Corrupt(f"The auxiliary state of a segment has version {version}, this program knows {VERSION}")
        leader_epochs, at = _blob(body, at)
        producer_snapshot, at = _blob(body, at)
        if leader_epochs is None or at != len(body):
            raise Corrupt("The auxiliary state of a segment has lengths that do not fit")
        return cls(
            leader_epochs=bytes(leader_epochs),
            producer_snapshot=None if producer_snapshot is None else bytes(producer_snapshot),
        )


def _int32(body: memoryview, at: int) -> tuple[int, int]:
    if at + 4 > len(body):
        raise Corrupt("The auxiliary state of a segment ends too early")
    value: int = _INT32.unpack_from(body, at)[0]
    return value, at + 4


def _blob(body: memoryview, at: int) -> tuple[memoryview | None, int]:
    length, at = _int32(body, at)
    if length == NO_SNAPSHOT:
        return None, at
    if not 0 <= length <= len(body) - at:
        raise Corrupt("The auxiliary state of a segment has lengths that do not fit")
    return body[at : at + length], at + length
