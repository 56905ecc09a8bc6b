"""The digest of a range of records: what a log and a table must agree on.

The canonical form of a record is, little-endian: offset i64, timestamp in ms i64, timestamp type u8, leader epoch
i32, key length i32 (-1 null) and bytes, value length i32 and bytes, header count i32, then for each header key length
i32 and bytes, value length i32 (-1 null) and bytes. The digest is the CRC-32C (RFC 3720, appendix B.4) of the records'
canonical forms behind each other in offset order, with their length and count. Digests of adjacent ranges combine
without the bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.records.digest_kernels import write_canonical
from engine.records.records import ByteSpans, Headers, Records

# Stays in the processor's cache between being written and being summed.
_SCRATCH_BYTES: Final = 256 << 10
_TEXT: Final = re.compile(r"([0-9a-f]{8}):(0|[1-9][0-9]*):(0|[1-9][0-9]*)", re.ASCII)
# CRC-32C's polynomial, bits reversed, as in every table for it.
_POLYNOMIAL: Final = 0x82F63B78
_NO_SPANS: Final = ByteSpans.nulls(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """CRC-32C of the canonical forms, how many bytes they are, how many records."""

    crc32c: int
    length_bytes: int
    record_count: int

    def then(self, other: RangeDigest) -> RangeDigest:
        """The digest of this range and the one right behind it together."""
        return RangeDigest(
            crc32c=combine_crc32c(self.crc32c, other.crc32c, other.length_bytes),
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
    headers = records.headers or Headers(first=np.empty(0, np.int64), key=_NO_SPANS, value=_NO_SPANS)
    scratch = np.empty(_SCRATCH_BYTES, np.uint8)
    state = np.zeros(2, np.int64)
    crc, length_bytes, row = 0, 0, 0
    while row < len(records):
        row = _write(row, records, headers, scratch, state)
        written, needed = int(state[0]), int(state[1])
        crc = crc32c.crc32c(scratch[:written].data, crc)
        length_bytes += written
        if needed > len(scratch):
            scratch = np.empty(needed, np.uint8)
    return RangeDigest(crc32c=crc, length_bytes=length_bytes, record_count=len(records))


def canonical_form(records: Records, size_bytes: int) -> memoryview:
    """The canonical forms of records behind each other, which are ``size_bytes`` long together."""
    headers = records.headers or Headers(first=np.empty(0, np.int64), key=_NO_SPANS, value=_NO_SPANS)
    written, state = np.empty(size_bytes, np.uint8), np.zeros(2, np.int64)
    end = _write(0, records, headers, written, state)
    assert (end, int(state[0])) == (len(records), size_bytes), "the canonical form is as long as its parts"
    return written.data


def _write(row: int, records: Records, headers: Headers, scratch: NDArray[np.uint8], state: NDArray[np.int64]) -> int:
    key, value = records.key, records.value
    return int(
        write_canonical(
            row,
            records.offset,
            records.timestamp_ms,
            records.timestamp_type,
            records.leader_epoch,
            key.data,
            key.start,
            key.length,
            value.data,
            value.start,
            value.length,
            headers.first,
            headers.key.data,
            headers.key.start,
            headers.key.length,
            headers.value.data,
            headers.value.start,
            headers.value.length,
            scratch,
            state,
        )
    )


def combine_crc32c(first: int, second: int, second_length_bytes: int) -> int:
    """CRC-32C of two byte strings behind each other, from their CRCs and the second one's length.

    As zlib's ``crc32_combine``: appending n bytes multiplies the first CRC by x^(8n) modulo the polynomial.
    """
    return _multiply(_x_to_the_power(8 * second_length_bytes), first) ^ second


def _multiply(left: int, right: int) -> int:
    """Product of two polynomials over GF(2) modulo CRC-32C's; bit 31 is the coefficient of x^0."""
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


def _x_to_the_power(exponent: int) -> int:
    power, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        exponent >>= 1
    return power
