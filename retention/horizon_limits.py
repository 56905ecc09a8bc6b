"""The bounds of the loop that moves horizons, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonLimits:
    look_interval_ms: int = 30_000
    """How often the brokers' log starts are looked at, so that the next append takes them along."""

    move_interval_ms: int = 600_000
    """A table's files are looked at, and its horizons moved by a commit of their own, no more often: a horizon that
    moves with every record must not make a commit a minute in a quiet topic."""

    files_per_move: int = 1_000
    """Of a table in one commit: their footers are read, and their manifests written again."""
