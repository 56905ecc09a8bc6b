"""How long a topic's records are kept: for its consumers, and for whoever queries its table."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """``age_ms``: a file goes when its newest record is older. ``size_bytes``: the oldest file of a partition goes
    while the others hold as much. Each None for no bound; else as Kafka's ``retention.ms`` and ``retention.bytes``."""

    age_ms: int | None = None
    size_bytes: int | None = None

    @property
    def is_for_ever(self) -> bool:
        return self.age_ms is None and self.size_bytes is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """``stream`` None: consumers have what the broker's log start says."""

    stream: Keep | None = None
    table: Keep = field(default_factory=Keep)
