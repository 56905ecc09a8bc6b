"""The segment that a partition's records wait in where they wait for it to close, and when Kafka will do that."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.kafka_log.record_batch import HEADER_SIZE_BYTES, parse_header

_SEGMENT_BYTES, _SEGMENT_MS = "segment.bytes", "segment.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBounds:
    """A topic's own, by its configuration: Kafka closes a segment that would pass ``size_bytes``, and with the first
    record that comes ``age_ms`` after its first batch. None where the broker did not say."""

    size_bytes: int | None = None
    age_ms: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SegmentBounds:
        return cls(size_bytes=_number(config, _SEGMENT_BYTES), age_ms=_number(config, _SEGMENT_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """``closes_at_ms``: by the machine's clock, None where that is not known."""

    size_bytes: int
    bounds: SegmentBounds
    closes_at_ms: int | None


def look_at(path: Path, bounds: SegmentBounds) -> OpenSegment | None:
    """The active segment at ``path``; None where it is gone, or empty. Source: Kafka's ``LogSegment.shouldRoll``."""
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(HEADER_SIZE_BYTES)
            size_bytes = path.stat().st_size
        first_ms = parse_header(head).max_timestamp_ms
    except (OSError, struct.error):
        return None
    closes_at_ms = None if bounds.age_ms is None else first_ms + bounds.age_ms
    return OpenSegment(size_bytes=size_bytes, bounds=bounds, closes_at_ms=closes_at_ms)


def _number(config: Mapping[str, str], name: str) -> int | None:
    text = config.get(name, "")
    return int(text) if text.isdecimal() else None
