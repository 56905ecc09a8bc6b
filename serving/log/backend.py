"""The port behind the log door: what a segment of the broker is, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.table.proof.verifier import VerifiedRange
from serving.log.auxiliary_state import AuxiliaryState


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A closed segment as the broker knows it; ``range`` is half-open. Segment ids play no part."""

    topic_id: str
    partition: int
    range: OffsetRange

    def __str__(self) -> str:
        return f"{self.range} of partition {self.partition} of topic id {self.topic_id}"


class NoSuchSegment(Invalid):
    """There is nothing for these offsets, and asking again won't help."""


class LogDoorBackend(Protocol):
    """Called from several threads. Every method may raise Unavailable (ask again) and Corrupt (tell the operator)."""

    def verified(self, segment: RemoteSegment) -> VerifiedRange | None:
        """The proof that every offset of the segment is safe in the table; None while it is not there yet."""

    def hurry(self, segment: RemoteSegment) -> None:
        """Somebody waits for this segment. Returns at once."""

    def keep_auxiliary_state(self, segment: RemoteSegment, state: AuxiliaryState) -> None:
        """Store it durably. Doing so again, for the same range, replaces it."""

    def auxiliary_state(self, segment: RemoteSegment) -> AuxiliaryState:
        """What was kept for exactly this range. Raises NoSuchSegment when nothing was."""

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        """Record batches v2 from offset ``start`` on, made as they are asked for; ends with the batch that reaches
        ``max_bytes``, or at the segment's end. At least one batch. Batches extend over the gaps behind them.

        Raises NoSuchSegment when the offsets lie below the recorded log start.
        """

    def offset_grid(self, segment: RemoteSegment) -> NDArray[np.int64]:
        """Rising relative offsets (int64[n], each above 0) on which batches begin."""

    def time_index(self, segment: RemoteSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(timestamp_ms int64[n], relative offset int64[n]): no record before an entry's offset has its timestamp or
        a later one."""

    def release(self, segment: RemoteSegment) -> None:
        """A hint: the broker needs this copy no longer. Removes only what no other copy can need. Never fails for a
        segment that is unknown."""
