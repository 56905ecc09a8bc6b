"""How much the loop of the newest records does at once, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestLimits:
    """``cpu_share`` of one core that it may take, over its turns and pauses.

    ``fold_rows``: rows whose keys are in memory at once, but for a file that has more; a commit takes in about so many.
    ``build_factor``: with so many times as many rows to come, and more to come than there are, a partition is built
    whole: superseding rows commit by commit would write every delete file again each time. ``look_interval_ms``: how
    long a table may be believed unchanged that no commit of this process changed. ``policy_interval_ms``: how long the
    broker's answer about a topic's cleanup is believed. ``retry_ms``: how long what failed is left alone.
    """

    cpu_share: float = 0.5
    fold_rows: int = 1_000_000
    build_factor: int = 4
    look_interval_ms: int = 300_000
    policy_interval_ms: int = 300_000
    retry_ms: int = 60_000
