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
MAX_PARTITION = 2**31 - 1
SHOWN_CHARACTERS = 40
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


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
