"""The bounds of tiering, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backoff import Backoff

_LONGEST_PAUSE_MS = 30_000
"""Between cycles, or tries of one partition, that fail every time: what is back again is found within that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringLimits:
    """What a cycle may take on, and what the spool may hold."""

    max_tasks_per_cycle: int = 16
    """Bounds how long the ranges of one plan keep others waiting, and how much work a kill throws away."""

    small_range_bytes: int = 4 << 20
    """Ranges up to so many bytes of a segment count as the part of a task that they cost: a thousand partitions that
    each have a kilobyte every few seconds are no more than a cycle carries. Larger ones are worked on beside the
    cycles."""

    max_bytes_per_cycle: int = 4 << 30
    """Bytes of segments a cycle; a single larger segment still gets its turn, alone."""

    spool_max_bytes: int = 16 << 30
    """Bytes of segments held by hard links. Kafka may delete its own names at any time, so every link counts fully."""

    cycle_interval_ms: int = 1_000
    """Pause between cycles when nobody hurries; a busy loop goes on at once."""

    lag_interval_ms: int = 5_000
    """How often the active segments of partitions that are led here are looked at, for the lag that is shown, and the
    offsets of those that grow asked for."""

    leaders_interval_ms: int = 30_000
    """How often it is asked who leads what, of all topics: a change of leaders that no file here shows."""

    config_interval_ms: int = 30_000
    """How often a topic's configuration is asked for: it may turn to native mode while it runs."""

    reload_interval_ms: int = 30_000
    """How often a table is read again while another daemon may be committing to it, and a topic has its turn."""

    schema_patience_ms: int = 60_000
    """How long a registry that is away may hold its topics up before their records are kept raw instead."""

    schema_retry_ms: int = 300_000
    """How long an id stays given up before it is asked for again."""

    format_patience_ms: int = 300_000
    """How long a topic's few first values, when they are text or bytes, wait for more to tell its format by."""

    stopped_retry_ms: int = 60_000
    """How often a partition that was stopped is looked at again: an operator may have repaired what was wrong."""

    @property
    def pauses(self) -> Backoff:
        """Between cycles, or tries of one partition, by how many have failed in a row."""
        first_ms = self.cycle_interval_ms
        return Backoff(first_ms=first_ms, longest_ms=max(first_ms, _LONGEST_PAUSE_MS))
