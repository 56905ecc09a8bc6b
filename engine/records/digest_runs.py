"""Digests of runs of records that lie side by side in offsets but anywhere in files, put together in offset order.

A run is what one batch of rows, put in order, has of consecutive offsets. Rows in order make few, long runs; rows
sorted by something else make a run of each record, which costs 32 bytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest, canonical_form
from engine.records.record_kernels import FIXED_HEADER_BYTES, FIXED_RECORD_BYTES, combined_crc32c
from engine.records.records import ByteSpans, Records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DigestRuns:
    """``n`` runs: ``first`` and ``last`` offset int64[n], ``crc32c`` uint32[n], ``length_bytes`` int64[n] of their
    records' canonical forms, ``record_count`` int64[n]."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    crc32c: NDArray[np.uint32]
    length_bytes: NDArray[np.int64]
    record_count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All runs of several, rising by their first offset."""
        held = list(parts)
        if not held:
            return cls(
                first=np.empty(0, np.int64),
                last=np.empty(0, np.int64),
                crc32c=np.empty(0, np.uint32),
                length_bytes=np.empty(0, np.int64),
                record_count=np.empty(0, np.int64),
            )
        whole = cls(
            first=np.concatenate([part.first for part in held]),
            last=np.concatenate([part.last for part in held]),
            crc32c=np.concatenate([part.crc32c for part in held]),
            length_bytes=np.concatenate([part.length_bytes for part in held]),
            record_count=np.concatenate([part.record_count for part in held]),
        )
        return whole.select(np.argsort(whole.first, kind="stable"))

    @classmethod
    def of_digest(cls, offsets: OffsetRange, digest: RangeDigest) -> Self:
        """A range whose digest is known, as one run."""
        return cls(
            first=np.array([offsets.start], np.int64),
            last=np.array([offsets.end - 1], np.int64),
            crc32c=np.array([digest.crc32c], np.uint32),
            length_bytes=np.array([digest.length_bytes], np.int64),
            record_count=np.array([digest.record_count], np.int64),
        )

    def select(self, runs: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        return type(self)(
            first=self.first[runs],
            last=self.last[runs],
            crc32c=self.crc32c[runs],
            length_bytes=self.length_bytes[runs],
            record_count=self.record_count[runs],
        )

    def inside(self, offsets: OffsetRange) -> Self:
        """The runs that begin in a range."""
        return self.select((self.first >= offsets.start) & (self.first < offsets.end))

    @property
    def digest(self) -> RangeDigest:
        """Of all records, in the order of the runs."""
        return RangeDigest(
            crc32c=int(combined_crc32c(self.crc32c, self.length_bytes)),
            length_bytes=int(self.length_bytes.sum()),
            record_count=int(self.record_count.sum()),
        )

    @property
    def first_repeated(self) -> int | None:
        """The first offset, by rising runs, that an earlier run has too."""
        again = np.flatnonzero(self.first[1:] <= np.maximum.accumulate(self.last)[:-1])
        return int(self.first[1:][again[0]]) if len(again) else None


def runs_of(records: Records, cuts: NDArray[np.int64]) -> DigestRuns:
    """The runs of at least one record, in offset order; a run ends before each offset in ``cuts`` (rising) too."""
    offset = records.offset
    end = np.cumsum(_canonical_bytes(records))
    written = canonical_form(records, int(end[-1]))
    breaks = np.diff(offset) != 1
    breaks |= np.diff(np.searchsorted(cuts, offset, "right")) != 0
    starts = np.flatnonzero(np.concatenate([[True], breaks]))
    ends = np.append(starts[1:], len(offset))
    begin_bytes = np.concatenate([[0], end])[starts]
    end_bytes = end[ends - 1]
    pairs = zip(begin_bytes.tolist(), end_bytes.tolist(), strict=True)
    return DigestRuns(
        first=offset[starts].astype(np.int64),
        last=offset[ends - 1].astype(np.int64),
        crc32c=np.array([crc32c.crc32c(written[begin:stop]) for begin, stop in pairs], np.uint32),
        length_bytes=(end_bytes - begin_bytes).astype(np.int64),
        record_count=(ends - starts).astype(np.int64),
    )


def _canonical_bytes(records: Records) -> NDArray[np.int64]:
    """Bytes of each record's canonical form: int64[n]."""
    size = FIXED_RECORD_BYTES + _bytes_of(records.key) + _bytes_of(records.value)
    if records.headers is not None:
        headers = records.headers
        one = FIXED_HEADER_BYTES + _bytes_of(headers.key) + _bytes_of(headers.value)
        until = np.concatenate([[0], np.cumsum(one)])
        size += until[headers.first[1:]] - until[headers.first[:-1]]
    return size


def _bytes_of(spans: ByteSpans) -> NDArray[np.int64]:
    return np.maximum(spans.length, 0).astype(np.int64)
