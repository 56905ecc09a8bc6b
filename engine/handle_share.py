"""How many of the process's file handles one part of it may hold at once."""

from __future__ import annotations

import resource

FEWEST_HANDLES = 4
"""A part that had none could not work at all."""


def handle_share(part: int, *, most: int) -> int:
    """One ``part``-th of the handles that this process may have (RLIMIT_NOFILE), at most ``most``."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return most
    return max(FEWEST_HANDLES, min(limit // part, most))
