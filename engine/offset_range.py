"""A half-open range of offsets, the one type for every range in the program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """Offsets ``start <= offset < end`` of one partition. A range may hold fewer records than offsets."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"an offset range needs 0 <= start <= end, not [{self.start}, {self.end})")

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    @property
    def offset_count(self) -> int:
        """How many offsets the range covers (not how many records it holds)."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        return self.start == self.end

    def covers(self, other: OffsetRange) -> bool:
        """True when every offset of ``other`` is in this range."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: OffsetRange) -> bool:
        """True when the two share at least one offset."""
        return max(self.start, other.start) < min(self.end, other.end)

    def intersection(self, other: OffsetRange) -> OffsetRange | None:
        """The offsets both hold, or None when there are none."""
        if not self.overlaps(other):
            return None
        return OffsetRange(start=max(self.start, other.start), end=min(self.end, other.end))

    def joined(self, other: OffsetRange) -> OffsetRange | None:
        """Both as one, or None when offsets lie between them."""
        if max(self.start, other.start) > min(self.end, other.end):
            return None
        return OffsetRange(start=min(self.start, other.start), end=max(self.end, other.end))
