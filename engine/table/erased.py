"""What was erased of a partition, as the table remembers it: a property that is sealed as the ledger is.

It names no key, and is bounded: the erased offsets as ranges, the newest erasures one by one, those before as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest

MOST_ERASURES = 16
"""That stand by themselves: about 250 bytes each, which every commit writes again."""

MOST_RANGES = 1024
"""Of erased offsets: 20 KB at most. Beyond it the nearest become one, which then covers offsets that were kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """``record_count`` records of ``extent`` were erased. ``before`` and ``after`` are the digests of ``stored``, the
    ledger's range at the time. ``erasure_id`` and ``at_ms`` (since the epoch) are those of the newest of ``count``
    erasures that were folded into one."""

    erasure_id: str
    at_ms: int
    extent: OffsetRange
    record_count: int
    stored: OffsetRange
    before: RangeDigest
    after: RangeDigest
    count: int = 1

    def then(self, other: Erasure) -> Erasure:
        """This erasure and the next one, as one. Two commits of the same command are one erasure."""
        same = self.erasure_id == other.erasure_id
        return replace(
            other,
            extent=_around(self.extent, other.extent),
            record_count=self.record_count + other.record_count,
            before=self.before,
            count=self.count + other.count - same,
        )

    def to_value(self) -> dict[str, Any]:
        return {
            "id": self.erasure_id,
            "at_ms": self.at_ms,
            "extent": [self.extent.start, self.extent.end],
            "records": self.record_count,
            "stored": [self.stored.start, self.stored.end],
            "before": self.before.to_text(),
            "after": self.after.to_text(),
            "count": self.count,
        }

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        """Raises ValueError, KeyError, TypeError, Invalid for what ``to_value`` does not write."""
        return cls(
            erasure_id=str(value["id"]),
            at_ms=int(value["at_ms"]),
            extent=_range(value["extent"]),
            record_count=int(value["records"]),
            stored=_range(value["stored"]),
            before=RangeDigest.from_text(value["before"]),
            after=RangeDigest.from_text(value["after"]),
            count=int(value["count"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecords:
    """Of one partition: ``offsets`` rising ranges that hold every erased offset, ``erasures`` oldest first."""

    offsets: tuple[OffsetRange, ...] = ()
    erasures: tuple[Erasure, ...] = ()

    @property
    def record_count(self) -> int:
        return sum(erasure.record_count for erasure in self.erasures)

    def with_erasure(self, erasure: Erasure, offsets: Sequence[OffsetRange]) -> ErasedRecords:
        """One more, of records at ``offsets``."""
        known = list(self.erasures)
        if known and known[-1].erasure_id == erasure.erasure_id:
            known[-1] = known[-1].then(erasure)
        else:
            known.append(erasure)
        while len(known) > MOST_ERASURES:
            known[:2] = [known[0].then(known[1])]
        return ErasedRecords(offsets=_joined([*self.offsets, *offsets]), erasures=tuple(known))

    def at(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[n]: which of ``offsets`` int64[n] lie in an erased range."""
        starts = np.array([item.start for item in self.offsets], np.int64)
        ends = np.array([item.end for item in self.offsets], np.int64)
        place = np.searchsorted(starts, offsets, "right") - 1
        inside: NDArray[np.bool_] = place >= 0
        inside[inside] = offsets[inside] < ends[place[inside]]
        return inside

    def to_json(self) -> str:
        return json.dumps(
            {
                "offsets": [[item.start, item.end] for item in self.offsets],
                "erasures": [erasure.to_value() for erasure in self.erasures],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(
                offsets=tuple(map(_range, value["offsets"])),
                erasures=tuple(map(Erasure.from_value, value["erasures"])),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"a list of erasures is not the JSON that this program writes: {error!r}") from error


def ranges_of(offsets: NDArray[np.int64]) -> tuple[OffsetRange, ...]:
    """Rising offsets int64[n] as ranges of those side by side."""
    if not len(offsets):
        return ()
    cuts = np.flatnonzero(np.diff(offsets) > 1)
    starts, lasts = offsets[np.append(0, cuts + 1)], offsets[np.append(cuts, len(offsets) - 1)]
    return tuple(
        OffsetRange(start=start, end=last + 1) for start, last in zip(starts.tolist(), lasts.tolist(), strict=True)
    )


def _joined(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Those that touch as one, and then the nearest ones, until there are few enough."""
    touching: list[OffsetRange] = []
    for item in sorted(ranges):
        if touching and item.start <= touching[-1].end:
            touching[-1] = _around(touching[-1], item)
        else:
            touching.append(item)
    too_many = len(touching) - MOST_RANGES
    if too_many <= 0:
        return tuple(touching)
    gaps = np.array([two.start - one.end for one, two in pairwise(touching)], np.int64)
    closed = set(np.argsort(gaps, kind="stable")[:too_many].tolist())
    joined = touching[:1]
    for at, item in enumerate(touching[1:]):
        if at in closed:
            joined[-1] = _around(joined[-1], item)
        else:
            joined.append(item)
    return tuple(joined)


def _around(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    return OffsetRange(start=min(one.start, other.start), end=max(one.end, other.end))


def _range(value: Any) -> OffsetRange:
    start, end = value
    return OffsetRange(start=int(start), end=int(end))
