"""A catalog written in Java refuses what is ahead of its clock, and says so with two times.

Source: Iceberg's ``TableMetadata``: "Invalid update timestamp %s: before last snapshot log entry at %s". The first is
the catalog's own time; the second, which we gave, is more than a minute (``ONE_MINUTE``) later.
"""

from __future__ import annotations

import re

from engine.errors import Unavailable

AHEAD_TOLERATED_MS = 60_000
"""Iceberg's ``ONE_MINUTE``."""

CLOCK_NEXT_STEP = (
    "set the clock right (timedatectl, chronyc tracking), here or, where that one is behind, on the catalog's"
)

_REFUSAL = re.compile(r"Invalid update timestamp (\d+): before .*? at (\d+)")


def clock_refusal(answer: str, *, now_ms: int, where: str) -> Unavailable | None:
    """What a catalog's refusal says of clocks; None where it is about something else. ``now_ms``: this machine's."""
    found = _REFUSAL.search(answer)
    if found is None:
        return None
    catalogs_ms, snapshot_ms = int(found[1]), int(found[2])
    ahead_ms = now_ms - catalogs_ms
    if ahead_ms > AHEAD_TOLERATED_MS:
        return Unavailable(ahead_problem(ahead_ms), file=where, next_step=f"{CLOCK_NEXT_STEP}; commits go on then")
    return Unavailable(
        "the catalog refuses the commit: by its clock "
        f"the table has a snapshot from {(snapshot_ms - catalogs_ms) // 1000} s to come",
        file=where,
        next_step="see that the clocks of all that commit to the table are right, and the catalog's; commits go on by "
        "themselves once that time is less than a minute away",
    )


def ahead_problem(ahead_ms: int) -> str:
    """What is wrong with a machine's clock that is so far ahead of the catalog's."""
    return (
        f"this machine's clock is {ahead_ms // 1000} s ahead of the catalog's, which refuses snapshots that are more "
        "than a minute ahead"
    )
