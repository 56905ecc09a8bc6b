"""How far the closed segments are worked off that wait for the tables, in words."""

from __future__ import annotations

from serving.status.daemon_status import BacklogStatus
from serving.status.page import duration_text, size_text


def backlog_line(backlog: BacklogStatus) -> str:
    """For people: which segment of how many, and how fast."""
    count = backlog.done_segments + backlog.left_segments
    at = min(backlog.done_segments + 1, count)
    sizes = f"{size_text(backlog.done_bytes)} done, {size_text(backlog.left_bytes)} left"
    said = f"segment {at:,} of {count:,}: {sizes}"
    if backlog.bytes_per_second is None or backlog.left_ms is None:
        return said
    return f"{said}, {size_text(backlog.bytes_per_second)}/s, about {duration_text(backlog.left_ms)} to go"
