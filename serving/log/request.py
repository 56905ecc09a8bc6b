"""What a request of the plugin asks for, read from its path and query. Everything wrong with it is Invalid."""

from __future__ import annotations

import re

from starlette.requests import Request

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from serving.log.backend import RemoteSegment

MAX_OFFSETS_A_SEGMENT = 2**31
"""Kafka's own bound: relative offsets are int32."""
MAX_OFFSET = 2**63 - 1
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def segment_of(request: Request) -> RemoteSegment:
    """The segment that the path and ``start``, ``end`` (half-open) name."""
    start, end = number(request, "start"), number(request, "end")
    if not start < end <= start + MAX_OFFSETS_A_SEGMENT:
        raise Invalid(f"A segment has offsets start < end, at most 2^31 of them, not [{start}, {end})")
    partition = request.path_params["partition"]
    if partition > 2**31 - 1:
        raise Invalid(f"{partition} is no partition")
    topic_id = _topic_id(request.path_params["topic_id"])
    return RemoteSegment(topic_id=topic_id, partition=partition, range=OffsetRange(start=start, end=end))


def number(request: Request, name: str, default: int | None = None) -> int:
    """A parameter of the query, a decimal number from 0 to 2^63 - 1."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > MAX_OFFSET:
        raise Invalid(f"The query needs {name}=<a number from 0 to 2^63 - 1>, not {text!r}")
    return int(text)


def _topic_id(text: str) -> str:
    """Kafka's text form of a UUID: 22 characters of URL-safe base64 without padding (Uuid.toString)."""
    if not _TOPIC_ID.fullmatch(text):
        raise Invalid(f"{text!r} is no topic id: it has 22 characters of URL-safe base64")
    return text
