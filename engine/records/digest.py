"""The digest of a range of records: what a log and a table must agree on.

The canonical form of a record is, little-endian: offset i64, timestamp in ms i64, timestamp type u8, leader epoch
i32, key length i32 (-1 null) and bytes, value length i32 and bytes, header count i32, then for each header key length
i32 and bytes, value length i32 (-1 null) and bytes. The digest is the CRC-32C (RFC 3720, appendix B.4) of the records'
canonical forms one after another in offset order, with their length and count. Digests of adjacent ranges combine
without the bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import crc32c
import numpy as np

from engine.errors import Invalid
from engine.records.record_kernels import combined_crc32c, write_canonical
from engine.records.records import Records

# Stays in the processor's cache between being written and being summed.
_SCRATCH_BYTES: Final = 256 << 10
_TEXT: Final = re.compile(r"([0-9a-f]{8}):(0|[1-9][0-9]*):(0|[1-9][0-9]*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """CRC-32C of the canonical forms, how many bytes they are, how many records."""

    crc32c: int
    length_bytes: int
    record_count: int

    def then(self, other: RangeDigest) -> RangeDigest:
        """The digest of this range and the one right after it together."""
        crcs = np.array([self.crc32c, other.crc32c], np.uint32)
        lengths = np.array([self.length_bytes, other.length_bytes], np.int64)
        return RangeDigest(
            crc32c=int(combined_crc32c(crcs, lengths)),
            length_bytes=self.length_bytes + other.length_bytes,
            record_count=self.record_count + other.record_count,
        )

    def to_text(self) -> str:
        """``crc:length:count``, the CRC in eight hexadecimal digits."""
        return f"{self.crc32c:08x}:{self.length_bytes}:{self.record_count}"

    @classmethod
    def from_text(cls, text: str) -> RangeDigest:
        """The inverse of ``to_text``. Errors: Invalid for anything that ``to_text`` would not write."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise Invalid(f"a digest looks like 1a2b3c4d:1024:7 (crc:length:count), not {text!r}")
        return cls(crc32c=int(found[1], 16), length_bytes=int(found[2]), record_count=int(found[3]))


EMPTY_DIGEST: Final = RangeDigest(crc32c=0, length_bytes=0, record_count=0)


def digest_of(records: Records) -> RangeDigest:
    """The digest of ``records``, which must be in rising offset order."""
    arrays, scratch, state = records.arrays, np.empty(_SCRATCH_BYTES, np.uint8), np.zeros(2, np.int64)
    crc, length_bytes, row = 0, 0, 0
    while row < len(records):
        row = write_canonical(row, arrays, scratch, state)
        written, needed = int(state[0]), int(state[1])
        crc = crc32c.crc32c(scratch[:written].data, crc)
        length_bytes += written
        if needed > len(scratch):
            scratch = np.empty(needed, np.uint8)
    return RangeDigest(crc32c=crc, length_bytes=length_bytes, record_count=len(records))


def canonical_form(records: Records, size_bytes: int) -> memoryview:
    """The canonical forms of records one after another, which are ``size_bytes`` long together."""
    written, state = np.empty(size_bytes, np.uint8), np.zeros(2, np.int64)
    end = write_canonical(0, records.arrays, written, state)
    assert (end, int(state[0])) == (len(records), size_bytes), "the canonical form is as long as its parts"
    return written.data
