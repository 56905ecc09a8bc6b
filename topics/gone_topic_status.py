"""What is known of a table whose topic the broker has no more: the plain values that people are shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneTopicStatus:
    """As of the last look. ``since_ms`` (since the epoch): when it was noted first that the topic is gone, None while
    that is in doubt; ``kept``: why the table stays, None of one that was dropped or will be; ``drops_at_ms`` when that
    is, where nothing else keeps it; ``is_dropped``: it was, and its files are not all gone."""

    topic: str
    topic_id: str
    table: str
    since_ms: int | None = None
    kept: str | None = None
    drops_at_ms: int | None = None
    is_dropped: bool = False

    @property
    def state(self) -> str:
        """In one word: kept, waiting or dropped."""
        if self.is_dropped:
            return "dropped"
        return "kept" if self.kept is not None else "waiting"
