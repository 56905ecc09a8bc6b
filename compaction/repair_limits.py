"""The bounds of repair, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairLimits:
    """What one turn may take on: it shares the workers with tiering."""

    footers_per_turn: int = 64
    """Footers that are read: new segments must not wait until repair knows about ten thousand files."""

    files_per_turn: int = 4
    """Files that are decoded again, side by side."""

    bytes_per_turn: int = 256 << 20
    """Bytes of such files; a single larger one still gets its turn, alone."""

    retry_ms: int = 300_000
    """How often what failed is tried, and missing schemas are asked for, again."""
