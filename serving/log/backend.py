"""The port behind the log door: what a segment of the broker is, how a request names it, what can be asked about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.table.proof.verifier import VerifiedRange
from serving.log.auxiliary_state import AuxiliaryState

MAX_OFFSETS_A_SEGMENT = 2**31
"""Kafka's own bound: relative offsets are int32."""
MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1
SHOWN_CHARACTERS = 40
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


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


def segment_of(request: Request) -> RemoteSegment:
    """The segment that the path and ``start``, ``end`` (half-open) name."""
    start, end = number(request, "start"), number(request, "end")
    if not start < end <= start + MAX_OFFSETS_A_SEGMENT:
        raise Invalid(f"A segment has offsets start < end, at most 2^31 of them, not [{start}, {end})")
    return RemoteSegment(
        topic_id=_topic_id(request.path_params["topic_id"]),
        partition=_partition(request.path_params["partition"]),
        range=OffsetRange(start=start, end=end),
    )


def number(request: Request, name: str, default: int | None = None) -> int:
    """A parameter of the query, a decimal number from 0 to 2^63 - 1."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    found = None if text is None else _decimal(text, MAX_OFFSET)
    if found is None:
        raise Invalid(f"The query needs {name}=<a number from 0 to 2^63 - 1>, not {_shown(text)}")
    return found


def _partition(text: str) -> int:
    found = _decimal(text, MAX_PARTITION)
    if found is None:
        raise Invalid(f"{_shown(text)} is no partition: they are numbers from 0 to 2^31 - 1")
    return found


def _decimal(text: str, largest: int) -> int | None:
    """A decimal number up to ``largest``. Its digits are counted first: Python refuses to read thousands of them."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(largest)):
        return None
    found = int(text)
    return found if found <= largest else None


def _shown(text: str | None) -> str:
    """For a message: the beginning is enough."""
    return repr(text if text is None else text[:SHOWN_CHARACTERS])


def _topic_id(text: str) -> str:
    """Kafka's text form of a UUID: 22 characters of URL-safe base64 without padding (Uuid.toString)."""
    if not _TOPIC_ID.fullmatch(text):
        raise Invalid(f"{_shown(text)} is no topic id: it has 22 characters of URL-safe base64")
    return text


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
        ``max_bytes``, or at the segment's end. At least one batch. Batches extend over the gaps before them; what lies
        below the recorded log start is one too.

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
