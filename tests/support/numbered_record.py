"""Records that differ by their number: a value, a key and headers, each of which is now and then absent."""

from __future__ import annotations

import random

from tests.support.auditor import Record


def numbered_value(number: int, size_bytes: int) -> bytes:
    """About ``size_bytes`` that don't compress, so that segments close by what was produced."""
    return b"%010d " % number + random.Random(number).randbytes(size_bytes)


def numbered_record(number: int, size_bytes: int) -> Record:
    """Now and then without key, without value, empty, or with headers."""
    value: bytes | None = numbered_value(number, size_bytes)
    if number % 97 == 0:
        value = None if number % 2 else b""
    return Record(
        key=None if number % 5 == 0 else b"key-%d" % (number % 100),
        value=value,
        headers=(("n", b"%d" % number), ("n", None)) if number % 31 == 0 else (),
        timestamp_ms=1_750_000_000_000 + number,
    )
